"""Removing a tree that commands made: of any depth, with any rights, following no link."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str) -> OSError | None:
    """
    Remove the folder `path` with everything in it; no program may be at work in it.

    The way down and up again is gone with one descriptor, through `..`, so that neither
    the length of a path nor the number of descriptors nor the stack grows with the depth.

    Returns:
        The first error; whatever could be removed all the same is gone.
    """
    removal = _Removal()
    with removal.trying():
        parent = os.open(os.path.dirname(path), _FOLDER)
        try:
            removal.descend(os.path.basename(path), parent)
            removal.run()
        finally:
            removal.close()
            os.close(parent)
    return removal.failure


@attrs.frozen
class _Level:
    """A folder on the way down: its name, the parent's identity, and what is still to do."""

    name: str
    parent: os.stat_result
    folders: list[str]


@attrs.define
class _Removal:
    """The removal of one tree: where it is, and what went wrong first."""

    failure: OSError | None = None
    _levels: list[_Level] = attrs.field(factory=list)
    _folder: int | None = None

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Remember an error of the block, and go on after it."""
        try:
            yield
        except OSError as error:
            self.failure = self.failure or error

    def descend(self, name: str, parent: int) -> None:
        """Go into the folder `name` of `parent` and remove what is no folder there."""
        above = os.fstat(parent)
        inner = _open_with_all_rights(name, parent)
        self.close()
        self._folder = inner
        folders: list[str] = []
        self._levels.append(_Level(name, above, folders))
        with self.trying(), os.scandir(inner) as listing:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing]
            for entry, is_folder in entries:
                if is_folder:
                    folders.append(entry)
                    continue
                with self.trying():
                    os.unlink(entry, dir_fd=inner)

    def run(self) -> None:
        """Remove the folder that was gone into, the innermost ones first."""
        while self._levels and self._folder is not None:
            level = self._levels[-1]
            if level.folders:
                with self.trying():
                    self.descend(level.folders.pop(), self._folder)
                continue
            self._levels.pop()
            above = os.open("..", _FOLDER, dir_fd=self._folder)
            self.close()
            self._folder = above
            if not os.path.samestat(os.fstat(above), level.parent):
                raise OSError(errno.ESTALE, "was moved while it was being removed", level.name)
            with self.trying():
                os.rmdir(level.name, dir_fd=above)

    def close(self) -> None:
        """Let the descriptor go."""
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None


def _open_with_all_rights(name: str, parent: int) -> int:
    ensure_rights(name, parent)
    return os.open(name, _FOLDER, dir_fd=parent)


def ensure_rights(name: str, parent: int) -> None:
    """
    Let us list, enter and change the folder `name` of `parent`; do nothing to what is none.

    Raises:
        OSError: that cannot be done.
    """
    mode = os.lstat(name, dir_fd=parent).st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
        _grant_all_rights(name, parent)


def _grant_all_rights(name: str, parent: int) -> None:
    """By a path that leads to this very folder, for a folder without rights cannot be opened."""
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, stat.S_IRWXU, dir_fd=parent, follow_symlinks=False)
        return
    place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{place}", stat.S_IRWXU)
    finally:
        os.close(place)
