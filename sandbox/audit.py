"""
Protected paths before and after a command: what got past the mounts is put back.

A mount is undone when a program outside replaces the file under it (any `git
config` does, finding F4), and a symlink cannot be mounted on at all (F7). While
the file or folder that was mounted is still the one at its path, the mount held
and any change is the user's own; a replaced one may be the command's work.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
from collections.abc import Container

import attrs

from sandbox import paths
from sandbox.errors import SetupError, is_out_of_descriptors
from sandbox.protected import Survey

_LARGEST_KEPT = 1024 * 1024
# FS_IOC_GETVERSION of 64-bit Linux; file systems without it refuse.
_GET_GENERATION = 0x80087601
# Not on macOS, where this module is only imported.
_PEEK = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@attrs.frozen
class _Mounted:
    """
    A path as it was.

    Attributes:
        path: absolute.
        root: the writable folder that it lies in.
        status: identity and mode.
        content: of a file that is not large.
        generation: tells it apart from what gets its inode number later.
        pin: where there is no generation, a descriptor that keeps the number in use.
    """

    path: str
    root: str
    status: os.stat_result
    content: bytes | None
    generation: int | None
    pin: int | None


@attrs.define
class Audit:
    """What protected paths were like when it was taken; use once, then `close`."""

    _mounted: list[_Mounted] = attrs.field(factory=list)
    _links: list[tuple[str, str, str]] = attrs.field(factory=list)
    _absent: list[tuple[str, str]] = attrs.field(factory=list)

    @classmethod
    def take(cls, found: Survey) -> Audit:
        """
        Look at everything in `found`, now.

        Raises:
            SetupError: too many files are open.
        """
        audit = cls()
        with paths.Parents() as parents:
            for path, root in found.read_only:
                try:
                    audit._mounted.append(_look(path, root, parents))
                except OSError as error:
                    if is_out_of_descriptors(error):
                        audit.close()
                        raise SetupError.from_os_error(
                            f"{path} could not be watched", error
                        ) from error
        for path, root in found.links:
            with contextlib.suppress(OSError):
                audit._links.append((path, root, os.readlink(path)))
        audit._absent.extend(found.absent)
        return audit

    def restore(self, returned: Container[str] = ()) -> tuple[str, ...]:
        """
        Put back what was replaced; the paths concerned.

        Args:
            returned: what was absent because its folder was elsewhere, and is back with it.

        What was found in their place is kept beside them under a new name, for it
        may be the user's own work.
        """
        changed = []
        with paths.Parents() as parents:
            replaced = [seen for seen in self._mounted if _was_replaced(seen, parents)]
        for seen in replaced:
            changed.append(seen.path)
            with contextlib.suppress(OSError):
                _put_back(seen)
        for path, root, target in self._links:
            if not os.path.islink(path) or os.readlink(path) != target:
                changed.append(path)
                with contextlib.suppress(OSError), paths.parent_descriptor(path, root) as parent:
                    _displace(os.path.basename(path), parent)
                    os.symlink(target, os.path.basename(path), dir_fd=parent)
        for path, root in self._absent:
            if path not in returned and os.path.lexists(path):
                changed.append(path)
                with contextlib.suppress(OSError), paths.parent_descriptor(path, root) as parent:
                    _displace(os.path.basename(path), parent)
        return tuple(changed)

    def close(self) -> None:
        """Let the descriptors go."""
        for seen in self._mounted:
            if seen.pin is not None:
                os.close(seen.pin)
        self._mounted.clear()


def _look(path: str, root: str, parents: paths.Parents) -> _Mounted:
    descriptor = _open(os.path.basename(path), parents.of(path, root))
    with contextlib.ExitStack() as opened:
        opened.callback(os.close, descriptor)
        status = os.fstat(descriptor)
        generation = _generation(descriptor)
        content = _content(descriptor, status)
        if generation is None:
            opened.pop_all()
    return _Mounted(
        path, root, status, content, generation, descriptor if generation is None else None
    )


def _open(name: str, parent: int) -> int:
    """
    A descriptor of a file or folder; one to look at only, of what may not be read or is neither.

    A FIFO or a device is never opened for reading: that alone can have an effect.
    """
    if stat.S_IFMT(os.lstat(name, dir_fd=parent).st_mode) in (stat.S_IFREG, stat.S_IFDIR):
        try:
            return os.open(name, _READ, dir_fd=parent)
        except OSError as error:
            if is_out_of_descriptors(error):
                raise
    return os.open(name, _PEEK, dir_fd=parent)


def _generation(descriptor: int) -> int | None:
    """The number of the inode's present use, None if the file system counts none."""
    try:
        answer = fcntl.ioctl(descriptor, _GET_GENERATION, bytes(8))
    except OSError:
        return None
    return int.from_bytes(answer[:4], sys.byteorder) or None


def _content(descriptor: int, status: os.stat_result) -> bytes | None:
    """What a file holds that is not large, None of anything else and if it may not be read."""
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_KEPT:
        return None
    try:
        # As often as it takes: what is read may be less than what was asked for.
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(_LARGEST_KEPT + 1)
    except OSError:
        return None


def _was_replaced(seen: _Mounted, parents: paths.Parents) -> bool:
    """Whether it is another one now; also where that can no longer be found out."""
    try:
        now = os.lstat(seen.path)
        if not os.path.samestat(now, seen.status):
            return True
        # A file with a second name may have been changed under that one.
        to_compare = seen.content is not None and seen.status.st_nlink != 1
        if seen.generation is None and not to_compare:
            return False
        descriptor = _open(os.path.basename(seen.path), parents.of(seen.path, seen.root))
        with contextlib.ExitStack() as opened:
            opened.callback(os.close, descriptor)
            if seen.generation is not None and _generation(descriptor) != seen.generation:
                return True
            return to_compare and _content(descriptor, os.fstat(descriptor)) != seen.content
    except FileNotFoundError:
        # Only a program outside can have removed it, and nothing has its name now.
        return False
    except OSError:
        return True


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
