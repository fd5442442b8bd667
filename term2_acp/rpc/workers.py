"""The worker pool: threads that grow with the work and end when there is none."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

logger = logging.getLogger(__name__)

_IDLE_S = 10.0


class PoolFullError(Exception):
    """The pool's threads are all taken and its queue is full, or it is closed."""


class WorkerPool:
    """
    Runs tasks on at most `max_threads` threads, with at most `max_queued` waiting.

    A task never waits while a thread is idle or may still be started, so a pool as
    large as the number of tasks that can wait for something (one prompt a session)
    holds no slot that another session needs (spec section 3).
    """

    def __init__(self, name: str, *, max_threads: int, max_queued: int) -> None:
        self._name = name
        self._max_threads = max_threads
        self._max_queued = max_queued
        self._changed = threading.Condition()
        self._tasks: deque[Callable[[], None]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._started = 0
        self._closed = False

    def submit(self, task: Callable[[], None]) -> None:
        """
        Run `task` soon on a thread of the pool; never waits.

        Raises:
            PoolFullError: nothing is free and too much waits already.
        """
        with self._changed:
            if self._closed:
                raise PoolFullError
            # Tasks that an idle thread was woken for but has not taken yet count.
            if len(self._tasks) < self._idle:
                self._tasks.append(task)
                self._changed.notify()
            elif len(self._threads) < self._max_threads:
                self._start_thread()
                self._tasks.append(task)
                self._changed.notify()
            elif len(self._tasks) < self._max_queued + self._idle:
                self._tasks.append(task)
            else:
                raise PoolFullError

    def join(self, timeout_s: float) -> bool:
        """Close the pool and wait for its tasks; whether all ended in time."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._threads, timeout_s)

    def _start_thread(self) -> None:
        self._started += 1
        name = f"term2-{self._name}-{self._started}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._threads.add(thread)
        # A starting thread is as good as idle: a task waits for it already.
        self._idle += 1
        try:
            thread.start()
        except RuntimeError:
            # The machine gives no more threads.
            self._idle -= 1
            self._threads.discard(thread)
            raise PoolFullError from None

    def _run(self) -> None:
        while (task := self._next_task()) is not None:
            try:
                task()
            except Exception:
                logger.exception("a task of the pool %s failed", self._name)
            # What it did its work on may be a whole session; the next one may be long in coming.
            del task
            with self._changed:
                self._idle += 1

    def _next_task(self) -> Callable[[], None] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._tasks or self._closed, _IDLE_S)
            self._idle -= 1
            if self._tasks:
                return self._tasks.popleft()
            self._threads.discard(threading.current_thread())
            self._changed.notify_all()
            return None
