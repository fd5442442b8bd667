"""
Protected paths before and after a command: what got past the mounts is put back.

A mount is undone when a program outside replaces the file under it (any `git
config` does, finding F4), and a symlink cannot be mounted on at all (F7). While
the file or folder that was mounted is still the one at its path, the mount held
and any change is the user's own; a replaced one may be the command's work.
"""

from __future__ import annotations

import contextlib
import os
import stat

import attrs

from sandbox import paths
from sandbox.protected import Survey

_LARGEST_KEPT = 1024 * 1024
_PEEK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@attrs.frozen
class _Mounted:
    """A path as it was; the descriptor keeps its inode number from being used again."""

    path: str
    root: str
    descriptor: int
    status: os.stat_result
    content: bytes | None


@attrs.define
class Audit:
    """What protected paths were like when it was taken; use once, then `close`."""

    _mounted: list[_Mounted] = attrs.field(factory=list)
    _links: list[tuple[str, str, str]] = attrs.field(factory=list)
    _absent: list[tuple[str, str]] = attrs.field(factory=list)

    @classmethod
    def take(cls, found: Survey) -> Audit:
        """Look at everything in `found`, now."""
        audit = cls()
        for path, root in found.read_only:
            with contextlib.suppress(OSError):
                audit._mounted.append(_look(path, root))
        for path, root in found.links:
            with contextlib.suppress(OSError):
                audit._links.append((path, root, os.readlink(path)))
        audit._absent.extend(found.absent)
        return audit

    def restore(self) -> tuple[str, ...]:
        """
        Put back what was replaced; the paths concerned.

        What was found in their place is kept beside them under a new name, for it
        may be the user's own work.
        """
        changed = []
        for seen in self._mounted:
            with contextlib.suppress(OSError):
                if _was_replaced(seen):
                    changed.append(seen.path)
                    _put_back(seen)
        for path, root, target in self._links:
            if not os.path.islink(path) or os.readlink(path) != target:
                changed.append(path)
                with contextlib.suppress(OSError), paths.parent_descriptor(path, root) as parent:
                    _displace(os.path.basename(path), parent)
                    os.symlink(target, os.path.basename(path), dir_fd=parent)
        for path, root in self._absent:
            if os.path.lexists(path):
                changed.append(path)
                with contextlib.suppress(OSError), paths.parent_descriptor(path, root) as parent:
                    _displace(os.path.basename(path), parent)
        return tuple(changed)

    def close(self) -> None:
        """Let the descriptors go."""
        for seen in self._mounted:
            os.close(seen.descriptor)
        self._mounted.clear()


def _look(path: str, root: str) -> _Mounted:
    with paths.parent_descriptor(path, root) as parent:
        name = os.path.basename(path)
        descriptor = os.open(name, _PEEK, dir_fd=parent)
        status = os.fstat(descriptor)
        content = None
        if stat.S_ISREG(status.st_mode) and status.st_size <= _LARGEST_KEPT:
            with contextlib.suppress(OSError):
                content = _read(name, parent)
    return _Mounted(path, root, descriptor, status, content)


def _was_replaced(seen: _Mounted) -> bool:
    try:
        now = os.lstat(seen.path)
    except FileNotFoundError:
        # Only a program outside can have removed it, and nothing has its name now.
        return False
    if not os.path.samestat(now, seen.status):
        return True
    if seen.content is None or seen.status.st_nlink == 1:
        return False
    # A file with a second name may have been changed under that one.
    with paths.parent_descriptor(seen.path, seen.root) as parent:
        return _read(os.path.basename(seen.path), parent) != seen.content


def _put_back(seen: _Mounted) -> None:
    name = os.path.basename(seen.path)
    with paths.parent_descriptor(seen.path, seen.root) as parent:
        _displace(name, parent)
        if seen.content is None:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        mode = stat.S_IMODE(seen.status.st_mode)
        with open(os.open(name, flags, 0o600, dir_fd=parent), "wb") as file:
            file.write(seen.content)
            os.fchmod(file.fileno(), mode)


def _displace(name: str, parent: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        kept = f"{name}.displaced-{os.urandom(4).hex()}"
        os.rename(name, kept, src_dir_fd=parent, dst_dir_fd=parent)


def _read(name: str, parent: int) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(name, flags, dir_fd=parent), "rb") as file:
        return file.read(_LARGEST_KEPT + 1)
