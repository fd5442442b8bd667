"""One place where the main thread waits: for the server, the user, signals and the clock."""

from __future__ import annotations

import os
import select
import signal
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

import attrs

from term2_acp.chat.inbox import Inbox, Item

_MOST_IN_A_ROW = 100
_WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH)


class Source(Protocol):
    """Where the user's input comes from."""

    def fileno(self) -> int:
        """The descriptor to wait for."""
        ...

    def has_more(self) -> bool:
        """Whether `take` gives something without reading."""
        ...

    def take(self) -> str | None:
        """The next input, "" for nothing yet, None at its end."""
        ...


@attrs.frozen
class Typed:
    """The user's input; None at its end."""

    text: str | None


@attrs.frozen
class Signalled:
    """A signal came."""

    number: int


@attrs.frozen
class Ticked:
    """The time is up and nothing happened."""


Event = Item | Typed | Signalled | Ticked


class Signals:
    """
    Remembers signals until they are taken; used on the main thread.

    Args:
        noted: called in the handler, to end a wait elsewhere.
    """

    def __init__(self, noted: Callable[[], None]) -> None:
        self._noted = noted
        self._pending: deque[int] = deque()
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Take the signals over, and give them back."""
        before = {number: signal.signal(number, self._note) for number in _WATCHED}
        try:
            yield
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self._read_end)
            os.close(self._write_end)

    @property
    def is_pending(self) -> bool:
        """Whether a signal waits to be taken that may be meant to end something."""
        return any(number != signal.SIGWINCH for number in self._pending)

    def fileno(self) -> int:
        """The descriptor to wait for; from now on signals make it readable."""
        # Set at each wait: who reads lines with editing takes it for itself meanwhile.
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        return self._read_end

    def take(self) -> int | None:
        """The oldest signal, if any."""
        return self._pending.popleft() if self._pending else None

    def drain(self) -> None:
        """Make the descriptor wait again."""
        try:
            while os.read(self._read_end, 1024):
                pass
        except BlockingIOError:
            pass

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._pending.append(number)
        self._noted()


class Events:
    """
    Gives what happens next; signals come before messages, and those before input.

    A server that never pauses keeps nobody from the keyboard: after many messages in a row
    there is a look at the input.
    """

    def __init__(self, inbox: Inbox, signals: Signals) -> None:
        self._inbox = inbox
        self._signals = signals
        self._in_a_row = 0

    def next(self, source: Source | None = None, timeout_s: float | None = None) -> Event:
        """Wait for the next event; input is read only if there is a source for it."""
        watched: list[Inbox | Signals | Source] = [self._signals, self._inbox]
        if source is not None:
            watched.append(source)
        while True:
            descriptors = [one.fileno() for one in watched]
            number = self._signals.take()
            if number is not None:
                return Signalled(number)
            if source is not None and self._in_a_row >= _MOST_IN_A_ROW:
                self._in_a_row = 0
                if source.has_more() or select.select([source], [], [], 0)[0]:
                    text = source.take()
                    if text != "":
                        return Typed(text)
            item = self._inbox.take()
            if item is not None:
                self._in_a_row += 1
                return item
            self._in_a_row = 0
            if source is not None and source.has_more():
                return Typed(source.take())
            ready, _, _ = select.select(descriptors, [], [], timeout_s)
            if not ready:
                return Ticked()
            if descriptors[0] in ready:
                self._signals.drain()
            if source is not None and descriptors[2] in ready and len(ready) == 1:
                text = source.take()
                if text != "":
                    return Typed(text)
