"""Diagnostics on stderr that never hold the program up (spec sections 1 and 3)."""

from __future__ import annotations

import logging
import os
import select

# A pipe that polls as writable takes so much without blocking.
_PIECE_BYTES = getattr(select, "PIPE_BUF", 512)
_MAX_RECORD_BYTES = 16 * 1024
_STDERR = 2


class StderrHandler(logging.Handler):
    """
    Writes records to fd 2 while somebody reads it.

    What does not fit is dropped and counted, and the count is told with the next
    record that fits: an editor that does not drain stderr must not stop the server.
    """

    def __init__(self) -> None:
        super().__init__()
        self._dropped = 0
        self._poll = select.poll()
        self._poll.register(_STDERR, select.POLLOUT)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it; called by `logging` under the handler's lock."""
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001  a wrong log call must not stop what it tells about
            text = f"term2: {record.levelname}: {record.msg!r} could not be formatted"
        if self._dropped:
            text = f"term2: {self._dropped} messages were not read and are lost\n{text}"
        data = text.encode("utf-8", "backslashreplace")[:_MAX_RECORD_BYTES] + b"\n"
        if self._write(data):
            self._dropped = 0
        else:
            self._dropped += 1

    def _write(self, data: bytes) -> bool:
        while data:
            ready = self._poll.poll(0)
            if not ready or not ready[0][1] & select.POLLOUT:
                return False
            try:
                written = os.write(_STDERR, data[:_PIECE_BYTES])
            except OSError:
                return False
            data = data[written:]
        return True
