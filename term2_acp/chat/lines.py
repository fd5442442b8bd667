"""Standard input as lines, when it is no terminal that is edited on."""

from __future__ import annotations

import os

MAX_LINE_BYTES = 16 * 1024 * 1024
_READ_SIZE = 1 << 16


class Lines:
    """Lines of a descriptor; the last may lack its end. A longer line than the bound is cut."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._data = bytearray()
        self._has_ended = False

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._fd

    def has_more(self) -> bool:
        """Whether a line is there, or the end."""
        return self._has_ended or b"\n" in self._data or len(self._data) >= MAX_LINE_BYTES

    def take(self) -> str | None:
        """The next line with its end; "" if it is not whole yet, None at the end."""
        if not self.has_more():
            self._read()
        if not self.has_more():
            return ""
        end = self._data.find(b"\n", 0, MAX_LINE_BYTES) + 1 or min(len(self._data), MAX_LINE_BYTES)
        line = bytes(self._data[:end])
        del self._data[:end]
        return line.decode("utf-8", "replace") if line else None

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _READ_SIZE)
        except OSError:
            # A terminal that hung up.
            data = b""
        if data:
            self._data += data
        else:
            self._has_ended = True
