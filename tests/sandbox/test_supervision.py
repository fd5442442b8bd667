"""Waiting for a child, with one that does just what a test needs at just that moment."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator

import attrs
import pytest

from sandbox.clock import Clock
from sandbox.supervision import Rest, Supervision


@attrs.define
class Slow:
    """
    Waits at the gate only when its time is over, and ends when it is killed.

    Attributes:
        released: whether it was told to go on.
    """

    output: int
    exited: int
    _gate: int
    _end: int
    init: int | None = None
    exit_code: int | None = None
    released: bool = False

    def release(self) -> None:
        self.released = True

    def read_status(self) -> None:
        """There is none."""

    def kill(self) -> None:
        if self._gate >= 0:
            os.write(self._gate, b"\0")
            os.close(self._gate)
            os.close(self._end)
            self._gate = self._end = -1

    def reap(self) -> int:
        return -9


@pytest.fixture
def slow() -> Iterator[Slow]:
    """One that has just been started."""
    output, gate = os.pipe()
    exited, end = os.pipe()
    os.set_blocking(output, False)
    child = Slow(output, exited, gate, end)
    yield child
    child.kill()
    os.close(output)
    os.close(exited)


def test_command_does_not_begin_when_its_time_is_over(slow: Slow) -> None:
    """What waits in a sandbox that is being killed is neither judged nor let go."""
    judged: list[None] = []
    end = Supervision(slow, lambda: judged.append(None), print, Clock(), 0.0)
    end.run()
    assert (True, False, None) == (end.timed_out, end.released, end.refused)
    assert ([], False) == (judged, slow.released)


@pytest.fixture
def pipe() -> Iterator[int]:
    """The end of a pipe that is read."""
    reader, writer = os.pipe()
    yield reader
    os.close(reader)
    os.close(writer)


def test_rest_is_short_where_much_comes_and_long_where_little_does(pipe: int) -> None:
    """A command that prints line by line as fast as it can does not wait for its reader."""
    rest = Rest.for_pipe(pipe)
    assert rest.begins(10)
    longest = rest.length_s
    for _ in range(8):
        assert not rest.begins(40_000)
        assert rest.begins(10)
    assert rest.length_s <= longest / 10
    for _ in range(8):
        assert rest.begins(10)
    assert longest == rest.length_s
    assert not rest.ends()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a pipe has no size to be asked for")
def test_rest_is_short_where_a_small_pipe_fills(pipe: int) -> None:
    """Who has too many pipes gets small ones, and does not wait longer for it."""
    usual = Rest.for_pipe(pipe)
    size = fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
    small = Rest.for_pipe(pipe)
    longest = small.length_s
    for rest in (usual, small):
        for _ in range(8):
            assert not rest.begins(size)
            assert rest.begins(10)
    assert small.length_s <= longest / 10
    assert usual.length_s == longest
