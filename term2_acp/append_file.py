"""A file that only ever grows: diagnostics and traces are appended to it, privately."""

from __future__ import annotations

import os
import stat
from contextlib import suppress


class AppendFile:
    """
    A regular file to which whole lines are appended; used by one thread at a time.

    Several processes may append to one file: each write is one piece. `~` at the
    beginning of the path is the home. Nothing waits: a pipe or a device is refused.

    Args:
        private: make the file 0600 also if it was there before.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """

    def __init__(self, path: str, *, private: bool = False) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        self._fd = os.open(os.path.expanduser(path), flags, 0o600)
        self._torn = False
        try:
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                raise OSError(0, "it is not a regular file")
            if private:
                os.fchmod(self._fd, 0o600)
        except BaseException:
            self.close()
            raise

    def append(self, lines: bytes) -> bool:
        """Write; whether all of it is in the file. A line that a full disk cut short is ended."""
        data = b"\n" + lines if self._torn else lines
        try:
            written = os.write(self._fd, data)
        except OSError:
            return False
        if written == len(data):
            self._torn = False
            return True
        self._torn = self._torn or written > 0
        return False

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            os.close(self._fd)
