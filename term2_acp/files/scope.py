"""What one approved call may touch: every access asks, and no link is followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.ports import AccessMode
from term2_acp.files import descent, writing
from term2_acp.files.descent import FileState
from term2_acp.files.errors import AccessDenied, FileRefusedError, file_errors
from term2_acp.files.folder import OpenFolder
from term2_acp.files.hard_links import all_names_allowed
from term2_acp.files.ledger import Knowledge, ReadLedger
from term2_acp.files.locks import EDIT_LOCKS

if TYPE_CHECKING:
    from term2_acp.workspace import Workspace


@attrs.frozen
class FileEdit:
    """
    One file while its edit lock is held.

    Args:
        path: its real path.
        state: the file as it is, or None where there is none.
        shown: its path as people and models are shown it.
        in_place: whether an existing file keeps its inode, and with it its other names.
    """

    path: str
    state: FileState | None
    shown: str
    in_place: bool
    _ledger: ReadLedger

    @property
    def knowledge(self) -> Knowledge:
        """How the present content relates to what the session saw last."""
        if self.state is None:
            return Knowledge.UNSEEN
        return self._ledger.compare(self.path, self.state.data)

    @property
    def leaves_other_names(self) -> bool:
        """Whether the file has other names, which an edit does not reach."""
        return self.state is not None and self.state.status.st_nlink > 1 and not self.in_place

    @property
    def is_executable(self) -> bool:
        """Whether the file is there and its owner may run it."""
        return self.state is not None and bool(self.state.status.st_mode & stat.S_IXUSR)

    def write(self, data: bytes) -> None:
        """
        Make `data` the content of the file, or make the file with its missing folders.

        Nobody sees a half-written file, and on failure the old one is still there. The
        session then knows the new content.

        Raises:
            ToolError: the file is read-only, was changed or made by somebody else since it
                was looked at, or cannot be written.
        """
        with file_errors("write", self.shown):
            if self.state is None:
                with descent.open_parent(self.path, make=True) as (folder, name):
                    writing.create_file(folder, name, data)
            else:
                with descent.open_parent(self.path) as (folder, name):
                    writing.replace_content(folder, name, self.state, data, in_place=self.in_place)
        self.remember(data)

    def remember(self, data: bytes) -> None:
        """Note that the session knows `data` as the content of the file, as far as it did."""
        whole = self.state is None or self.knowledge is Knowledge.CURRENT
        self._ledger.record(self.path, data, whole=whole)


@attrs.frozen
class FileScope:
    """
    The files that one approved call may touch.

    Every method takes a real path (`Workspace.resolve`), asks `allowed`, and then opens it
    component by component without following links: a path that was swapped for a symbolic
    link after the approval is refused, not followed.

    Args:
        workspace: for naming paths in errors.
        ledger: what the session has seen.
        allowed: whether a real path may be reached in a mode; from any thread.
        in_place: whether an existing file at a real path keeps its inode when it is edited:
            a running sandbox guards what it has mounted, not what takes its name.
    """

    workspace: Workspace
    ledger: ReadLedger
    allowed: Callable[[str, AccessMode], bool]
    in_place: Callable[[str], bool] = lambda _path: False

    def may_read(self, path: str) -> bool:
        """Whether this call may read a real path."""
        return self.allowed(path, AccessMode.READ)

    def stat(self, path: str) -> os.stat_result | None:
        """
        Return the status of what is at `path` itself, None where nothing is.

        Raises:
            AccessDenied: the path was not granted.
            ToolError: it cannot be reached.
        """
        self._require(path, AccessMode.READ)
        with file_errors("look at", self.workspace.display(path)):
            return _status(path)

    def read(self, path: str, *, limit: int) -> bytes:
        """
        Read a regular file whole.

        Args:
            path: the real path.
            limit: the largest size to read, in bytes.

        Raises:
            AccessDenied: the path was not granted.
            ToolError: it is missing, no regular file, too large or unreadable.
        """
        self._require(path, AccessMode.READ)
        with (
            file_errors("read", self.workspace.display(path)),
            descent.open_parent(path) as (folder, name),
        ):
            return descent.read_regular(folder, name, limit=limit).data

    def open_folder(self, path: str) -> OpenFolder:
        """
        Open a folder for listing; the caller closes it.

        Raises:
            AccessDenied: the path was not granted.
            ToolError: it is missing, no folder, or unreadable.
        """
        self._require(path, AccessMode.READ)
        with file_errors("list", self.workspace.display(path)):
            return OpenFolder(path, descent.open_folder(path), self.may_read)

    def leads_to_file(self, link: str) -> bool:
        """Whether a symbolic link ends at a regular file that this call may read."""
        try:
            target = os.path.realpath(link)
            status = _status(target) if self.may_read(target) else None
        except OSError:
            return False
        return status is not None and stat.S_ISREG(status.st_mode)

    @contextmanager
    def edit(self, path: str, *, limit: int, cancel: CancelToken) -> Iterator[FileEdit]:
        """
        Look at a file and keep every other session of the process from editing it meanwhile.

        Args:
            path: the real path; nothing needs to be there.
            limit: the largest size to read, in bytes.
            cancel: ends the wait for another session.

        Raises:
            AccessDenied: the path was not granted for editing.
            ToolError: it is no regular file, too large or unreadable.
            Cancelled: `cancel` was set while another session edited the file.
        """
        self._require(path, AccessMode.EDIT)
        shown = self.workspace.display(path)
        with EDIT_LOCKS.hold(path, cancel):
            with file_errors("edit", shown):
                try:
                    state = _read_if_there(path, limit)
                except IsADirectoryError:
                    if not self.in_place(path):
                        raise
                    raise FileRefusedError(
                        "it is a folder, or a name that the sandbox keeps free while a command "
                        "or code runs; make it in a call of its own, when that has ended"
                    ) from None
                in_place = self._keeps_inode(path, state, cancel)
            yield FileEdit(path, state, shown, in_place, self.ledger)

    def _keeps_inode(self, path: str, state: FileState | None, cancel: CancelToken) -> bool:
        if state is None or state.status.st_nlink == 1:
            return self.in_place(path)
        reachable = all_names_allowed(
            path,
            state.status,
            root=self.workspace.root,
            allowed=lambda name: self.allowed(name, AccessMode.EDIT),
            check=cancel.raise_if_cancelled,
        )
        if self.in_place(path) and not reachable:
            raise FileRefusedError(
                "it has other names (hard links) that this call may not edit; change it in a "
                "call of its own, when no command or code runs"
            )
        return reachable

    def _require(self, path: str, mode: AccessMode) -> None:
        if not self.allowed(path, mode):
            shown = self.workspace.display(path)
            raise AccessDenied(f"this call is not allowed to {mode} {shown}.")


def _status(path: str) -> os.stat_result | None:
    if path == "/":
        return os.stat(path)
    try:
        with descent.open_parent(path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _read_if_there(path: str, limit: int) -> FileState | None:
    try:
        with descent.open_parent(path) as (folder, name):
            return descent.read_regular(folder, name, limit=limit)
    except FileNotFoundError:
        return None
