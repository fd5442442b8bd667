"""
Putting new content into a file so that nobody ever sees half of it, and taking files away.

New content goes into a temporary file of the same folder, which then takes the name. Three kinds
of file are written in place instead, where the rename would break more than it guards: one with
several hard links that may all be edited (each name keeps showing the same file), one whose
folder takes no new files, and one that a running sandbox has mounted. Written in place, the old
content is put back if the new one cannot be written whole.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from term2_acp.files.descent import FileState
from term2_acp.files.errors import FileRefusedError

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_EXISTING = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SOURCE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE_BITS = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_SET_ID_BITS = stat.S_ISUID | stat.S_ISGID
_FOLDER_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_EFFECTIVE_IDS = os.access in os.supports_effective_ids


def replace_content(
    folder: int, name: str, old: FileState, data: bytes, *, in_place: bool = False
) -> None:
    """
    Give the file `name` of an open folder the content `data`.

    Mode, owner and extended attributes stay, the owner as far as we may set it.

    Args:
        folder: the folder's descriptor.
        name: one path component.
        old: the file as it was read; it must not have changed since.
        data: the whole new content.
        in_place: keep the inode, and with it other names that the file has; without it they
            keep the old content.

    Raises:
        FileRefusedError: it is read-only, or somebody else wrote, replaced or removed it
            meanwhile, or it has other names and its folder takes no new file; nothing was
            written.
        OSError: the content cannot be written; the old one is still there.
    """
    _require_unchanged(folder, name, old)
    _require_writable(folder, name, old)
    if in_place:
        _write_in_place(folder, name, old, data)
        return
    temporary = _temporary_name()
    try:
        descriptor = os.open(temporary, _NEW, 0o600, dir_fd=folder)
    except OSError as error:
        if error.errno not in _FOLDER_CLOSED:
            raise
        if old.status.st_nlink > 1:
            raise FileRefusedError(
                "it has other names (hard links) that this call may not edit, and its folder "
                "takes no new file"
            ) from error
        _write_in_place(folder, name, old, data)
        return
    with _discarded_after(folder, temporary, descriptor):
        _write_all(descriptor, data)
        _copy_metadata(folder, name, old.status, descriptor)
        os.fsync(descriptor)
        _require_unchanged(folder, name, old)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def create_file(folder: int, name: str, data: bytes) -> None:
    """
    Make the file `name` in an open folder, with its whole content at once.

    Raises:
        FileExistsError: the name is taken; what has it is untouched.
        OSError: the file cannot be made; nothing of it is left.
    """
    temporary = _temporary_name()
    descriptor = os.open(temporary, _NEW, 0o666, dir_fd=folder)
    with _discarded_after(folder, temporary, descriptor):
        _write_all(descriptor, data)
        os.fsync(descriptor)
        try:
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            # An empty file takes the name exclusively, then the content takes its place.
            os.close(os.open(name, _NEW, 0o666, dir_fd=folder))
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def set_aside(folder: int, name: str, old: FileState) -> str:
    """
    Take the file `name` away from an open folder, so that it can still be brought back.

    Returns the name that it has until it is brought back or removed.

    Raises:
        FileRefusedError: as for `replace_content`; nothing was done.
        OSError: it cannot be taken away.
    """
    _require_unchanged(folder, name, old)
    _require_writable(folder, name, old)
    aside = _temporary_name()
    os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
    return aside


def bring_back(folder: int, aside: str, name: str) -> None:
    """
    Give a file that was set aside its name again.

    Raises:
        FileExistsError: somebody else has taken the name meanwhile; both files stay.
        OSError: it cannot be done; the file stays aside.
    """
    try:
        os.link(aside, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        os.close(os.open(name, _NEW, 0o600, dir_fd=folder))
        os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    os.unlink(aside, dir_fd=folder)


@contextmanager
def _discarded_after(folder: int, temporary: str, descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)
        # After a rename there is nothing left to remove.
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)


def _write_in_place(folder: int, name: str, old: FileState, data: bytes) -> None:
    descriptor = os.open(name, _EXISTING, dir_fd=folder)
    try:
        if not old.is_still(os.fstat(descriptor)):
            raise _changed_meanwhile()
        try:
            _overwrite(descriptor, data)
        except OSError:
            _overwrite(descriptor, old.data)
            raise
    finally:
        os.close(descriptor)


def _overwrite(descriptor: int, data: bytes) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    _write_all(descriptor, data)
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _require_unchanged(folder: int, name: str, old: FileState) -> None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        raise _changed_meanwhile() from None
    if not old.is_still(status):
        raise _changed_meanwhile()


def _changed_meanwhile() -> FileRefusedError:
    return FileRefusedError("it was changed by somebody else meanwhile; read it again")


def _require_writable(folder: int, name: str, old: FileState) -> None:
    # Root may write anything, but a file without a write bit is meant to be left alone.
    if not old.status.st_mode & _WRITE_BITS:
        raise FileRefusedError("it is read-only")
    if not os.access(name, os.W_OK, dir_fd=folder, effective_ids=_EFFECTIVE_IDS):
        raise FileRefusedError("it is read-only")


def _copy_metadata(folder: int, name: str, status: os.stat_result, descriptor: int) -> None:
    mode = stat.S_IMODE(status.st_mode)
    made = os.fstat(descriptor)
    if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
        try:
            os.fchown(descriptor, status.st_uid, status.st_gid)
        except PermissionError:
            # A program must not run as somebody who never owned this content.
            mode &= ~_SET_ID_BITS
            with suppress(PermissionError):
                os.fchown(descriptor, -1, status.st_gid)
    _copy_extended_attributes(folder, name, descriptor)
    # Last, since changing the owner clears bits of the mode.
    os.fchmod(descriptor, mode)


def _copy_extended_attributes(folder: int, name: str, descriptor: int) -> None:
    if sys.platform != "linux":
        return
    source = os.open(name, _SOURCE, dir_fd=folder)
    try:
        # Labels, access lists: kept where the system lets us, no reason to fail where not.
        with suppress(OSError):
            for attribute in os.listxattr(source):
                # As the kernel does on any write: new content has no capabilities yet.
                if attribute != "security.capability":
                    os.setxattr(descriptor, attribute, os.getxattr(source, attribute))
    finally:
        os.close(source)


def _temporary_name() -> str:
    return f".term2-{secrets.token_hex(8)}.tmp"
