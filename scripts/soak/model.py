"""
The model of the soak: it does what the prompt's script says, step by step, faults included.

`python -m soak.model` prints its port and serves until its stdin ends.
"""

from __future__ import annotations

import base64
import json
import socket
import struct
import threading
import time
from typing import Any

import attrs
from bench.model import HEAD, JSON_HEAD, ending, event_of, framed, last_prompt, serve, text_event

_WORD = "model-script:"
_PIECES = 64

_tries: dict[str, int] = {}
_tries_lock = threading.Lock()


@attrs.frozen
class Step:
    """
    One answer of the model.

    Args:
        chunks: pieces of text.
        size: characters in each.
        pace_ms: milliseconds between them; 0 sends all at once.
        thinks: whether there is reasoning before the text.
        calls: tools to call, each a name and its arguments as the model writes them.
        fault: what goes wrong; see `_FAULTS`.
        fails: the fault happens in the first so many tries only.
    """

    chunks: int = 1
    size: int = 4
    pace_ms: int = 0
    thinks: bool = False
    calls: tuple[tuple[str, str], ...] = ()
    fault: str = ""
    fails: int = 1


@attrs.frozen
class Script:
    """The steps of a turn; `name` tells turns apart."""

    name: str
    steps: tuple[Step, ...]

    def as_prompt(self) -> str:
        """The text of a prompt that orders this."""
        data = json.dumps(attrs.asdict(self)).encode()
        return f"{_WORD} {base64.b64encode(data).decode()}"

    @classmethod
    def read(cls, prompt: str) -> Script:
        """The script in a prompt; one word is said where there is none (a compaction)."""
        _, found, rest = prompt.rpartition(_WORD)
        if not found:
            return cls("none", (Step(),))
        read = json.loads(base64.b64decode(rest.split()[0]))
        steps = [
            Step(**{**step, "calls": tuple(map(tuple, step["calls"]))}) for step in read["steps"]
        ]
        return cls(read["name"], tuple(steps))


def answer(connection: socket.socket, body: dict[str, Any]) -> None:
    """Answer a request with the step that is due."""
    script = Script.read(last_prompt(body["messages"]))
    number = _steps_done(body["messages"])
    step = script.steps[min(number, len(script.steps) - 1)]
    fault = step.fault if _is_due(f"{script.name}/{number}", step) else ""
    if fault.isdigit():
        _refuse(connection, int(fault))
        return
    connection.sendall(HEAD)
    if step.thinks:
        connection.sendall(framed(event_of({"reasoning_content": "I think."})))
    chunks = step.chunks // 2 if fault else step.chunks
    _say(connection, chunks, step)
    if fault:
        _break(connection, fault)
        return
    for index, (name, arguments) in enumerate(step.calls):
        function = {"name": name, "arguments": arguments}
        piece = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        connection.sendall(framed(event_of({"tool_calls": [piece]})))
    connection.sendall(ending("tool_calls" if step.calls else "stop"))


def _steps_done(messages: list[dict[str, Any]]) -> int:
    """How many answers the last prompt got already."""
    done = 0
    for message in reversed(messages):
        if message["role"] == "user":
            break
        done += message["role"] == "assistant"
    return done


def _is_due(name: str, step: Step) -> bool:
    with _tries_lock:
        _tries[name] = _tries.get(name, 0) + 1
        return _tries[name] <= step.fails


def _say(connection: socket.socket, chunks: int, step: Step) -> None:
    texts = (f"{number:x}".rjust(step.size, "·") for number in range(chunks))
    if step.pace_ms:
        for text in texts:
            connection.sendall(framed(text_event(text)))
            time.sleep(step.pace_ms / 1000)
        return
    pieces = [framed(text_event(text)) for text in texts]
    for start in range(0, len(pieces), _PIECES):
        connection.sendall(b"".join(pieces[start : start + _PIECES]))


def _refuse(connection: socket.socket, status: int) -> None:
    error = json.dumps({"error": {"message": "as ordered", "type": "soak"}}).encode()
    head = (JSON_HEAD % len(error)).replace(b"200 OK", b"%d Soak" % status)
    connection.sendall(head + error)


def _break(connection: socket.socket, fault: str) -> None:
    match fault:
        case "cut":
            connection.shutdown(socket.SHUT_RDWR)
        case "reset":
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.close()
        case "garbage":
            connection.sendall(framed(b"data: {nothing\n\n") + ending("stop"))
        case "error":
            broken = b'data: {"error": {"message": "as ordered", "type": "soak"}}\n\n'
            connection.sendall(framed(broken) + ending("stop"))
        case "stall":
            # Until the other side hangs up.
            connection.recv(1)


FAULTS = ("500", "429", "400", "401", "cut", "reset", "garbage", "error", "stall")

if __name__ == "__main__":
    serve(answer)
