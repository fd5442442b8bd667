"""What must be true of the store's folder and file before SQLite opens them (spec section 10)."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import sqlite3
import stat

from term2_acp.errors import StoreError
from term2_acp.folders import make_folder

_OTHERS = 0o077
_HEADER_BYTES = 100
_FORMATS = {1, 2}  # without and with such a journal


def make_private_folder(path: str) -> None:
    """
    Make a folder for its owner alone, or take others' access to it away.

    A folder that its owner made read-only stays so.

    Raises:
        OSError: it cannot be made.
    """
    make_folder(path)
    _take_from_others(path)


def check_journal(path: str) -> None:
    """
    Refuse a journal whose database is gone: SQLite would delete it.

    Raises:
        StoreError: it is there and the database is not, or is empty.
    """
    # In this order: a database that is being made has its first page before its journal.
    if _size(f"{path}-wal") and not _size(path):
        raise StoreError(
            f"the session store {path} is damaged: it is empty or gone, but its journal {path}-wal"
            " is there; put it back, or move the journal away to start with an empty one"
        )


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def make_private_file(path: str) -> None:
    """
    Make an empty file for its owner alone, or take others' access to it away.

    Raises:
        OSError: it cannot be made, or written.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        # Not opened: a close would give up the locks that SQLite has on it.
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path) from None
        _take_from_others(path)
        if not os.access(path, os.R_OK | os.W_OK):
            # SQLite would read it all the same, and fail at the first write.
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path) from None
    else:
        os.close(fd)


def _take_from_others(path: str) -> None:
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & _OTHERS:
        os.chmod(path, mode & ~_OTHERS)


def check_locks(directory: str) -> None:
    """
    Try both kinds of locks that the store relies on, on a file that is there for a moment.

    SQLite would take a file system without locks for one on which somebody else has them.

    Raises:
        OSError: there are none, or no file can be made.
    """
    path = os.path.join(directory, f"probe-{secrets.token_hex(8)}")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(fd, fcntl.LOCK_UN)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.unlink(path)
        os.close(fd)


def check_whole(path: str) -> None:
    """
    Refuse a database whose end was cut off: SQLite reads a part of a page as zeros.

    With a journal it is not judged: what is missing may be in there.

    Raises:
        sqlite3.DatabaseError: bytes are missing.
    """
    try:
        if os.path.getsize(f"{path}-wal") > 0:
            return
    except FileNotFoundError:
        pass
    with open(path, "rb") as file:
        header = file.read(_HEADER_BYTES)
        size = os.fstat(file.fileno()).st_size
    if header and not set(header[18:20]) <= _FORMATS:
        # SQLite would read it, and call it one that may not be written.
        raise _damaged("an unknown format")
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    # The number of pages counts when it was written by the last change.
    if header[24:28] == header[92:96] and size < pages * (65536 if page == 1 else page):
        raise _damaged("bytes are missing at the end")


def _damaged(text: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(text)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error
