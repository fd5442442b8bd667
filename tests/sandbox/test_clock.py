"""A command's time, which others may stop, and descriptors that it inherits."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import Policy, Process
from sandbox.clock import Clock

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")
_DEADLINE_S = 20.0


@pytest.fixture
def policy(tmp_path: Path) -> Iterator[Policy]:
    """A session in an empty workspace, in this very process."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    policy = Policy.for_workspace(str(workspace), state_dir=str(tmp_path / "state"))
    yield policy
    policy.discard()


@needs_bwrap
def test_a_command_inherits_what_it_was_given(policy: Policy) -> None:
    """Both directions of a socket work inside, and nothing else is open there."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        number = theirs.fileno()
        ours.sendall(b"hello\n")
        output: list[bytes] = []
        command = f'read line <&{number}; echo "got $line" >&{number}; ls /proc/self/fd'
        result = Process(policy, command, keep_fds=[number]).run(
            timeout_s=_DEADLINE_S, on_output=output.append
        )
        assert result.exit_code == 0
        assert ours.recv(100) == b"got hello\n"
        # ls itself holds the folder that it lists.
        assert {0, 1, 2, number} <= {int(fd) for fd in b"".join(output).split()}
        assert len(b"".join(output).split()) == 5
        os.fstat(number)


@needs_bwrap
def test_a_paused_command_does_not_time_out(policy: Policy) -> None:
    """Paused from another thread before and while it runs, for longer than its time."""
    process = Process(policy, "echo x; sleep 0.5; exit 7")
    resume = threading.Event()

    def hold() -> None:
        with process.paused():
            held.set()
            resume.wait(_DEADLINE_S)

    held = threading.Event()
    holder = threading.Thread(target=hold, name="test-hold")
    holder.start()
    held.wait(_DEADLINE_S)
    result = process.run(timeout_s=0.2, on_output=lambda _: None)
    resume.set()
    holder.join()
    assert (result.exit_code, result.timed_out) == (7, False)


@needs_bwrap
def test_the_time_goes_on_after_a_pause(policy: Policy) -> None:
    """A command that sleeps is killed once the pause is over, without any output to wake us."""
    process = Process(policy, "echo x; sleep 600")
    go_on = threading.Event()
    started = threading.Event()

    def hold() -> None:
        started.wait(_DEADLINE_S)
        with process.paused():
            go_on.wait(1.5)

    holder = threading.Thread(target=hold, name="test-hold")
    holder.start()
    begun = time.monotonic()
    result = process.run(timeout_s=1, on_output=lambda _: started.set())
    holder.join()
    assert result.timed_out
    assert 1.5 <= time.monotonic() - begun < _DEADLINE_S


class TestTheClock:
    def test_overlapping_pauses_end_with_the_last(self) -> None:
        """It stands still from the first to the last, and wakes the waiter for both."""
        clock = Clock()
        with clock.counting(100) as wake:
            assert 99 < (clock.left_s() or 0) <= 100
            first, second = clock.paused(), clock.paused()
            with first:
                with second:
                    assert clock.left_s() is None
                assert clock.left_s() is None
            assert clock.left_s() is not None
            with pytest.raises(BlockingIOError):
                os.eventfd_read(wake)

    def test_another_thread_wakes_the_waiter(self) -> None:
        """Once for the pause and once for its end."""
        clock = Clock()
        with clock.counting(100) as wake:

            def pause() -> None:
                with clock.paused():
                    pass

            thread = threading.Thread(target=pause, name="test-pause")
            thread.start()
            thread.join()
            assert os.read(wake, 9) == b"xx"

    def test_what_ran_out_has_nothing_left(self) -> None:
        """Never less than nothing; and a clock that counts nothing stands still."""
        clock = Clock()
        assert clock.left_s() is None
        with clock.counting(0):
            assert clock.left_s() == 0
        assert clock.left_s() is None
        with clock.paused():
            pass
