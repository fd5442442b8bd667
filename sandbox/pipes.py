"""The pipes between a child and who started it, and waits for their end."""

from __future__ import annotations

import contextlib
import os
import select
import time


def pair(
    passed: contextlib.ExitStack, kept: contextlib.ExitStack, *, reverse: bool = False
) -> tuple[int, int]:
    """
    A new pipe: the end that is passed on, and the one that is kept.

    Args:
        passed: closes the first when it ends.
        kept: closes the second when it ends.
        reverse: the child writes and we read; else it reads.
    """
    reader, writer = os.pipe()
    theirs, ours = (writer, reader) if reverse else (reader, writer)
    passed.callback(os.close, theirs)
    kept.callback(os.close, ours)
    return theirs, ours


def wait_for(descriptor: int, deadline: float) -> bool:
    """Wait until `descriptor` is readable or at its end; whether it was by `deadline`."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(max(0, deadline - time.monotonic()) * 1000))


def release(go: int) -> None:
    """Let the shell that waits at the other end of `go` begin; `go` is closed."""
    with contextlib.suppress(BrokenPipeError):
        os.write(go, b"go\n")
    os.close(go)
