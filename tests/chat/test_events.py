"""The one place where the client waits."""

from __future__ import annotations

import os

from term2_acp.chat.events import Events, Signals, Typed
from term2_acp.chat.inbox import Inbox, Received
from term2_acp.chat.lines import Lines


def test_a_server_that_never_pauses_keeps_nobody_from_the_keyboard():
    """A line that was typed is taken while messages still wait; none of them is lost."""
    inbox = Inbox()
    reading, writing = os.pipe()
    os.write(writing, b"stop\n")
    for number in range(1000):
        inbox.put(Received(number, 1))
    events = Events(inbox, Signals(lambda: None))
    lines = Lines(reading)
    seen = [events.next(lines) for _ in range(1001)]
    os.close(reading)
    os.close(writing)
    inbox.close()
    assert [event.message for event in seen if isinstance(event, Received)] == [*range(1000)]
    assert 0 < seen.index(Typed("stop\n")) < 500
