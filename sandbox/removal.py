"""Removing a tree that commands made: of any depth, with any rights, following no link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str) -> OSError | None:
    """
    Remove the folder `path` with everything in it; no program may be at work in it.

    Deep folders are first moved up to the top one, so that neither the length of a
    path nor the number of descriptors nor the stack grows with the depth.

    Returns:
        The first error; whatever could be removed all the same is gone.
    """
    removal = _Removal()
    with removal.trying():
        parent = os.open(os.path.dirname(path), _FOLDER)
        try:
            removal.run(os.path.basename(path), parent)
        finally:
            os.close(parent)
    return removal.failure


@attrs.define
class _Removal:
    """The removal of one tree, and what went wrong first."""

    failure: OSError | None = None

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Remember an error of the block, and go on after it."""
        try:
            yield
        except OSError as error:
            self.failure = self.failure or error

    def run(self, name: str, parent: int) -> None:
        """Remove the folder `name` of the folder `parent`."""
        with _opened(name, parent) as top:
            pending = self._empty(top)
            while pending:
                folder = pending.pop()
                with self.trying():
                    with _opened(folder, top) as descriptor:
                        pending += self._move_up(self._empty(descriptor), descriptor, top)
                    os.rmdir(folder, dir_fd=top)
        os.rmdir(name, dir_fd=parent)

    def _empty(self, folder: int) -> list[str]:
        """Remove what is no folder; the names of the folders."""
        with os.scandir(folder) as listing:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing]
        for name, is_folder in entries:
            if not is_folder:
                with self.trying():
                    os.unlink(name, dir_fd=folder)
        return [name for name, is_folder in entries if is_folder]

    def _move_up(self, names: list[str], folder: int, top: int) -> Iterator[str]:
        """Move folders from `folder` to `top`; their new names."""
        for name in names:
            moved = os.urandom(8).hex()
            # Only who may write in a folder may move it.
            with self.trying(), _opened(name, folder):
                os.rename(name, moved, src_dir_fd=folder, dst_dir_fd=top)
                yield moved


@contextmanager
def _opened(name: str, parent: int) -> Iterator[int]:
    """A descriptor of a folder, also of one that a command took its own rights away from."""
    descriptor = _open_with_all_rights(name, parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_with_all_rights(name: str, parent: int) -> int:
    mode = os.lstat(name, dir_fd=parent).st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
        _grant_all_rights(name, parent)
    return os.open(name, _FOLDER, dir_fd=parent)


def _grant_all_rights(name: str, parent: int) -> None:
    """By a path that leads to this very folder, for a folder without rights cannot be opened."""
    place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{place}", stat.S_IRWXU)
    finally:
        os.close(place)
