"""
A fast model service on loopback, which speaks Chat Completions as the prompt says.

`python -m bench.model` prints its port and serves until its stdin ends. The last line of
the last user message that begins with `model:` tells what to answer, as `name=value`
words (see `Orders`). Streams are made once and then sent as they are, so that what is
measured is the reader.
"""

from __future__ import annotations

import functools
import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

import attrs

MARK = "~"
"""Ends the text of each chunk, so that chunks can be counted however they are merged."""
_SLAB_BYTES = 64 * 1024
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


Answer = Callable[[socket.socket, dict[str, Any]], None]


@attrs.frozen
class Orders:
    """
    What to answer.

    Args:
        chunks: how many chunks of text, each with the time in nanoseconds if `every_ms`.
        size: characters in each.
        every_ms: milliseconds from one to the next; 0 sends all at once.
        call: a tool to call first, with no text; its result is answered with the text.
        arguments: of the call, JSON without white space.
    """

    chunks: int = 1
    size: int = 4
    every_ms: int = 0
    call: str = ""
    arguments: str = "{}"

    @classmethod
    def read(cls, text: str) -> Orders:
        """The orders in a prompt, or the defaults."""
        for line in reversed(text.splitlines()):
            if line.startswith("model:"):
                words = dict(word.split("=", 1) for word in line.split()[1:])
                kinds = {field.name: field.type for field in attrs.fields(cls)}
                return cls(
                    **{
                        name: int(value) if kinds[name] == "int" else value
                        for name, value in words.items()
                    }
                )
        return cls()

    def line(self) -> str:
        """The line that orders this."""
        given = attrs.asdict(self)
        return "model: " + " ".join(f"{name}={value}" for name, value in given.items() if value)


def serve(answer: Answer) -> None:
    """Answer requests, each with `answer`, until stdin ends."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=_accept, args=(listener, answer), name="accept", daemon=True).start()
    sys.stdin.read()


def _accept(listener: socket.socket, answer: Answer) -> None:
    while True:
        connection, _address = listener.accept()
        threading.Thread(
            target=_serve, args=(connection, answer), name="serve", daemon=True
        ).start()


def _serve(connection: socket.socket, answer: Answer) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        with connection, connection.makefile("rb") as reader:
            while (request := _read_request(reader)) is not None:
                path, body = request
                if path.endswith("/models"):
                    listed = json.dumps({"object": "list", "data": []}).encode()
                    connection.sendall(JSON_HEAD % len(listed) + listed)
                else:
                    answer(connection, json.loads(body))
    except OSError:
        # The client went away.
        return


def _read_request(reader: BinaryIO) -> tuple[str, bytes] | None:
    words = reader.readline().split()
    if len(words) < 2:
        return None
    length = 0
    while (header := reader.readline().strip()) != b"":
        name, _, value = header.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    body = reader.read(length)
    # A client that was ended in the middle is gone.
    return (words[1].decode(), body) if len(body) == length else None


def answer_as_ordered(connection: socket.socket, body: dict[str, Any]) -> None:
    """Answer as the prompt orders."""
    last = body["messages"][-1]
    orders = Orders.read(last_prompt(body["messages"]))
    if orders.call and last["role"] != "tool":
        connection.sendall(HEAD + _call(orders.call, orders.arguments))
    elif orders.every_ms:
        _pace(connection, orders)
    else:
        data = memoryview(stream(orders.chunks, orders.size))
        connection.sendall(HEAD)
        while data:
            connection.sendall(data[:_SLAB_BYTES])
            data = data[_SLAB_BYTES:]


def last_prompt(messages: list[dict[str, Any]]) -> str:
    """The text of the last user message."""
    for message in reversed(messages):
        if message["role"] == "user":
            content = message["content"]
            if isinstance(content, str):
                return content
            return "\n".join(part.get("text", "") for part in content)
    return ""


def _pace(connection: socket.socket, orders: Orders) -> None:
    connection.sendall(HEAD)
    start = time.monotonic()
    for at in range(orders.chunks):
        time.sleep(max(start + at * orders.every_ms / 1000 - time.monotonic(), 0))
        connection.sendall(framed(text_event(f"{time.monotonic_ns()}{MARK}")))
    connection.sendall(ending("stop"))


@functools.lru_cache(maxsize=4)
def stream(chunks: int, size: int) -> bytes:
    """A whole answer of so many chunks, in the transfer encoding."""
    text = framed(text_event("x" * (size - 1) + MARK))
    return text * chunks + ending("stop")


def _call(name: str, arguments: str) -> bytes:
    function = {"name": name, "arguments": arguments}
    piece = {"index": 0, "id": "call_0", "type": "function", "function": function}
    return framed(event_of({"tool_calls": [piece]})) + ending("tool_calls")


def ending(reason: str) -> bytes:
    """The end of a stream, and of its transfer encoding."""
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    last = event_of({}, finish_reason=reason) + event_of(None, usage=usage) + b"data: [DONE]\n\n"
    return framed(last) + b"0\r\n\r\n"


def text_event(text: str) -> bytes:
    """A chunk of text."""
    return event_of({"content": text})


def event_of(
    delta: dict[str, Any] | None, *, finish_reason: str | None = None, usage: Any = None
) -> bytes:
    """A chunk with one choice, or with none."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    chunk = {
        "id": "chatcmpl-0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "loopback",
        "system_fingerprint": None,
        "choices": [] if delta is None else [choice],
        **({"usage": usage} if usage else {}),
    }
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


def framed(event: bytes) -> bytes:
    """Bytes as one piece of the transfer encoding."""
    return b"%x\r\n%s\r\n" % (len(event), event)


if __name__ == "__main__":
    serve(answer_as_ordered)
