"""
Checking from the kernel's own table that a sandbox has the mounts that were asked for.

bwrap resolves paths by name. A command of another sandbox in the same workspace
could swap a folder for a symlink at that moment and have something else bound,
writable. So the command starts only after this check of the finished sandbox.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Sequence

import attrs

from sandbox.mounts import Bind, Mount

_ESCAPED = re.compile(r"\\([0-7]{3})")


@attrs.frozen
class _Entry:
    identity: str
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
        lines = [_fields(line) for line in os.fsdecode(text).split("\n") if line]
        known = {fields[0] for fields in lines}
        self._found: dict[str, _Entry | None] = {}
        self._placed: dict[tuple[str | None, str], Sequence[str]] = {}
        for fields in lines:
            identity, parent = fields[:2]
            # A mount of which the one below is not shown.
            is_top = parent not in known or parent == identity
            place = (None if is_top else parent, _unescape(fields[4]))
            self._placed.setdefault(place, fields)

    def holding(self, path: str) -> _Entry | None:
        """The mount that a look-up of the real path `path` ends in."""
        if path not in self._found:
            # As the kernel does: from the folder around, then onto whatever is mounted here.
            current = None if path == "/" else self.holding(path.rpartition("/")[0] or "/")
            deeper = self._placed.get((current.identity if current else None, path))
            while deeper is not None:
                current = _entry(deeper)
                deeper = self._placed.get((current.identity, path))
            self._found[path] = current
        return self._found[path]


@functools.lru_cache(maxsize=4)
def own_table(text: bytes) -> MountTable:
    """The table of this process, which hardly ever changes."""
    return MountTable(text)


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
        below = mount.source[len(origin.mount_point.rstrip("/")) :]
        if found.root != (origin.root.rstrip("/") + below or "/"):
            return mount.dest
        if not mount.writable and "ro" not in found.options:
            return mount.dest
    return None


def _fields(line: str) -> list[str]:
    fields = line.split(" ")
    if len(fields) < 10 or "-" not in fields[6:-3] or not (fields[0] + fields[1]).isdecimal():
        raise ValueError(f"no line of a mount table: {line!r}")
    return fields


def _entry(fields: Sequence[str]) -> _Entry:
    return _Entry(
        identity=fields[0],
        device=fields[2],
        root=_unescape(fields[3]),
        mount_point=_unescape(fields[4]),
        options=frozenset(fields[5].split(",")),
        file_system=fields[fields.index("-", 6) + 1],
    )


def _unescape(field: str) -> str:
    """The kernel writes blanks, tabs, line ends and backslashes, all of them ASCII, in octal."""
    if "\\" not in field:
        return field
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), field)
