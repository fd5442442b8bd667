"""
Checking from the kernel's own table that a sandbox has the mounts that were asked for.

bwrap resolves paths by name. A command of another sandbox in the same workspace
could swap a folder for a symlink at that moment and have something else bound,
writable. So the command starts only after this check of the finished sandbox.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

import attrs

from sandbox import paths
from sandbox.mounts import Bind, Mount

_ESCAPED = re.compile(rb"\\([0-7]{3})")


@attrs.frozen
class _Entry:
    identity: int
    parent: int
    device: str
    root: str
    mount_point: str
    options: frozenset[str]
    file_system: str


class MountTable:
    """
    The mounts of one namespace, from the text of /proc/PID/mountinfo.

    Raises:
        ValueError: the text is no such table.
    """

    def __init__(self, text: bytes) -> None:
        entries = [_parse(line) for line in text.split(b"\n") if line]
        known = {entry.identity for entry in entries}
        self._children: dict[int, list[_Entry]] = {}
        self._top = [
            entry
            for entry in entries
            if entry.parent not in known or entry.parent == entry.identity
        ]
        for entry in entries:
            if entry.parent != entry.identity:
                self._children.setdefault(entry.parent, []).append(entry)

    def holding(self, path: str) -> _Entry | None:
        """The mount that a look-up of the real path `path` ends in."""
        current = _outermost(path, self._top)
        deeper = current
        while deeper is not None:
            current = deeper
            deeper = _outermost(path, self._children.get(current.identity, ()))
        return current


def mismatch(wanted: Iterable[Mount], inside: MountTable, host: MountTable) -> str | None:
    """The destination of the first mount that is not as wanted, None if all are."""
    for mount in wanted:
        found = inside.holding(mount.dest)
        if found is None or found.mount_point != mount.dest:
            return mount.dest
        if not isinstance(mount, Bind):
            if found.file_system != "tmpfs" or (mount.sealed and "ro" not in found.options):
                return mount.dest
            continue
        origin = host.holding(mount.source)
        if origin is None or found.device != origin.device:
            return mount.dest
        below = os.path.relpath(mount.source, origin.mount_point)
        if found.root != os.path.normpath(os.path.join(origin.root, below)):
            return mount.dest
        if not mount.writable and "ro" not in found.options:
            return mount.dest
    return None


def _outermost(path: str, entries: Iterable[_Entry]) -> _Entry | None:
    """A look-up walks down from the root, so it meets the shortest mount point first."""
    holding = (entry for entry in entries if paths.is_within(path, entry.mount_point))
    return min(holding, key=lambda entry: len(entry.mount_point), default=None)


def _parse(line: bytes) -> _Entry:
    fields = line.split(b" ")
    if len(fields) < 10 or b"-" not in fields[6:-3]:
        raise ValueError(f"no line of a mount table: {line!r}")
    return _Entry(
        identity=int(fields[0]),
        parent=int(fields[1]),
        device=fields[2].decode("ascii"),
        root=_unescape(fields[3]),
        mount_point=_unescape(fields[4]),
        options=frozenset(fields[5].decode("ascii").split(",")),
        file_system=fields[fields.index(b"-", 6) + 1].decode("ascii"),
    )


def _unescape(field: bytes) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), field))
