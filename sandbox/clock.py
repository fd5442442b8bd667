"""The time that a command has: it stands still while others work for the command."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """
    Counts a command's time down; may be paused from any thread, at any time.

    Whoever waits for the command polls the descriptor that `counting` gives, which
    becomes readable when another thread pauses the clock or lets it go on.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pauses = 0
        self._left_s = 0.0
        self._since: float | None = None
        self._wake: int | None = None
        self._waiter = 0

    @contextmanager
    def counting(self, seconds: float) -> Iterator[int]:
        """Count down from `seconds` while the block runs, on the thread that waits."""
        wake, waker = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(waker, False)
        with self._lock:
            self._left_s, self._wake, self._waiter = seconds, waker, threading.get_ident()
            self._since = None if self._pauses else time.monotonic()
        try:
            yield wake
        finally:
            with self._lock:
                self._wake = self._since = None
            os.close(wake)
            os.close(waker)

    def left_s(self) -> float | None:
        """Seconds until the time is over, not below 0; None while the clock stands still."""
        with self._lock:
            if self._since is None:
                return None
            return max(0.0, self._left_s - (time.monotonic() - self._since))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let no time pass while the block runs; pauses may overlap."""
        self._change(+1)
        try:
            yield
        finally:
            self._change(-1)

    def _change(self, pauses: int) -> None:
        with self._lock:
            self._pauses += pauses
            if self._wake is None or self._pauses > 1 or (self._pauses, pauses) == (1, -1):
                return
            now = time.monotonic()
            if self._since is not None:
                self._left_s -= now - self._since
            self._since = None if self._pauses else now
            if threading.get_ident() != self._waiter:
                # A full pipe wakes as well.
                with contextlib.suppress(BlockingIOError):
                    os.write(self._wake, b"x")
