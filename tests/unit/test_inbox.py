"""The queue between reader and dispatcher: first in, first out, bounded, never stuck at the end."""

from __future__ import annotations

import pytest

from term2_acp.errors import ParseError
from term2_acp.rpc.inbox import MAX_BYTES, MAX_MESSAGES, Ended, Inbox, Received, Rejected
from tests.unit.doubles import MOMENT_S, Background, together


def values(inbox):
    """What comes out until the end."""
    taken = []
    while not isinstance(item := inbox.get(), Ended):
        taken.append(item.value if isinstance(item, Received) else item)
    return taken


def test_messages_come_out_in_the_order_they_went_in():
    """Lines that could not be parsed keep their place."""
    inbox = Inbox()
    rejected = Rejected(ParseError("x"))
    inbox.put(Received(1, 10))
    inbox.put(rejected)
    inbox.put(Received(2, 10))
    inbox.put_end("over")
    assert [1, rejected, 2] == values(inbox)


def test_each_producer_keeps_its_order():
    """Several threads may put; of each, the order stays."""
    inbox = Inbox()

    def put(name):
        for number in range(MAX_MESSAGES):
            inbox.put(Received((name, number), 1))

    consumer = Background(lambda: values(inbox))
    together([lambda: put("a"), lambda: put("b"), lambda: put("c")])
    inbox.put_end("over")
    taken = consumer.result()
    for name in "abc":
        numbers = [number for producer, number in taken if producer == name]
        assert list(range(MAX_MESSAGES)) == numbers


@pytest.mark.parametrize(
    ("count", "size"), [(MAX_MESSAGES, 0), (MAX_MESSAGES, 10), (4, MAX_BYTES // 4), (1, MAX_BYTES)]
)
@pytest.mark.parametrize("waker", ["get", "close"])
def test_a_full_inbox_makes_the_reader_wait(count, size, waker):
    """It is bounded in messages and in bytes; room or the end lets the reader go on."""
    inbox = Inbox()
    for number in range(count):
        inbox.put(Received(number, size))
    reader = Background(lambda: inbox.put(Received("last", 1)))
    assert not reader.ended_within(MOMENT_S)
    if waker == "get":
        assert inbox.get().value == 0
    else:
        inbox.close()
    reader.result()
    inbox.put_end("over")
    left = values(inbox)
    assert left == [*range(1, count), "last"] if waker == "get" else list(range(count))


def test_lines_that_cannot_be_parsed_count_as_messages():
    """A flood of garbage is bounded too."""
    inbox = Inbox()
    for _ in range(MAX_MESSAGES):
        inbox.put(Rejected(ParseError("x")))
    reader = Background(lambda: inbox.put(Rejected(ParseError("x"))))
    assert not reader.ended_within(MOMENT_S)
    inbox.get()
    reader.result()


def test_a_message_larger_than_the_bound_is_taken_alone():
    """An empty inbox always has room, or nothing would ever go on."""
    inbox = Inbox()
    inbox.put(Received("large", 2 * MAX_BYTES))
    assert "large" == inbox.get().value
    inbox.put(Received("large again", 2 * MAX_BYTES))
    assert "large again" == inbox.get().value


def test_the_end_never_waits_and_comes_after_what_was_read():
    """A full inbox takes the end of the client."""
    inbox = Inbox()
    for number in range(MAX_MESSAGES):
        inbox.put(Received(number, 1))
    inbox.put_end("first")
    inbox.put_end("second")
    assert list(range(MAX_MESSAGES)) == values(inbox)
    assert "second" == inbox.get().reason


def test_taking_waits_for_a_message():
    """The dispatcher sleeps until there is something to do."""
    inbox = Inbox()
    dispatcher = Background(inbox.get)
    assert not dispatcher.ended_within(MOMENT_S)
    inbox.put(Received("x", 1))
    assert "x" == dispatcher.result().value


def test_a_closed_inbox_takes_nothing_in_and_does_not_wait():
    """The reader is let go at the end of the process."""
    inbox = Inbox()
    inbox.close()
    for number in range(2 * MAX_MESSAGES):
        inbox.put(Received(number, MAX_BYTES))
    inbox.put_end("over")
    assert [] == values(inbox)
