"""The bounded queue between the reader thread and the dispatcher."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from term2_acp.errors import AcpError

MAX_MESSAGES = 1024
MAX_BYTES = 64 * 1024 * 1024


class Received:
    """One parsed line and its size in bytes."""

    __slots__ = ("size", "value")

    def __init__(self, value: Any, size: int) -> None:
        self.value = value
        self.size = size


class Rejected:
    """A line that could not be parsed; the error is to be answered with id null."""

    __slots__ = ("error",)

    def __init__(self, error: AcpError) -> None:
        self.error = error


class Ended:
    """The client is gone (end of input, broken output) or a signal asks for the end."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


Item = Received | Rejected | Ended


class Inbox:
    """First in, first out; `put` waits while the queue is full, `get` while it is empty."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = threading.Condition()

    def put(self, item: Received | Rejected) -> None:
        """Append a message; waits for room, and drops it once the inbox is closed."""
        size = item.size if isinstance(item, Received) else 0
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_room())
            if not self._closed:
                self._items.append(item)
                self._bytes += size
                self._changed.notify_all()

    def put_end(self, reason: str) -> None:
        """Append the end after what was read already; never waits."""
        with self._changed:
            self._items.append(Ended(reason))
            self._changed.notify_all()

    def get(self) -> Item:
        """Take the oldest item; waits for one."""
        with self._changed:
            self._changed.wait_for(lambda: self._items)
            item = self._items.popleft()
            if isinstance(item, Received):
                self._bytes -= item.size
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Let a waiting `put` go; nothing is taken in any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return len(self._items) < MAX_MESSAGES and (self._bytes < MAX_BYTES or not self._items)
