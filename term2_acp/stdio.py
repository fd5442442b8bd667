"""The standard streams: taken for the protocol alone, or printed on whole (spec section 1)."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TextIO, cast


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
    sys.stdin = sys.stdin or _opened(0, "r")
    sys.stdout = sys.stdout or _opened(1, "w")
    sys.stderr = sys.stderr or _opened(2, "w")


def print_whole(text: str) -> bool:
    """
    Write a text to stdout and make sure that it arrived; whether nothing went wrong.

    A reader that has enough is no fault, and nothing is said of it. Anything else, such as
    a full disk, is told on stderr.
    """
    # A text with an odd file name is worth more than a traceback.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
    except OSError as error:
        _forget_stdout()
        sys.stderr.write(f"term2: the output cannot be written ({error.strerror})\n")
        return False
    return True


def _forget_stdout() -> None:
    """Let the end of the program not stumble over output that nobody takes."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _opened(fd: int, mode: str) -> TextIO:
    return cast("TextIO", open(fd, mode, encoding="utf-8", closefd=False, buffering=1))
