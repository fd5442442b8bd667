"""An open folder: what is in it, read without leaving it."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum

import attrs

from term2_acp.files import descent
from term2_acp.files.errors import FileRefusedError


class EntryKind(Enum):
    """What a name stands for; a symbolic link is not looked through."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


@attrs.frozen
class Entry:
    """One name in a folder."""

    name: str
    kind: EntryKind


@attrs.frozen
class OpenFolder:
    """
    A folder held open by its descriptor; whoever opened it closes it.

    Args:
        path: its absolute real path.
        may_read: whether a real path may be read.
    """

    path: str
    _descriptor: int = attrs.field(repr=False)
    _may_read: Callable[[str], bool] = attrs.field(repr=False)

    def entries(self) -> list[Entry]:
        """
        List what is in the folder, in no order.

        Raises:
            OSError: it cannot be listed.
        """
        with os.scandir(self._descriptor) as listing:
            return [Entry(item.name, _kind(item)) for item in listing]

    def path_of(self, name: str) -> str:
        """Return the absolute path of a name in the folder."""
        return os.path.join(self.path, name)

    def read(self, name: str, *, limit: int) -> bytes:
        """
        Read a regular file of the folder whole, at most `limit` bytes.

        Raises:
            FileRefusedError: not granted, no regular file, or too large.
            OSError: it cannot be read.
        """
        self._require(name)
        return descent.read_regular(self._descriptor, name, limit=limit).data

    def open(self, name: str) -> OpenFolder:
        """
        Open a folder of the folder.

        Raises:
            FileRefusedError: not granted.
            OSError: it cannot be opened, or is a symbolic link.
        """
        self._require(name)
        descriptor = descent.open_subfolder(self._descriptor, name)
        return OpenFolder(self.path_of(name), descriptor, self._may_read)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)

    def _require(self, name: str) -> None:
        if not self._may_read(self.path_of(name)):
            raise FileRefusedError("it is not among the paths that this call may read")


def _kind(item: os.DirEntry[str]) -> EntryKind:
    if item.is_symlink():
        return EntryKind.LINK
    if item.is_dir(follow_symlinks=False):
        return EntryKind.FOLDER
    return EntryKind.FILE if item.is_file(follow_symlinks=False) else EntryKind.OTHER
