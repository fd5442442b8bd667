"""Cancellation: one token a turn, which every wait of that turn listens to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Cancelled(Exception):
    """The turn was cancelled; whoever waits unwinds and cleans up."""


class CancelToken:
    """
    Says that a turn is to stop, and wakes whoever waits for something else.

    All methods may be called from any thread. `cancel` never blocks on the work
    that it interrupts: callbacks must be quick (close a socket, kill a group).
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next_key = 0

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Set the token and run the registered callbacks once, here."""
        with self._lock:
            if self._event.is_set():
                return
            self._event.set()
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()

    def raise_if_cancelled(self) -> None:
        """
        Raises:
            Cancelled: if the token is set.
        """
        if self._event.is_set():
            raise Cancelled

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until cancelled or for `timeout_s` seconds; whether it is cancelled."""
        return self._event.wait(timeout_s)

    @contextmanager
    def on_cancel(self, callback: Callable[[], None]) -> Iterator[None]:
        """
        Call `callback` on cancel while the block runs.

        It runs on the cancelling thread, or here and at once if the token is set
        already. After the block it is not called any more (a call that began may
        still be running).
        """
        with self._lock:
            already = self._event.is_set()
            key = self._next_key
            self._next_key += 1
            if not already:
                self._callbacks[key] = callback
        if already:
            callback()
        try:
            yield
        finally:
            with self._lock:
                self._callbacks.pop(key, None)
