"""
Opening by real path without following a single link.

A path is judged once and opened later. Between the two, any folder of it may have been
swapped for a symbolic link, so each component is opened below the one before it with
O_NOFOLLOW: what was judged is what is opened, or nothing is.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import attrs

from term2_acp.files.errors import FileRefusedError

# A descriptor to walk through needs no permission to list; macOS has no such kind.
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A fifo or a terminal line must not keep the open waiting.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK = 1 << 20
_SMALL_CHUNK = 1 << 12


@attrs.frozen
class FileState:
    """A regular file as it was read: the whole content and its status."""

    data: bytes
    status: os.stat_result

    def is_still(self, status: os.stat_result) -> bool:
        """Whether `status`, taken later, is of the same file, not written since."""
        return _identity(self.status) == _identity(status)


@contextmanager
def open_parent(real: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """
    Give a descriptor of the folder that holds `real`, and the name in it.

    With `make`, missing folders are made, and removed again if the block fails.

    Args:
        real: an absolute real path.

    Raises:
        IsADirectoryError: it is `/`, which no folder holds.
        OSError: a folder is missing, closed to us, or became a link.
    """
    *parents, name = _components(real)
    made: list[str] = []
    folder = os.open("/", _STEP)
    try:
        for index, parent in enumerate(parents):
            try:
                below = os.open(parent, _STEP, dir_fd=folder)
            except FileNotFoundError:
                if not make:
                    raise
                os.mkdir(parent, dir_fd=folder)
                made.append("/" + "/".join(parents[: index + 1]))
                below = os.open(parent, _STEP, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder, name
    except BaseException:
        for path in reversed(made):
            with suppress(OSError), open_parent(path) as (holder, last):
                os.rmdir(last, dir_fd=holder)
        raise
    finally:
        os.close(folder)


def open_folder(real: str) -> int:
    """
    Open a folder for listing; the caller closes the descriptor.

    Raises:
        OSError: it is missing, no folder, closed to us, or became a link.
    """
    if real == "/":
        return os.open("/", _LIST)
    with open_parent(real) as (folder, name):
        return open_subfolder(folder, name)


def open_subfolder(folder: int, name: str) -> int:
    """
    Open the folder `name` of an open folder for listing; the caller closes the descriptor.

    Raises:
        OSError: as for `open_folder`.
    """
    return os.open(name, _LIST, dir_fd=folder)


def read_regular(folder: int, name: str, *, limit: int) -> FileState:
    """
    Read the file `name` of an open folder whole.

    Args:
        folder: the folder's descriptor.
        name: one path component.
        limit: the largest size to read, in bytes.

    Raises:
        FileRefusedError: it is no regular file, or has more than `limit` bytes.
        IsADirectoryError: it is a folder.
        OSError: it cannot be opened or read.
    """
    # Opening a device may already do something, so the kind is asked first and again after.
    _require_regular(os.stat(name, dir_fd=folder, follow_symlinks=False))
    descriptor = os.open(name, _READ, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        _require_regular(status)
        if status.st_size > limit:
            raise _too_large(limit)
        chunks: list[bytes] = []
        total = 0
        # Files of /proc say that they are empty, so the end is where reading ends.
        size = min(max(status.st_size + 1, _SMALL_CHUNK), _CHUNK)
        while chunk := os.read(descriptor, size):
            total += len(chunk)
            if total > limit:
                raise _too_large(limit)
            chunks.append(chunk)
        return FileState(b"".join(chunks), status)
    finally:
        os.close(descriptor)


def _require_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise FileRefusedError("it is no regular file")


def _too_large(limit: int) -> FileRefusedError:
    return FileRefusedError(f"it is larger than {limit >> 20} MiB")


def _components(real: str) -> list[str]:
    if real == "/":
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    parts = real.split("/")[1:]
    if not real.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"not an absolute real path: {real!r}")
    return parts


def _identity(status: os.stat_result) -> tuple[int, int, int, int, int]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
