"""One command on its way through a backend, and whoever may kill it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Protocol

import attrs

from sandbox.clock import Clock
from sandbox.policy import Policy


class Killable(Protocol):
    """What was started for a command."""

    def kill(self) -> None:
        """Kill everything in it; never blocks, from any thread, again and again."""


@attrs.define
class Call:
    """
    One command that is to run once.

    Attributes:
        policy: of the session.
        command: for bash.
        environ: where to look for programs of the sandbox.
        keep_fds: descriptors that the command inherits.
        clock: counts its time.
    """

    policy: Policy
    command: str
    environ: Mapping[str, str]
    keep_fds: tuple[int, ...]
    clock: Clock = attrs.field(factory=Clock)
    _killed: bool = False
    _child: Killable | None = None
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    @property
    def killed(self) -> bool:
        """Whether it was to be killed, at any time."""
        with self._lock:
            return self._killed

    def kill(self) -> None:
        """Kill what runs for it, also what is only started later."""
        with self._lock:
            self._killed = True
            child = self._child
        if child is not None:
            child.kill()

    @contextlib.contextmanager
    def running(self, child: Killable) -> Iterator[None]:
        """Let `child` be what is killed while the block runs."""
        with self._lock:
            self._child = child
            killed = self._killed
        try:
            if killed:
                child.kill()
            yield
        finally:
            with self._lock:
                self._child = None
