"""The descriptor that the client reads, written to without ever blocking."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable
from typing import Protocol

# A pipe that polls as writable takes this much without blocking.
_PIECE_BYTES = getattr(select, "PIPE_BUF", 512)


class Output(Protocol):
    """
    Writes to a descriptor for one thread.

    Where `must_poll` is true, each write has to come after a poll that said that the
    descriptor is writable; elsewhere a write that would block raises.
    """

    must_poll: bool

    def write(self, data: memoryview) -> int:
        """
        Write some of `data`; returns how many bytes were taken.

        Raises:
            BlockingIOError: it takes nothing at the moment.
            OSError: nobody reads it any more.
        """
        ...

    def close(self) -> None:
        """Let go of what this took; the descriptor itself stays open."""
        ...


class PipeOutput:
    """
    An `Output` for pipes, and for whatever else `os.write` writes to.

    The descriptor itself is left as it is: others may share its description, and with
    it the flag that would keep them, too, from blocking.
    """

    def __init__(self, fd: int) -> None:
        self._close: Callable[[], None] = lambda: None
        self._write: Callable[[memoryview], int] = lambda data: os.write(fd, data[:_PIECE_BYTES])
        self.must_poll = True
        if stat.S_ISFIFO(os.fstat(fd).st_mode) and (own := _opened_anew(fd)) is not None:
            self._write, self._close = lambda data: os.write(own, data), lambda: os.close(own)
            self.must_poll = False

    def write(self, data: memoryview) -> int:
        """See `Output.write`."""
        return self._write(data)

    def close(self) -> None:
        """See `Output.close`."""
        self._close()


def _opened_anew(fd: int) -> int | None:
    """A description of a pipe that is ours alone, where the system gives one (Linux)."""
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
