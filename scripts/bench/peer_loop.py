"""
The floor: the least that a Python program does for the same lines, without care for anything.

MODEL_PORT names a `bench.model`; without it, prompts are not understood.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

_DATA = b"data: "


def main() -> None:
    """Answer lines until there are no more."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        method, params = message["method"], message["params"]
        if method == "initialize":
            result: dict[str, Any] = {"protocolVersion": 2, "capabilities": {"session": {}}}
            _say({"jsonrpc": "2.0", "id": message["id"], "result": result})
        elif method == "session/new":
            _say({"jsonrpc": "2.0", "id": message["id"], "result": {"sessionId": "sess_1"}})
        else:
            _prompt(message["id"], params)


def _prompt(request_id: int, params: dict[str, Any]) -> None:
    session = params["sessionId"]
    _update(session, {"sessionUpdate": "state_update", "state": "running"})
    _say({"jsonrpc": "2.0", "id": request_id, "result": {}})
    said = {"sessionUpdate": "user_message", "messageId": "msg_1", "content": params["prompt"]}
    _update(session, said)
    messages: list[dict[str, Any]] = [{"role": "user", "content": params["prompt"][0]["text"]}]
    while call := _stream(session, messages):
        content = _run(session, call)
        calls = {"role": "assistant", "content": "", "tool_calls": [call]}
        messages += [calls, {"role": "tool", "tool_call_id": call["id"], "content": content}]
    _update(session, {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"})


def _run(session: str, call: dict[str, Any]) -> str:
    arguments = json.loads(call["function"]["arguments"])
    update = {"sessionUpdate": "tool_call_update", "toolCallId": call["id"], "status": "pending"}
    _update(session, {**update, "name": call["function"]["name"], "rawInput": arguments})
    _update(session, {**update, "status": "in_progress"})
    with open(arguments["path"], encoding="utf-8") as file:
        content = file.read()
    _update(session, {**update, "status": "completed"})
    return content


def _stream(session: str, messages: list[dict[str, Any]]) -> Any:
    """Show an answer as it comes; the call that it asks for, if it does."""
    call = None
    for data in _events({"model": "loopback", "stream": True, "messages": messages}):
        for choice in json.loads(data)["choices"]:
            call = (choice["delta"].get("tool_calls") or [call])[0]
            text = choice["delta"].get("content")
            if text:
                content = {"type": "text", "text": text}
                chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "msg_2"}
                _update(session, {**chunk, "content": content})
    return call


def _events(request: dict[str, Any]) -> Iterator[bytes]:
    body = json.dumps(request).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: loopback\r\nContent-Length: "
    address = ("127.0.0.1", int(os.environ["MODEL_PORT"]))
    with socket.create_connection(address) as connection, connection.makefile("rb") as reader:
        connection.sendall(f"{head}{len(body)}\r\n\r\n".encode() + body)
        for line in reader:
            if line.startswith(_DATA):
                if line.startswith(b"data: [DONE]"):
                    return
                yield line[len(_DATA) :]


def _update(session: str, update: dict[str, Any]) -> None:
    params = {"sessionId": session, "update": update}
    _say({"jsonrpc": "2.0", "method": "session/update", "params": params})


def _say(message: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
