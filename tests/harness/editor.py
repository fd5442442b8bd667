"""The methods of protocol version 1 on a connection to the real program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.harness.client import Client
from tests.harness.messages import Message, Update
from tests.harness.replies import TIMEOUT, Reply


def text(words: str) -> list[Message]:
    """A prompt of one text."""
    return [{"type": "text", "text": words}]


def of(updates: Iterable[Update], kind: str) -> list[Message]:
    """The updates of a kind."""
    return [update.body for update in updates if update.kind == kind]


def said(updates: Iterable[Update], kind: str = "agent_message_chunk") -> str:
    """The text of all chunks of a kind."""
    return "".join(body["content"]["text"] for body in of(updates, kind))


def final(updates: Iterable[Update]) -> list[Message]:
    """Each call as the editor shows it at the end."""
    calls: dict[str, Message] = {}
    for update in updates:
        if update.kind in ("tool_call", "tool_call_update"):
            calls.setdefault(update.body["toolCallId"], {}).update(update.body)
    return list(calls.values())


def begin(client: Client, **members: Any) -> Message:
    """Negotiate version 1; the result."""
    result: Message = client.request("initialize", {"protocolVersion": 1, **members}).result()
    return result


def open_session(client: Client, cwd: Path) -> str:
    """Open a session; its id."""
    result = client.request("session/new", {"cwd": str(cwd), "mcpServers": []}).result()
    return str(result["sessionId"])


def prompt(client: Client, session: str, words: str | Sequence[Message]) -> Reply:
    """Send a prompt, which stays unanswered as long as its turn runs."""
    blocks = text(words) if isinstance(words, str) else words
    return client.request("session/prompt", {"sessionId": session, "prompt": blocks})


def run(
    client: Client, session: str, words: str | Sequence[Message], timeout: float = TIMEOUT
) -> tuple[str, list[Update]]:
    """Send a prompt and wait for its response; the stop reason and the updates before it."""
    before = len(client.updates(session))
    reply = prompt(client, session, words)
    reason = reply.result(timeout)["stopReason"]
    return reason, [u for u in client.updates(session)[before:] if u.seq < reply.seq]


def load(client: Client, session: str, cwd: Path) -> list[Update]:
    """Load a session; the updates before the response."""
    before = len(client.updates(session))
    params = {"sessionId": session, "cwd": str(cwd), "mcpServers": []}
    reply = client.request("session/load", params)
    assert reply.result() == {}
    return [u for u in client.updates(session)[before:] if u.seq < reply.seq]


def still_works(client: Client, session: str) -> None:
    """
    Run a prompt that says a word.

    Raises:
        AssertionError: it does not end as it should.
    """
    reason, updates = run(client, session, "/say still here")
    assert (reason, said(updates)) == ("end_turn", "still here")
