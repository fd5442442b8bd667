"""Questions about absolute real paths, and descents that follow no symlink."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Self

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# As the kernel.
_MOST_LINKS = 40
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def is_within(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies below it; both are absolute and normal."""
    return folder in (path, "/") or path.startswith(folder + "/")


def deepest(path: str, folders: Iterable[str]) -> str | None:
    """Of `folders` the deepest one that holds `path`, or None."""
    return max((f for f in folders if is_within(path, f)), key=len, default=None)


def ancestors(path: str, root: str) -> list[str]:
    """The folders strictly between `root` and `path`, outermost first."""
    base = root.rstrip("/")
    if not path.startswith(base + "/"):
        return []
    found = []
    end = path.find("/", len(base) + 1)
    while end != -1:
        found.append(path[:end])
        end = path.find("/", end + 1)
    return found


def is_real(path: str) -> bool:
    """Whether `path` exists and no component of it is a symlink."""
    return os.path.lexists(path) and os.path.realpath(path) == path


def follow(path: str) -> tuple[tuple[str, ...], str | None]:
    """
    The symlinks on the way to where `path` leads, and that place, which need not exist.

    No place where they lead nowhere: round in a circle, or on for longer than the kernel follows.
    """
    met: dict[str, None] = {}
    current, pending = "/", path.split("/")[::-1]
    followed = 0
    while pending:
        name = pending.pop()
        if name in ("", "."):
            continue
        step = os.path.dirname(current) if name == ".." else os.path.join(current, name)
        if name == ".." or kind(step) != stat.S_IFLNK:
            current = step
            continue
        met[step] = None
        followed += 1
        try:
            target = os.readlink(step)
        except OSError:
            return tuple(met), None
        if followed > _MOST_LINKS:
            return tuple(met), None
        current = "/" if target.startswith("/") else current
        pending += target.split("/")[::-1]
    return tuple(met), current


def kind(path: str) -> int | None:
    """The file type bits (`stat.S_IFMT`) of `path` itself, None where it cannot be seen."""
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return None


def is_special(path: str) -> bool:
    """Whether `path` leads to a FIFO, socket or device, which may block whoever opens it."""
    try:
        found = stat.S_IFMT(os.stat(path).st_mode)
    except OSError:
        return False
    return found not in (stat.S_IFREG, stat.S_IFDIR)


def read_file(path: str, most: int, *, folder: int | None = None) -> bytes:
    """
    The first `most` bytes of a regular file; never waits, as opening a FIFO would.

    Args:
        path: if `folder`, a descriptor, is given, relative to that.
        most: how many bytes at most.
        folder: see `path`.

    Raises:
        OSError: it cannot be read, is a symlink or is no regular file.
    """
    with open(os.open(path, _FILE, dir_fd=folder), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "is no regular file", path)
        return file.read(most)


class Parents:
    """
    Descriptors of the folders that hold paths, each opened once; closed at the end of a `with`.

    For many paths in few folders. A folder that is moved away meanwhile is still the one
    that it was when it was first asked for.
    """

    def __init__(self) -> None:
        self._opened: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._opened:
            os.close(self._opened.popitem()[1])

    def of(self, path: str, root: str) -> int:
        """
        The folder that holds `path`, reached from `root` through real folders.

        Raises:
            OSError: a component is missing, is a symlink or is no folder.
        """
        folder = os.path.dirname(path)
        found = self._opened.get(folder)
        if found is None:
            if folder == root:
                found = os.open(root, _DIRECTORY)
            else:
                outer = self.of(folder, root)
                found = os.open(os.path.basename(folder), _DIRECTORY, dir_fd=outer)
            self._opened[folder] = found
        return found


@contextmanager
def parent_descriptor(path: str, root: str) -> Iterator[int]:
    """
    A descriptor of the folder that holds `path`, reached from `root` through real folders.

    Raises:
        OSError: a component is missing, is a symlink or is no folder.
    """
    descriptor = os.open(root, _DIRECTORY)
    try:
        for name in os.path.relpath(os.path.dirname(path), root).split("/"):
            deeper = os.open(name, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = deeper
        yield descriptor
    finally:
        os.close(descriptor)
