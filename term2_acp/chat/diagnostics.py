"""What the server writes to standard error: shown apart, and told when it dies."""

from __future__ import annotations

import threading
from collections import deque

_SHOWN_LATER = 200
_TOLD_AT_THE_END = 20
MAX_LINE = 2000


class Diagnostics:
    """
    The last lines of the server's standard error; may be used from any thread.

    Nobody waits for them to be read: of those that were not shown yet, the oldest
    are dropped and counted.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unseen: deque[str] = deque(maxlen=_SHOWN_LATER)
        self._last: deque[str] = deque(maxlen=_TOLD_AT_THE_END)
        self._dropped = 0

    def add(self, line: str) -> None:
        """Keep a line."""
        line = line[:MAX_LINE]
        with self._lock:
            self._dropped += len(self._unseen) == self._unseen.maxlen
            self._unseen.append(line)
            self._last.append(line)

    def take(self) -> list[str]:
        """The lines that were not taken yet."""
        with self._lock:
            lines = list(self._unseen)
            if self._dropped:
                lines.insert(0, f"({self._dropped} earlier lines are not shown)")
            self._unseen.clear()
            self._dropped = 0
            return lines

    def last(self) -> list[str]:
        """The last lines, taken or not."""
        with self._lock:
            return list(self._last)
