"""The keys that are pressed while the agent works."""

from __future__ import annotations

import codecs
import os
import re
import select
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ESCAPE = "\x1b"
CTRL_D = "\x04"
CTRL_T = "\x14"
_READ_SIZE = 4096
# A lone Esc and the first byte of an arrow key are the same; the rest follows at once.
_SEQUENCE_S = 0.05
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[^\[O])", re.DOTALL)


class Keyboard:
    """
    A terminal's input without echo and line editing; Ctrl-C stays a signal.

    What is typed is given as it comes; the sequences of arrow and function keys are left out.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._fd

    def has_more(self) -> bool:
        """Nothing is kept back."""
        return False

    @contextmanager
    def raw(self) -> Iterator[None]:
        """Switch echo and line editing off for a while."""
        before = termios.tcgetattr(self._fd)
        attributes: list[Any] = termios.tcgetattr(self._fd)
        attributes[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
        characters = list(attributes[6])
        characters[termios.VMIN], characters[termios.VTIME] = 1, 0
        # Stopped or killed by a key, it would leave the terminal to the shell without echo.
        characters[termios.VSUSP] = characters[termios.VQUIT] = b"\0"
        attributes[6] = characters
        termios.tcsetattr(self._fd, termios.TCSADRAIN, attributes)
        try:
            yield
        finally:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, before)

    def is_waiting(self) -> bool:
        """Whether something was typed that was not taken yet."""
        return self._is_readable(0)

    def take(self) -> str | None:
        """What was typed: "" for keys that mean nothing here, None if the terminal is gone."""
        text = self._read()
        if text == ESCAPE and self._is_readable(_SEQUENCE_S):
            text += self._read() or ""
        return None if text is None else _SEQUENCE.sub("", text)

    def _read(self) -> str | None:
        try:
            data = os.read(self._fd, _READ_SIZE)
        except OSError:
            return None
        return self._decoder.decode(data) if data else None

    def _is_readable(self, timeout_s: float) -> bool:
        return bool(select.select([self._fd], [], [], timeout_s)[0])


def is_terminal() -> bool:
    """Whether standard input and output are a terminal that can do more than lines."""
    return (
        sys.stdin.isatty()
        and sys.stdout.isatty()
        and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
    )
