"""The outbound queue and the writer: order, merging, bounds, and a client that is gone."""

from __future__ import annotations

import itertools
import json
import os
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.agent.cancel import CancelToken
from term2_acp.rpc.framing import encode
from term2_acp.rpc.outbox import (
    ESSENTIAL_BYTES,
    MERGE_BYTES,
    MERGED_CHUNK_BYTES,
    SESSION_BYTES,
    Chunk,
    Outbox,
)
from term2_acp.rpc.writer import Writer
from tests.unit.doubles import DEADLINE_S, MOMENT_S, Background

SESSIONS = ("a", "b", "c")


def chunk(session, key, text):
    """A chunk whose message says what it is."""
    return Chunk(key, text, lambda joined: encode({"session": session, "key": key, "text": joined}))


def no_overflow():
    """For a queue that must not overflow."""
    raise AssertionError("the client was given up")


def drain(outbox):
    """Everything that is queued, as messages."""
    outbox.close()
    data = b""
    while (taken := outbox.take(1 << 16)) is not None:
        data += taken
    return [json.loads(line) for line in data.splitlines()]


def as_seen(messages, session):
    """A session's messages and the responses, neighbouring chunks of a message joined."""
    seen = []
    for message in messages:
        if message["session"] not in (session, None):
            continue
        last = seen[-1] if seen else None
        if last and "key" in message and last.get("key") == message["key"]:
            last["text"] += message["text"]
        else:
            seen.append(dict(message))
    return seen


KEYS = st.sampled_from(["m1", "m2"])
CHUNKS = st.tuples(
    st.just("chunk"),
    st.sampled_from(SESSIONS),
    KEYS,
    st.sampled_from(["x", "yz", "\u2028", "🙂é", "w" * 3000]),
)
OTHERS = st.one_of(
    st.tuples(st.just("update"), st.sampled_from(SESSIONS), st.just(""), st.just("")),
    st.tuples(st.just("response"), st.none(), st.just(""), st.just("")),
    st.tuples(st.just("take"), st.none(), st.just(""), st.just("")),
)
PUTS = st.one_of(CHUNKS, CHUNKS, CHUNKS, CHUNKS, OTHERS)


@settings(deadline=None, max_examples=150)
@given(st.lists(PUTS, max_size=40), st.booleans())
def test_each_session_sees_its_messages_in_order_however_they_are_merged(puts, long_queue):
    """Texts add up to what was put, and no response or update moves past a session's text."""
    outbox = Outbox(no_overflow)
    given_messages, data = [], b""
    for _ in range(10 if long_queue else 0):
        outbox.put_update("filler", {"session": "filler", "text": "x" * MERGE_BYTES})
    for number, (kind, session, key, text) in enumerate(puts):
        message = {"session": session, "number": number}
        if kind == "chunk":
            message = {"session": session, "key": key, "text": text}
            outbox.put_chunk(session, chunk(session, key, text))
        elif kind == "update":
            outbox.put_update(session, message)
        elif kind == "response":
            outbox.put(message)
        elif given_messages or long_queue:
            outbox.put({"session": None, "number": number})
            data += outbox.take(1)
        if kind != "take" or given_messages or long_queue:
            given_messages.append(message)
    taken = [json.loads(line) for line in data.splitlines()] + drain(outbox)
    for session in SESSIONS:
        assert as_seen(given_messages, session) == as_seen(taken, session)


def test_neighbouring_chunks_are_merged_once_the_queue_is_long():
    """A long queue holds few messages, whatever other sessions put between."""
    outbox = Outbox(no_overflow)
    outbox.put_update("filler", {"session": "filler", "text": "x" * MERGE_BYTES})
    for _ in range(500):
        outbox.put_chunk("a", chunk("a", "m", "token"))
        outbox.put_chunk("b", chunk("b", "m", "other"))
    messages = drain(outbox)
    assert [
        ("filler", MERGE_BYTES),
        ("a", 500 * len("token")),
        ("b", 500 * len("other")),
    ] == [(message["session"], len(message["text"])) for message in messages]


def test_chunks_of_different_messages_are_never_merged():
    """However long the queue is: each piece stays with its message."""
    outbox = Outbox(no_overflow)
    outbox.put_update("filler", {"session": "filler", "text": "x" * MERGE_BYTES})
    for key in ("m1", "m1", "m2", "m1"):
        outbox.put_chunk("a", chunk("a", key, key))
    assert [("m1", "m1m1"), ("m2", "m2"), ("m1", "m1")] == [
        (message["key"], message["text"]) for message in drain(outbox)[1:]
    ]


def test_a_merged_chunk_does_not_grow_past_its_bound():
    """A message stays small enough to be read while others wait."""
    outbox = Outbox(no_overflow)
    outbox.put_update("filler", {"session": "filler", "text": "x" * MERGE_BYTES})
    for _ in range(100):
        outbox.put_chunk("a", chunk("a", "m", "y" * 10_000))
    texts = [message["text"] for message in drain(outbox) if message["session"] == "a"]
    assert "y" * 1_000_000 == "".join(texts)
    assert max(map(len, texts)) <= MERGED_CHUNK_BYTES
    assert len(texts) < 10


def test_a_short_queue_is_sent_piece_by_piece():
    """Text streams as it comes while the client reads."""
    outbox = Outbox(no_overflow)
    for text in ("a", "b", "c"):
        outbox.put_chunk("a", chunk("a", "m", text))
    assert ["a", "b", "c"] == [message["text"] for message in drain(outbox)]


def test_bytes_are_merged_as_bytes():
    """Terminal output is joined before it is encoded."""
    outbox = Outbox(no_overflow)
    outbox.put_update("filler", {"text": "x" * MERGE_BYTES})
    for data in (b"\xf0\x9f", b"\x99\x82"):
        outbox.put_chunk("a", Chunk("t", data, lambda joined: encode({"text": joined.decode()})))
    assert "🙂" == drain(outbox)[-1]["text"]


def fill(outbox, session):
    """Put as much of a session as makes its producers wait."""
    text = "x" * 50_000
    for _ in range(SESSION_BYTES // len(text) + 1):
        outbox.put_update(session, {"session": session, "text": text})


WAKERS = {
    "room": lambda outbox, cancel: [outbox.take(1) for _ in range(3)],
    "cancel": lambda outbox, cancel: cancel.cancel(),
    "the client being gone": lambda outbox, cancel: outbox.discard(),
    "the end": lambda outbox, cancel: outbox.close(),
}


@pytest.mark.parametrize("waker", WAKERS)
def test_a_producer_waits_for_room_and_is_woken(waker):
    """A full session makes its producers wait, and each of these lets them go on."""
    outbox, cancel = Outbox(no_overflow), CancelToken()
    fill(outbox, "a")
    producer = Background(lambda: outbox.wait_for_room("a", cancel))
    assert not producer.ended_within(MOMENT_S)
    WAKERS[waker](outbox, cancel)
    producer.result()


def test_a_producer_with_a_cancelled_turn_does_not_wait():
    """The end of a cancelled turn is queued whatever the client reads."""
    outbox, cancel = Outbox(no_overflow), CancelToken()
    fill(outbox, "a")
    cancel.cancel()
    outbox.wait_for_room("a", cancel)


def test_other_sessions_do_not_wait_for_a_full_one():
    """One client thread that does not show a session does not hold up another."""
    outbox = Outbox(no_overflow)
    fill(outbox, "a")
    outbox.wait_for_room("b", CancelToken())
    outbox.put({"response": True})


@pytest.mark.parametrize("producers", [1, 3])
def test_no_more_is_held_than_the_bound_and_one_item_of_each_producer(producers):
    """With nobody reading, producers that wait for room stop at the bound."""
    outbox, cancel = Outbox(no_overflow), CancelToken()
    put = threading.Semaphore(0)
    item = 10_000

    def produce():
        for number in itertools.count():
            outbox.wait_for_room("a", cancel)
            if cancel.cancelled:
                return
            outbox.put_chunk("a", chunk("a", number // 7, "x" * item))
            put.release()

    threads = [Background(produce, f"test-producer-{number}") for number in range(producers)]
    held = 0
    while held <= 2 * SESSION_BYTES and put.acquire(timeout=2 * MOMENT_S):
        held += item
    assert 0 < held <= SESSION_BYTES + producers * item
    cancel.cancel()
    for thread in threads:
        thread.result()


def test_too_much_that_may_not_be_dropped_gives_the_client_up():
    """More than 64 MiB of responses and updates: the client counts as gone."""
    overflows = []
    outbox = Outbox(lambda: overflows.append(True))
    piece = "x" * (1024 * 1024)
    for _ in range(ESSENTIAL_BYTES // len(piece) - 1):
        outbox.put(piece)
    assert not overflows
    outbox.put(piece)
    outbox.put(piece)
    assert overflows


def test_what_was_taken_does_not_count_any_more():
    """A client that reads is never given up, however much it gets."""
    outbox = Outbox(no_overflow)
    piece = "x" * (1024 * 1024)
    for _ in range(ESSENTIAL_BYTES // len(piece) + 10):
        outbox.put(piece)
        assert outbox.take(1)


def test_text_does_not_give_the_client_up():
    """Only what must not be dropped counts; text makes its producer wait instead."""
    outbox = Outbox(no_overflow)
    piece = "x" * (1024 * 1024)
    for number in range(ESSENTIAL_BYTES // len(piece) + 2):
        outbox.put_chunk("a", chunk("a", number, piece))


def test_nothing_is_kept_for_a_client_that_is_gone():
    """What waits is dropped, and so is what comes."""
    outbox = Outbox(no_overflow)
    outbox.put({"a": 1})
    outbox.discard()
    outbox.put({"b": 1})
    outbox.put_chunk("a", chunk("a", "m", "x"))
    assert outbox.take(100) is None
    outbox.wait_for_room("a", CancelToken())


def test_taking_waits_for_a_message():
    """The writer sleeps until there is something to write."""
    outbox = Outbox(no_overflow)
    taker = Background(lambda: outbox.take(100))
    assert not taker.ended_within(MOMENT_S)
    outbox.put([1])
    assert b"[1]\n" == taker.result()


class Pipe:
    """A client's end of stdout."""

    def __init__(self):
        self.read_fd, self.write_fd = os.pipe()
        self.gone = []
        self.told = threading.Event()
        self.writer = Writer(self.write_fd, self._on_gone)
        self.writer.start()

    def _on_gone(self, reason):
        self.gone.append(reason)
        self.told.set()

    def read_all(self):
        """What comes until the other end is closed."""
        with os.fdopen(self.read_fd, "rb") as stream:
            return stream.read()

    def close_reading(self):
        os.close(self.read_fd)


@pytest.fixture
def pipe():
    """A writer on a pipe; the write end is closed afterwards."""
    pipe = Pipe()
    yield pipe
    pipe.writer.stop(DEADLINE_S)
    os.close(pipe.write_fd)


def writers_alive():
    """The writer threads of this process."""
    return [thread for thread in threading.enumerate() if thread.name == "term2-writer"]


def test_the_writer_writes_everything_before_it_stops():
    """Messages longer than the pipe come whole and in order."""
    pipe = Pipe()
    reader = Background(pipe.read_all)
    messages = [{"n": number, "text": "é\u2028" * 50_000} for number in range(5)]
    for message in messages:
        pipe.writer.send(message)
    pipe.writer.stop(DEADLINE_S)
    os.close(pipe.write_fd)
    assert messages == [json.loads(line) for line in reader.result().split(b"\n")[:-1]]
    assert [] == pipe.gone
    assert not writers_alive()


def test_the_writer_survives_a_closed_pipe(pipe):
    """The loss is told once, and whoever goes on sending is not disturbed."""
    pipe.close_reading()
    pipe.writer.send({"a": 1})
    assert pipe.told.wait(DEADLINE_S)
    for number in range(100):
        pipe.writer.send({"n": number})
        pipe.writer.send_update("a", {"n": number})
        pipe.writer.wait_for_room("a", CancelToken())
    pipe.writer.stop(DEADLINE_S)
    assert 1 == len(pipe.gone)
    assert not writers_alive()


def test_a_client_that_goes_away_while_it_is_written_to_is_noticed(pipe):
    """A pipe that breaks in the middle of a message is the same."""
    pipe.writer.send({"text": "x" * 1_000_000})
    assert os.read(pipe.read_fd, 1)
    pipe.close_reading()
    assert pipe.told.wait(DEADLINE_S)
    assert "stdout is broken" in pipe.gone[0]


def test_the_writer_stops_in_time_although_nobody_reads(pipe):
    """The thread is let out of its wait; it is not left behind."""
    pipe.writer.send({"text": "x" * 1_000_000})
    assert os.read(pipe.read_fd, 1)
    stopping = Background(lambda: pipe.writer.stop(MOMENT_S))
    stopping.result()
    assert not writers_alive()
    pipe.close_reading()


def test_a_client_that_never_reads_its_responses_is_given_up(pipe):
    """More than 64 MiB wait: that is told like a broken pipe, and the memory is freed."""
    message = "x" * (4 * 1024 * 1024)
    for _ in range(ESSENTIAL_BYTES // len(message) + 2):
        pipe.writer.send(message)
    assert pipe.told.wait(DEADLINE_S)
    assert ["the client does not read its responses"] == pipe.gone
    pipe.close_reading()
