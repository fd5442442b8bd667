"""The test client must catch what it is there to catch; its peer here is a small script."""

from __future__ import annotations

import json
import sys
import time

import pytest

from tests.harness.client import Client
from tests.harness.connection import WireViolation
from tests.harness.home import Home

# Answers each line of its input with the next of the lines in its argument, then waits for EOF.
SCRIPTED = """
import json, sys
for answer in json.loads(sys.argv[1]):
    sys.stdin.buffer.readline()
    sys.stdout.buffer.write(bytes.fromhex(answer))
    sys.stdout.buffer.flush()
sys.stdin.buffer.read()
"""
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "result": {"protocolVersion": 2, "info": {"name": "x", "version": "1"}, "capabilities": {}},
}


def scripted(home: Home, *answers: object) -> Client:
    """A client of a server that gives fixed answers: bytes, or messages."""
    lines = [
        answer if isinstance(answer, bytes) else json.dumps(answer).encode() + b"\n"
        for answer in answers
    ]
    argument = json.dumps([line.hex() for line in lines])
    return Client(home, argument, command=[sys.executable, "-c", SCRIPTED])


def update(**body: object) -> dict[str, object]:
    """A session/update of session s."""
    return {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": "s", "update": body},
    }


def response(request_id: object, result: object = None) -> dict[str, object]:
    """A response with a result."""
    return {"jsonrpc": "2.0", "id": request_id, "result": {} if result is None else result}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"hello\n", "not JSON"),
        (b"\n", "blank line"),
        (b'{"jsonrpc":"2.0","id":7,"result":{"x":"\xff"}}\n', "not UTF-8"),
        (b'{"jsonrpc":"2.0","id":7,"result":{"x":"\\ud800"}}\n', "lone surrogate"),
        (b'{"jsonrpc":"2.0","id":7,"result":{"x":NaN}}\n', "NaN"),
        (b'{"jsonrpc":"2.0","id":7,"id":7,"result":{}}\n', "comes twice"),
        (b'{"id":7,"result":{}}\n', "jsonrpc is not 2.0"),
        ({"jsonrpc": "2.0", "id": 7, "result": {}, "error": {}}, "these members"),
        (response(7), "not awaited"),
        (response(1), "not awaited"),
        (response(None), "not awaited"),
        ([response(2)], "a batch answers a batch"),
        ([], "an empty batch"),
        (response(2, {"sesionId": "s"}), "NewSessionResponse"),
        ({"jsonrpc": "2.0", "id": 2, "error": {"code": "x", "message": ""}}, "Error"),
        ({"jsonrpc": "2.0", "id": 9, "method": "fs/read_text_file", "params": {}}, "fs/read"),
        ({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}, "not send"),
        ({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 4}}, "not open"),
        (update(sessionUpdate="state_update", state="running"), "no prompt is open"),
        (update(sessionUpdate="state_update", state="idel"), "idel"),
        (update(sessionUpdate="tool_call", toolCallId="t", title="x"), "tool_call"),
    ],
)
def test_a_bad_line_fails_the_next_wait_and_the_close(home, line, fault):
    """A line that the protocol forbids is a violation, also for a test that waits for something."""
    client = scripted(home, HELLO, line)
    client.initialize()
    reply = client.request("session/new", {"cwd": "/"})
    with pytest.raises(WireViolation, match=fault):
        reply.response()
    with pytest.raises(WireViolation, match=fault):
        client.close()


def test_an_unlooked_at_violation_fails_the_close(home):
    """A violation that no wait met is raised at the end."""
    client = scripted(home, HELLO, b"oops\n")
    client.initialize()
    client.notify("session/cancel", {"sessionId": "s"})
    with pytest.raises(WireViolation, match="not JSON"):
        client.close()


def test_a_last_line_without_its_newline_is_a_violation(home):
    """Output that stops inside a line is judged at the end."""
    client = scripted(home, HELLO, b"{}")
    client.initialize()
    client.notify("session/cancel", {"sessionId": "s"})
    with pytest.raises(WireViolation, match="no newline"):
        client.close()


def test_a_request_without_an_answer_is_a_violation(home):
    """An orderly end leaves no request open."""
    client = scripted(home, HELLO, b"")
    client.initialize()
    client.request("session/new", {"cwd": "/"})
    with pytest.raises(WireViolation, match="session/new with id 2 was never answered"):
        client.close()


def test_an_exit_status_and_a_traceback_are_violations(home):
    """A server that dies with a traceback fails the test, though all it said was right."""
    client = Client(home, command=[sys.executable, "-c", "input(); raise SystemError"])
    client.send_raw(b"\n")
    with pytest.raises(WireViolation, match=r"exit status 1; a traceback on stderr"):
        client.close()


def test_a_wait_without_an_answer_shows_the_wire(home):
    """A time-out names what was waited for and shows the last lines."""
    client = scripted(home, HELLO)
    client.initialize()
    with pytest.raises(AssertionError, match=r"no idle of session s within 0.01 s(?s:.*)-> b'"):
        client.wait_idle("s", timeout=0.01)
    client.close()


def test_a_right_turn_is_accepted(home):
    """The order that the protocol fixes passes, and gives the stop reason and the text."""
    running = update(sessionUpdate="state_update", state="running")
    lines = [
        running,
        response(2),
        update(sessionUpdate="user_message", messageId="u", content=[]),
        update(
            sessionUpdate="agent_message_chunk",
            messageId="a",
            content={"type": "text", "text": "hi"},
        ),
        update(sessionUpdate="state_update", state="idle", stopReason="end_turn"),
    ]
    client = scripted(home, HELLO, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    client.initialize()
    turn = client.run("s", "hello")
    assert (turn.stop_reason, turn.text) == ("end_turn", "hi")
    client.close()


def test_a_wait_for_standard_error_ends_when_it_comes(home):
    """And not at the deadline, although no message comes."""
    speaks = "import sys; print('ready', file=sys.stderr, flush=True); sys.stdin.read()"
    client = Client(home, command=[sys.executable, "-c", speaks])
    start = time.monotonic()
    client.wait_for(lambda: "ready" in client.stderr, "the line on stderr", 30)
    assert time.monotonic() - start < 30
    client.close()
