"""Finds the processes that a test left behind, and waits for their end (Linux)."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")


def processes_with(marker: str) -> list[int]:
    """
    The ids of the processes with `marker` in their command line or environment.

    A process in another pid namespace is seen too. This process is left out, and
    so is what has ended but is not reaped.
    """
    wanted = marker.encode()
    return [
        pid
        for pid in _pids()
        if pid != os.getpid()
        and any(wanted in _read(PROC / str(pid) / name) for name in ("cmdline", "environ"))
    ]


def wait_until_gone(marker: str, timeout: float = 5.0) -> None:
    """
    Wait until no process has `marker`.

    Raises:
        AssertionError: some still live after `timeout` seconds; their command lines are named.
    """
    deadline = time.monotonic() + timeout
    while pids := processes_with(marker):
        _wait_for_one(pids, deadline, marker)


def _wait_for_one(pids: list[int], deadline: float, marker: str) -> None:
    with contextlib.ExitStack() as stack:
        poller = select.poll()
        for pid in pids:
            try:
                handle = os.pidfd_open(pid)
            except ProcessLookupError:
                return
            stack.callback(os.close, handle)
            poller.register(handle, select.POLLIN)
        left = deadline - time.monotonic()
        if left <= 0 or not poller.poll(left * 1000):
            lines = [_read(PROC / str(pid) / "cmdline").replace(b"\0", b" ") for pid in pids]
            raise AssertionError(f"processes with {marker!r} survive: {lines}")


def _pids() -> Iterator[int]:
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        # It ended meanwhile, or belongs to someone else.
        return b""
