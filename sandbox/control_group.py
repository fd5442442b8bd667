"""
A control group that bounds the number of processes of one command, for root.

The kernel holds root to no process limit of its own, so a fork bomb would hit the machine.
Where no such group can be made, the reason is told by `probe`.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable

import attrs

from sandbox.errors import SetupError
from sandbox.init import lists_children

_PREFIX = "sandbox-"
# bwrap, the first process inside, and one that is just being replaced.
_OWN_PROCESSES = 3
# The kernel has no more numbers for processes, and takes no larger limit.
_MOST_PROCESSES = 4 * 1024 * 1024
_ATTEMPTS = 10
# What the system says of a group that was removed: before it was opened, and after that.
_GONE = (errno.ENOENT, errno.ENODEV)
_MEMBERSHIP = "/proc/self/cgroup"
_MOUNTS = "/proc/self/mountinfo"


@attrs.frozen
class ControlGroup:
    """
    A control group of one command.

    Attributes:
        path: its folder.
        most: how many processes there may be in it.
    """

    path: str
    most: int

    def make(self) -> None:
        """
        Make it, with nothing in it.

        Raises:
            OSError: it cannot be made.
        """
        _again_while_gone(self._make)

    def add(self, pid: int) -> None:
        """
        Put the process `pid` into it, and with it what that starts from now on.

        Raises:
            ProcessLookupError: it has ended.
            OSError: that cannot be done.
        """

        def join() -> None:
            if not os.path.isdir(self.path):
                self._make()
            _write(os.path.join(self.path, "cgroup.procs"), pid)

        _again_while_gone(join)

    def _make(self) -> None:
        os.mkdir(self.path)
        try:
            _write(os.path.join(self.path, "pids.max"), self.most)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(self.path)
            raise

    def remove(self) -> None:
        """
        Remove it.

        A dead process is counted until the kernel has left it for good, which nothing
        tells; then the next `make` or `sweep` removes the group.
        """
        try:
            os.rmdir(self.path)
        except FileNotFoundError:
            pass
        except OSError:
            _left.append(self)


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


# Groups of this process that could not be removed yet; appending and taking are atomic.
_left: list[ControlGroup] = []


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


def make(processes: int, place: Place) -> ControlGroup | None:
    """
    A new group for at most so many processes; None where there can be none.

    Raises:
        SetupError: it was possible before, and is not now.
    """
    if place.parent is None:
        return None
    _remove_left()
    path = os.path.join(place.parent, f"{_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
    group = ControlGroup(path, min(processes + _OWN_PROCESSES, _MOST_PROCESSES))
    try:
        group.make()
    except OSError as error:
        raise SetupError.from_os_error("the process limit could not be set", error) from error
    return group


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


def sweep(place: Place) -> None:
    """Remove the groups of processes that were killed; one with processes in it stays."""
    _remove_left()
    if place.parent is None:
        return
    with contextlib.suppress(OSError):
        for name in os.listdir(place.parent):
            owner = name.removeprefix(_PREFIX).partition("-")[0]
            if name.startswith(_PREFIX) and owner.isdecimal() and not _is_alive(int(owner)):
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(place.parent, name))


def _remove_left() -> None:
    for _ in range(len(_left)):
        with contextlib.suppress(IndexError):
            _left.pop().remove()


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


def _again_while_gone(step: Callable[[], None]) -> None:
    """
    Do a step with an empty group, which may be removed at any moment of it.

    Another server, in another namespace of processes, does not see that we live, and may take
    it for one that was left; with a process in it, it is safe.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return step()
        except OSError as error:
            if error.errno not in _GONE:
                raise
    return step()


def _write(path: str, number: int) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(str(number))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
