"""Spec section 4: garbage never ends the server, whatever it is made of."""

from __future__ import annotations

import json
import random
import threading

import pytest

from tests.harness.client import CLIENT_INFO
from tests.harness.home import SOURCE
from tests.harness.messages import check_envelope, encode, notification, parse_line
from tests.harness.process import SERVE, ServerProcess

LINES = 1500
ODD_VALUES = (None, True, False, 0, -1, 1.5, 2**70, "", "x", "\ud800", [], {}, [[]], {"": {}})


class Listener:
    """Collects lines and says when the one came that has the id `last`."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.last = threading.Event()

    def on_line(self, line: bytes) -> None:
        """Keep a line (reading thread)."""
        self.lines.append(line)
        if b'"id":"last"' in line:
            self.last.set()

    def on_end(self, _rest: bytes) -> None:
        """The output ended (reading thread)."""
        self.last.set()


@pytest.fixture
def server(home):
    """A server that is not judged by the client's rules, and the listener to its lines."""
    listener = Listener()
    process = ServerProcess(
        home,
        SERVE,
        cwd=SOURCE,
        environment=home.environment(),
        on_line=listener.on_line,
        on_end=listener.on_end,
    )
    yield process, listener
    process.dispose()


def seeds(project):
    """Right messages, to be spoilt."""
    text = {"type": "text", "text": "/say x"}
    requests = [
        ("initialize", {"protocolVersion": 2, "info": CLIENT_INFO, "capabilities": {}}),
        ("session/new", {"cwd": str(project), "mcpServers": [], "additionalDirectories": []}),
        ("session/list", {"cwd": str(project), "cursor": "abc"}),
        ("session/resume", {"sessionId": "s", "cwd": "/x", "replayFrom": {"type": "start"}}),
        ("session/prompt", {"sessionId": "s", "prompt": [text, text]}),
        ("session/close", {"sessionId": "s"}),
    ]
    messages = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(requests)
    ]
    messages.append(notification("session/cancel", {"sessionId": "s"}))
    messages.append(notification("$/cancel_request", {"requestId": 3}))
    messages.append({"jsonrpc": "2.0", "id": 1, "result": {"outcome": {"outcome": "selected"}}})
    return [*messages, messages[1:4]]


def spoil_value(dice, value):
    """A copy with one member, somewhere in it, replaced, renamed or taken away."""
    if not isinstance(value, dict | list) or not value or dice.random() < 0.15:
        return dice.choice(ODD_VALUES)
    if isinstance(value, list):
        place = dice.randrange(len(value))
        return [*value[:place], spoil_value(dice, value[place]), *value[place + 1 :]]
    key = dice.choice(list(value))
    rest = {k: v for k, v in value.items() if k != key}
    match dice.randrange(6):
        case 0:
            return rest
        case 1:
            return {**rest, key + "x": value[key]}
        case _:
            return {**rest, key: spoil_value(dice, value[key])}


def spoil_bytes(dice, line):
    """A line with some bytes changed, cut or doubled; never with more newlines."""
    data = bytearray(line)
    for _ in range(dice.randrange(1, 4)):
        place = dice.randrange(len(data))
        match dice.randrange(3):
            case 0:
                data[place] = dice.randrange(256)
            case 1:
                del data[place : place + dice.randrange(1, 20)]
            case _:
                data[place:place] = data[place : place + dice.randrange(1, 20)]
        if not data:
            break
    return bytes(data).replace(b"\n", b"") + b"\n"


@pytest.mark.parametrize("seed", [1, 2])
def test_garbage_never_ends_the_server(server, project, seed):
    """Spoilt lines by the thousand: all that is written is JSON-RPC, and a request still works."""
    process, listener = server
    dice = random.Random(seed)  # noqa: S311 (it plays)
    right = seeds(project)
    data = encode(right[0])
    for _ in range(LINES):
        message = dice.choice(right[1:])
        if dice.random() < 0.5:
            data += json.dumps(spoil_value(dice, message)).encode() + b"\n"
        else:
            data += spoil_bytes(dice, encode(message))
    data += encode({"jsonrpc": "2.0", "id": "last", "method": "session/list", "params": {}})
    process.write(data)
    assert listener.last.wait(60), process.stderr
    process.close_stdin()
    assert process.wait_exit() == 0
    assert "Traceback" not in process.stderr
    for line in listener.lines:
        messages = parse_line(line)
        for message in messages if isinstance(messages, list) else [messages]:
            check_envelope(message)
    final = json.loads(next(line for line in listener.lines if b'"id":"last"' in line))
    assert "sessions" in final["result"]
