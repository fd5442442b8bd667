"""Which process owns a session: a lock file each, freed by the owner's death (spec section 10)."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from term2_acp.errors import SessionInUseError, StoreError, remedy


def owner_of(directory: str, session_id: str) -> int | None:
    """
    The living process that says that it owns a session; None if there seems to be none.

    Nothing is locked to find out, so that nobody who asks for the session is refused.
    """
    try:
        with open(_path(directory, session_id), encoding="ascii") as file:
            pid = int(file.read(32))
        os.kill(pid, 0)
    except (OSError, ValueError):
        return None
    return pid


def _holder(fd: int) -> str:
    """Who has locked a file, as Linux tells it: an owner may not have written its pid yet."""
    inode = str(os.fstat(fd).st_ino)
    with suppress(OSError), open("/proc/locks", encoding="ascii") as locks:
        for line in locks:
            # NUMBER: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE ...
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode:
                return fields[4]
    return ""


def _path(directory: str, session_id: str) -> str:
    return os.path.join(directory, "locks", f"{session_id}.lock")


class SessionLock:
    """
    Held while a session is live in this process.

    Raises:
        SessionInUseError: another process holds it; the message names its pid.
        StoreError: the lock file cannot be made.
    """

    def __init__(self, directory: str, session_id: str) -> None:
        self._path = _path(directory, session_id)
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            self._fd = self._acquire(session_id)
        except OSError as error:
            raise StoreError(
                f"the lock file {self._path} cannot be used ({error.strerror}); {remedy(error)}"
            ) from error

    def _acquire(self, session_id: str) -> int:
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(fd, 32, 0).decode(errors="replace").strip() or _holder(fd)
                os.close(fd)
                raise SessionInUseError(
                    f"session {session_id!r} is in use by another process"
                    f" (pid {owner or 'unknown'}); close it there first"
                ) from None
            except OSError:
                os.close(fd)
                raise
            if self._is_current(fd):
                # The pid is for people: a session can be read again on a full disk, too.
                with suppress(OSError):
                    os.ftruncate(fd, 0)
                    os.pwrite(fd, str(os.getpid()).encode(), 0)
                return fd
            # The last owner removed the file between our open and our lock.
            os.close(fd)

    def _is_current(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), os.stat(self._path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Free the session, once; the file is removed while the lock is still held."""
        if self._fd >= 0:
            with suppress(OSError):
                os.unlink(self._path)
            os.close(self._fd)
            self._fd = -1
