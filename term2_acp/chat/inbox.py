"""What the server sent, on its way from the reader thread to the main one."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any

import attrs

MAX_BYTES = 64 * 1024 * 1024
"""So many bytes of messages wait at most; then the server waits."""


@attrs.frozen
class Received:
    """One JSON value that the server sent as a line."""

    message: Any
    size: int


@attrs.frozen
class Ended:
    """The server's output ended, or cannot be read on; `fault` says why."""

    fault: str | None = None


Item = Received | Ended


class Inbox:
    """
    A queue, bounded in bytes, whose descriptor is readable while something is in it.

    `put` is for the reader thread, `take` for the main one. After `close`, nothing
    waits in it any more.
    """

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = threading.Condition()
        self._read_end, self._write_end = os.pipe()

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._read_end

    def put(self, item: Item) -> None:
        """Add an item; waits while the queue is full."""
        size = item.size if isinstance(item, Received) else 0
        with self._changed:
            self._changed.wait_for(lambda: self._bytes < MAX_BYTES or self._closed)
            if self._closed:
                return
            self._items.append(item)
            self._bytes += size
            if len(self._items) == 1:
                os.write(self._write_end, b"x")

    def take(self) -> Item | None:
        """Remove the oldest item; None if there is none."""
        with self._changed:
            if not self._items:
                return None
            item = self._items.popleft()
            if isinstance(item, Received):
                self._bytes -= item.size
            if not self._items:
                os.read(self._read_end, 1)
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Let `put` go on without effect, and free the descriptors."""
        with self._changed:
            if not self._closed:
                self._closed = True
                os.close(self._read_end)
                os.close(self._write_end)
            self._changed.notify_all()
