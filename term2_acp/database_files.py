"""What must be true of the store's folder and file before SQLite opens them (spec section 10)."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import sqlite3
import stat

_OTHERS = 0o077
_HEADER_BYTES = 100


def make_private_folder(path: str) -> None:
    """
    Make a folder for its owner alone, or take others' access to it away.

    A folder that its owner made read-only stays so.

    Raises:
        OSError: it cannot be made.
    """
    os.makedirs(path, mode=0o700, exist_ok=True)
    _take_from_others(path)


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
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    # The number of pages counts when it was written by the last change.
    if header[24:28] == header[92:96] and size < pages * (65536 if page == 1 else page):
        error = sqlite3.DatabaseError("bytes are missing at the end")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
