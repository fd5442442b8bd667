"""Where this process can make control groups that count processes, or why it cannot."""

from __future__ import annotations

import os

import attrs

from sandbox.init import lists_children

_MEMBERSHIP = "/proc/self/cgroup"
_MOUNTS = "/proc/self/mountinfo"


@attrs.frozen
class Place:
    """
    Where control groups can be made.

    Attributes:
        parent: a folder of the hierarchy that counts processes, None where there is none.
        reason: why there is none.
    """

    parent: str | None
    reason: str = ""


def here() -> Place:
    """Where this process may make groups; for anybody but root there is no need to."""
    if os.geteuid() != 0:
        return Place(None)
    if not lists_children():
        return Place(None, "the kernel does not list the children of a process")
    try:
        with open(_MEMBERSHIP, encoding="utf-8") as own, open(_MOUNTS, encoding="utf-8") as table:
            return find_place(own.read(), table.read())
    except (OSError, ValueError) as error:
        return Place(None, f"the control groups cannot be found: {error}")


def find_place(membership: str, mounts: str) -> Place:
    """
    Find where this process may make groups that count processes.

    Args:
        membership: the text of /proc/self/cgroup.
        mounts: the text of /proc/self/mountinfo.
    """
    groups = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    unified = mounted = None
    read_only = set()
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.partition(" ")
        root, folder, flags = fields.split(" ")[3:6]
        if "ro" in flags.split(","):
            read_only.add(folder)
        if kind == "cgroup2" and "" in groups:
            unified, unified_mount = _below(folder, root, groups[""]), folder
        elif kind == "cgroup" and "pids" in options.rpartition(" ")[2].split(","):
            mounted, mount = _below(folder, root, groups.get("pids", "/")), folder
    if mounted:
        return _writable(mounted, mount in read_only)
    if unified is None:
        return Place(None, "no hierarchy of control groups is mounted")
    return _in_unified(unified, unified_mount in read_only)


def _in_unified(own: str, read_only: bool) -> Place:
    """The nearest group, from our own upwards, whose children have a count of processes."""
    folder, hierarchy = own, own
    while os.path.exists(os.path.join(folder, "cgroup.controllers")):
        hierarchy = folder
        if "pids" in _words(os.path.join(folder, "cgroup.subtree_control")):
            return _writable(folder, read_only)
        folder = os.path.dirname(folder)
    if "pids" not in _words(os.path.join(hierarchy, "cgroup.controllers")):
        return Place(None, f"{hierarchy} has no controller of the number of processes")
    return Place(None, f"{hierarchy} does not give its groups a count of processes")


def _below(folder: str, root: str, group: str) -> str:
    """The folder of `group` in a hierarchy of which `root` is mounted at `folder`."""
    inner = group.removeprefix(root.rstrip("/")) if root != "/" else group
    return os.path.normpath(folder + "/" + inner.lstrip("/"))


def _writable(folder: str, read_only: bool) -> Place:
    if read_only or not os.access(folder, os.W_OK):
        return Place(None, f"{folder} is read-only here (a container?)")
    return Place(folder)


def _words(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().split()
    except OSError:
        return []
