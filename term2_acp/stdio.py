"""Takes stdin and stdout for the protocol alone (spec section 1)."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def claim() -> tuple[int, int]:
    """
    Return descriptors of our own for the real stdin and stdout.

    From then on fd 0 is empty and fd 1 leads to stderr, so that nothing a library
    prints, or a child inherits, can reach the protocol.
    """
    real_stdin, real_stdout = os.dup(0), os.dup(1)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return real_stdin, real_stdout


def make_sure_open() -> None:
    """
    Put nothing where a standard stream was closed; called before anything else.

    A closed descriptor would be given to the next file that is opened.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != fd:
                os.dup2(null, fd)
                os.close(null)
    # Python leaves the objects of closed streams out.
    sys.stdout = sys.stdout or _writer(1)
    sys.stderr = sys.stderr or _writer(2)


def _writer(fd: int) -> TextIO:
    return open(fd, "w", encoding="utf-8", closefd=False, buffering=1)
