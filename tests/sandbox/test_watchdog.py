"""The process that kills what a killed server leaves."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sandbox.watchdog import Watchdog
from tests.sandbox.machine import REPOSITORY

_DEADLINE_S = 20.0
# Guards a group whose member has left it for a session of its own, then waits to be killed.
_SERVER = """
import subprocess, sys
from sandbox.watchdog import Watchdog
watchdog = Watchdog(sweeps=sys.argv[1] == "sweeps")
command = "setsid bash -c 'echo 1 $$; exec sleep 600' & sleep 600 & echo 2 $!; echo 3 $$; wait"
child = subprocess.Popen(["/bin/bash", "-c", command], stdout=subprocess.PIPE, text=True,
    start_new_session=True)
watchdog.guard(child.pid)
if sys.argv[1] == "released":
    watchdog.release(child.pid)
lines = sorted(child.stdout.readline() for _ in range(3))
print(*[line.split()[1] for line in lines], watchdog.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    """One in this process."""
    watchdog = Watchdog()
    yield watchdog
    watchdog.close()


def after_the_death_of_a_server(how: str) -> list[bool]:
    """What is dead: the one that left, the one in the group, its leader, the watchdog."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, how],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        pids = [int(pid) for pid in server.stdout.readline().split()]
        descriptors = [os.pidfd_open(pid) for pid in pids]
        server.kill()
    # It is the last to go.
    assert select.select(descriptors[3:], [], [], _DEADLINE_S)[0], "the watchdog lives on"
    wait_s = 0 if how == "released" else 1
    ended = [bool(select.select([descriptor], [], [], wait_s)[0]) for descriptor in descriptors]
    for descriptor in descriptors:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)
    return ended


@pytest.mark.parametrize(
    ("how", "ended"),
    [
        ("group", [False, True, True, True]),
        ("sweeps", [True, True, True, True]),
        ("released", [False, False, False, True]),
    ],
)
def test_group_dies_with_the_server(how: str, ended: list[bool]) -> None:
    """With those that left it where asked for, not when it was released; then it ends itself."""
    assert ended == after_the_death_of_a_server(how)


def test_nothing_is_started_before_it_is_needed(watchdog: Watchdog) -> None:
    """Nor by releasing what was never guarded; closing it twice does no harm."""
    watchdog.release(1)
    watchdog.close()
    watchdog.close()
    assert watchdog.pid is None


def test_closing_kills_nothing_that_was_guarded(watchdog: Watchdog) -> None:
    """Its own death is not that of the server."""
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, start_new_session=True) as child:
        watchdog.guard(child.pid)
        watchdog.close()
        assert child.poll() is None
        assert child.stdin is not None
        child.stdin.close()
        assert 0 == child.wait(_DEADLINE_S)


def test_killed_watchdog_is_replaced(watchdog: Watchdog) -> None:
    """The next command starts another one."""
    watchdog.guard(2**22)
    first = watchdog.pid
    assert first is not None
    descriptor = os.pidfd_open(first)
    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    assert select.select([descriptor], [], [], _DEADLINE_S)[0]
    os.close(descriptor)
    watchdog.guard(2**22 + 1)
    assert watchdog.pid not in (None, first)


def test_no_descriptor_is_left(watchdog: Watchdog) -> None:
    """The pipe ends with it."""
    before = len(os.listdir("/proc/self/fd"))
    watchdog.guard(2**22)
    assert before + 1 == len(os.listdir("/proc/self/fd"))
    watchdog.close()
    assert before == len(os.listdir("/proc/self/fd"))
