"""Waiting for a child: its output, its deadline and its end, in one poll on one thread."""

from __future__ import annotations

import fcntl
import os
import select
import sys
import time
from collections.abc import Callable
from typing import Protocol

import attrs

from sandbox.clock import Clock

_PIECE = 64 * 1024
_TAIL = 16 * 1024
# After less than that, what follows is left in the pipe for a moment, to come as one piece:
# a progress bar is drawn a thousand times a second. The first piece waits for nothing.
_SMALL_PIECE = 4 * 1024
_USUAL_CAPACITY = 64 * 1024
_LONGEST_REST_S = 0.01
_SHORTEST_REST_S = 0.0005
_LARGEST_PREAMBLE = 1024 * 1024
# poll() takes an int of milliseconds.
_LONGEST_POLL_S = 3600.0
# How long SIGKILL may take; longer only if the kernel itself hangs.
GRACE_S = 5.0


class Supervised(Protocol):
    """
    A started child, as far as waiting for it needs to know it.

    Attributes:
        output: where stdout and stderr arrive, non-blocking.
        exited: a descriptor that is readable when the child has ended, but is not reaped.
        exit_code: of the command, where that is not the child itself.
    """

    output: int
    exited: int
    exit_code: int | None

    @property
    def init(self) -> int | None:
        """One that is readable when all that it started has ended, None if there is none."""

    def release(self) -> None:
        """Let the command begin."""

    def read_status(self) -> None:
        """Take in what is reported so far."""

    def kill(self) -> None:
        """Kill everything in it."""

    def reap(self) -> int:
        """Collect the child, which has ended; its return code."""


@attrs.define
class Rest:
    """
    How long output is left in the pipe, from one small piece to the next.

    Shorter where so much comes meanwhile that it soon fills the pipe, and the command waits.

    Attributes:
        much: bytes; a pipe into which so much comes meanwhile may soon be full.
        until: when the present one ends, None if there is none.
        length_s: of the last one.
    """

    much: int
    until: float | None = None
    length_s: float = _LONGEST_REST_S
    _taken: int = 0

    @classmethod
    def for_pipe(cls, output: int) -> Rest:
        """One for a pipe of any size: who has many gets small ones from the kernel (pipe(7))."""
        capacity = _USUAL_CAPACITY
        if sys.platform == "linux":
            capacity = fcntl.fcntl(output, fcntl.F_GETPIPE_SZ)
        return cls(capacity // 4)

    def begins(self, taken: int) -> bool:
        """Note a piece of so many bytes; whether there is to be a rest after it."""
        self._taken += taken
        if taken >= _SMALL_PIECE:
            return False
        self.length_s *= 0.25 if self._taken >= self.much else 2
        self.length_s = min(max(self.length_s, _SHORTEST_REST_S), _LONGEST_REST_S)
        self._taken = 0
        self.until = time.monotonic() + self.length_s
        return True

    def ends(self) -> bool:
        """Whether there was one and it is over now."""
        if self.until is None or time.monotonic() < self.until:
            return False
        self.until = None
        return True


@attrs.define
class Supervision:
    """
    What happened to one child so far.

    Attributes:
        child: the child, already started.
        verify: judges what the child was put into; returns what is wrong with it.
        on_output: gets the command's output, on the thread that calls `run`.
        clock: counts the child's time; it stands still inside `on_output`.
        timeout_s: time that the child has.
        released: whether the command was allowed to begin.
        refused: why it was not.
        message: what bwrap printed before that.
        return_code: of bwrap, None if it could not be reaped.
        timed_out: whether the time ran out.
        tail: the last output.
    """

    child: Supervised
    verify: Callable[[], str | None]
    on_output: Callable[[bytes], None]
    clock: Clock
    timeout_s: float
    released: bool = False
    refused: str | None = None
    message: bytes = b""
    return_code: int | None = None
    timed_out: bool = False
    tail: bytes = b""
    # When even SIGKILL has had its time.
    _hopeless: float | None = None

    def run(self) -> None:
        """Serve the child until everything in it is dead and its output is delivered."""
        with self.clock.counting(self.timeout_s) as wake:
            self._serve(wake)
        while self._take_output():
            pass

    def _serve(self, wake: int) -> None:
        child = self.child
        poller = select.poll()
        alive = {child.exited}
        rest = Rest.for_pipe(child.output)
        for descriptor in (child.output, child.exited, wake):
            poller.register(descriptor, select.POLLIN)
        while alive:
            if rest.ends():
                poller.register(child.output, select.POLLIN)
            ready = {descriptor for descriptor, _ in poller.poll(self._patience_ms(rest.until))}
            if wake in ready:
                os.read(wake, _PIECE)
            if child.output in ready:
                is_command = self.released
                taken = self._take_output()
                if taken == 0 or (taken and is_command and rest.begins(taken)):
                    poller.unregister(child.output)
            if child.exited in ready:
                self.return_code = child.reap()
                # Inside, all are dead only when the first process there is. Killed in
                # the middle of the start, bwrap may not have tied that one to itself.
                child.kill()
                if child.init is not None:
                    alive.add(child.init)
                    poller.register(child.init, select.POLLIN)
            for descriptor in ready & alive:
                poller.unregister(descriptor)
                alive.remove(descriptor)
            if self._hopeless is not None and time.monotonic() >= self._hopeless:
                break
            if self._hopeless is None and self.clock.left_s() == 0.0:
                self.timed_out = True
                self._hopeless = time.monotonic() + GRACE_S
                child.kill()

    def _patience_ms(self, rests_until: float | None) -> float:
        now = time.monotonic()
        moments = [moment for moment in (rests_until, self._hopeless) if moment is not None]
        limits = [_LONGEST_POLL_S, *(moment - now for moment in moments)]
        left = self.clock.left_s() if self._hopeless is None else None
        if left is not None:
            limits.append(left)
        return max(0.0, min(limits)) * 1000

    def _take_output(self) -> int | None:
        """Read one piece and pass it on; its length, 0 at the end, None if none is there."""
        try:
            piece = os.read(self.child.output, _PIECE)
        except BlockingIOError:
            return None
        if piece and not self.released:
            self._take_preamble(piece)
        elif piece:
            self.tail = (self.tail + piece)[-_TAIL:]
            with self.clock.paused():
                self.on_output(piece)
        return len(piece)

    def _take_preamble(self, piece: bytes) -> None:
        """All that arrives before a NUL is messages; with that the gate tells that it waits."""
        # When the time is over, what waited is dead or dying: there is nothing to judge.
        if self.refused or self.timed_out:
            return
        self.message += piece
        self.message, waits, more = self.message.partition(b"\0")
        if more or len(self.message) > _LARGEST_PREAMBLE:
            self.refused = "the sandbox did not start the shell that was to wait in it"
        elif waits:
            self.child.read_status()
            self.refused = self.verify()
            if self.refused is None:
                self.released = True
                self.child.release()
        if self.refused:
            self.child.kill()
