"""Spec section 4: what a line is, and what happens to one that is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.client import Client
from tests.harness.messages import agent_text, encode, prompt_params

MIB = 1 << 20
ODD_SEPARATORS = "a\u2028b\u2029c\u0085d\x0b\x0c\x1c\x1d\x1ee"


def user_text(client: Client, session: str) -> str:
    """The text of the last user message that the agent sent back."""
    messages = [u for u in client.updates(session) if u.kind == "user_message"]
    return "".join(block["text"] for block in messages[-1].body["content"])


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"hello",
        b'{"jsonrpc":"2.0","id":1,"method":"session/list"',
        b'{"jsonrpc":"2.0","id":1,"method":"session/list"}}',
        b"{'jsonrpc':'2.0'}",
        b'{"jsonrpc":"2.0","id":1,"method":"session/list"} {}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"a":"\x01"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"_meta":{"a":NaN}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"_meta":{"a":-Infinity}}}',
        b'{"jsonrpc":"2.0","id":NaN,"method":"session/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"_meta":{"a":"\xff"}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"_meta":{"a":"\xed\xa0\x80"}}}',
        b"\xef\xbb\xbf" + b'{"jsonrpc":"2.0","id":1,"method":"session/list"}',
        b"\xff\xfe{\x00}\x00",
        b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"a":' + b"1" * 5000 + b"}}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"_meta":'
        + b"[" * 100_000
        + b"]" * 100_000
        + b"}}",
    ],
    ids=lambda line: repr(line[:60]),
)
def test_what_is_not_json_is_a_parse_error_with_a_null_id(shared, shared_session, line):
    """-32700 for bad JSON, bad UTF-8, NaN and what no parser takes; the stream goes on."""
    reply = shared.expect(None)
    shared.send_raw(line + b"\n")
    assert reply.code() == -32700
    shared.still_works(shared_session)


def test_blank_lines_and_carriage_returns_are_tolerated(shared, shared_session):
    """Blank and white-space lines are nothing; a line may end in CR LF."""
    shared.send_raw(b"\n\r\n   \n\t \r\n")
    reply, message = shared.prepare("session/list", {})
    shared.send_raw(b"  " + encode(message).rstrip() + b" \t\r\n\r\n")
    assert "sessions" in reply.result()
    shared.still_works(shared_session)


@pytest.mark.parametrize("escaped", [False, True], ids=["raw", "escaped"])
def test_unicode_line_separators_inside_strings_end_no_line(shared, shared_session, escaped):
    """U+2028, U+2029, U+0085 and their kind pass through a prompt and an answer unchanged."""
    said = ODD_SEPARATORS if escaped else "a\u2028b\u2029c\u0085d"
    text = "/say " + said
    reply, message = shared.prepare("session/prompt", prompt_params(shared_session, text))
    shared.send_raw(json.dumps(message, ensure_ascii=escaped).encode() + b"\n")
    reply.result()
    assert shared.wait_idle(shared_session) == "end_turn"
    assert user_text(shared, shared_session) == text
    assert said in agent_text(shared.updates(shared_session))


def test_a_line_may_come_byte_by_byte(start, project):
    """A whole exchange written one byte at a time is the same exchange."""
    client: Client = start()
    hello = {"protocolVersion": 2, "info": {"name": "x", "version": "1"}}
    reply, message = client.prepare("initialize", hello)
    opened, second = client.prepare("session/new", {"cwd": str(project), "_meta": {"é": "😀"}})
    for byte in encode(message) + encode(second):
        client.process.write(bytes([byte]))
    assert reply.result()["protocolVersion"] == 2
    client.still_works(opened.result()["sessionId"])


def test_many_lines_may_come_in_one_write(shared, shared_session):
    """A hundred requests in one write get a hundred responses."""
    pairs = [shared.prepare("session/list", {}) for _ in range(100)]
    shared.send_raw(b"".join(encode(message) for _, message in pairs))
    assert all("sessions" in reply.result() for reply, _ in pairs)
    shared.still_works(shared_session)


def test_the_last_line_may_lack_its_newline(client):
    """A request that ends with the stream is answered before the server ends."""
    reply, message = client.prepare("session/list", {})
    client.send_raw(encode(message).rstrip())
    client.eof()
    assert reply.result() == {"sessions": []}
    assert client.wait_exit() == 0


def test_a_torn_last_line_is_a_parse_error(client):
    """Half a message at the end of the stream is answered like any other garbage."""
    reply = client.expect(None)
    client.send_raw(b'{"jsonrpc":"2.0","id":1,"meth')
    client.eof()
    assert reply.code() == -32700
    assert client.wait_exit() == 0


def test_a_prompt_of_12_mib_is_read(client, session):
    """A long line below the limit is an ordinary prompt, and comes back whole."""
    text = "/say done\n" + "é" * (6 * MIB)
    turn = client.run(session, text, timeout=60)
    assert turn.stop_reason == "end_turn"
    assert "done" in turn.text
    assert user_text(client, session) == text


def test_a_line_over_the_limit_is_refused_and_not_held_in_memory(client, session):
    """More than 32 MiB in a line: -32600 with id null, bounded memory, and the stream goes on."""
    client.still_works(session)
    before = peak_memory(client.process.pid)
    for size, ending in ((33 * MIB, b"\n"), (160 * MIB, b"\r\n")):
        reply = client.expect(None)
        client.send_raw(b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"a":"')
        block = b"x" * MIB
        for _ in range(size // MIB):
            client.process.write(block)
        client.process.write(b'"}}' + ending)
        assert reply.code(timeout=60) == -32600
    assert peak_memory(client.process.pid) - before < 100 * MIB
    client.still_works(session)


def test_a_last_line_over_the_limit_without_a_newline_is_refused(client):
    """The limit holds for a line that the end of the stream ends."""
    reply = client.expect(None)
    client.send_raw(b"x" * (33 * MIB))
    client.eof()
    assert reply.code() == -32600
    assert client.wait_exit() == 0


def peak_memory(pid: int) -> int:
    """The most memory that a process had so far, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM in the status of the process")
