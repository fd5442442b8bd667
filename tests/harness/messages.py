"""What the client receives, judged and given a form that tests can ask."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import attrs

JsonId = str | int | None
Message = dict[str, Any]


class WireFault(Exception):
    """A line on standard output that the protocol does not allow."""


@attrs.frozen
class Update:
    """One session/update; `seq` counts every message of the connection."""

    seq: int
    session: str
    kind: str
    body: Message


def id_key(request_id: object) -> tuple[str, object]:
    """A key under which 1, "1", 1.0, True and None are five different ids."""
    return type(request_id).__name__, request_id


def parse_line(line: bytes) -> Any:
    """
    Parse one line as strictly as JSON can be read.

    Raises:
        WireFault: it is blank, not UTF-8, not JSON, or has NaN, doubled members or lone
            surrogates.
    """
    if not line.strip():
        raise WireFault("a blank line")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireFault(f"not UTF-8: {error}") from error
    try:
        message = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except ValueError as error:
        raise WireFault(f"not JSON: {error}") from error
    if "\\u" in text:
        _refuse_surrogates(message)
    return message


def _unique(pairs: list[tuple[str, Any]]) -> Message:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise WireFault(f"a member comes twice in {sorted(name for name, _ in pairs)}")
    return members


def _no_constant(name: str) -> Any:
    raise WireFault(f"{name} is not JSON")


def _refuse_surrogates(message: object) -> None:
    try:
        json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise WireFault("a lone surrogate") from error


def check_envelope(message: object) -> Message:
    """
    Check the members of a JSON-RPC object; which kind it is stays open.

    Raises:
        WireFault: it is neither a request, a notification nor a response.
    """
    if not isinstance(message, dict):
        raise WireFault("neither an object nor a batch")
    if message.get("jsonrpc") != "2.0":
        raise WireFault("jsonrpc is not 2.0")
    members = frozenset(message)
    if members not in ENVELOPES:
        raise WireFault(f"these members make no JSON-RPC message: {sorted(members)}")
    return message


ENVELOPES = frozenset(
    frozenset(("jsonrpc", *names))
    for names in (
        ("id", "result"),
        ("id", "error"),
        ("method", "params"),
        ("id", "method", "params"),
    )
)


def encode(message: Any) -> bytes:
    """A message as one line."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def notification(method: str, params: Any = None) -> Message:
    """A notification's message."""
    message: Message = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return message


def prompt_params(session: str, prompt: str | Iterable[Message]) -> Message:
    """The parameters of session/prompt for a text, or for content blocks."""
    blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else list(prompt)
    return {"sessionId": session, "prompt": blocks}


def agent_text(updates: list[Update]) -> str:
    """What the agent said, its chunks and whole messages put together in order."""
    return _text(updates, ("agent_message_chunk", "agent_message"))


def thought_text(updates: list[Update]) -> str:
    """What the agent thought, put together in order."""
    return _text(updates, ("agent_thought_chunk", "agent_thought"))


def _text(updates: list[Update], kinds: tuple[str, ...]) -> str:
    pieces = []
    for update in updates:
        if update.kind in kinds:
            content = update.body.get("content") or []
            blocks = content if isinstance(content, list) else [content]
            pieces += [block.get("text", "") for block in blocks]
    return "".join(pieces)


def tool_calls(updates: list[Update]) -> dict[str, Message]:
    """Each tool call as its updates left it, in the order of their first update."""
    calls: dict[str, Message] = {}
    for update in updates:
        if update.kind == "tool_call_update":
            call = calls.setdefault(update.body["toolCallId"], {})
            call.update({k: v for k, v in update.body.items() if v is not None})
    return calls


@attrs.frozen
class Conversation:
    """
    What a list of updates amounts to, live or replayed.

    `items` are messages and tool calls in the order of their first update, without
    what differs between a stream of pieces and a whole. `terminals` maps a
    terminalId to its output and its exit status. `plan` is the last one that was told.
    """

    items: list[tuple[str, str, Any]]
    terminals: dict[str, tuple[bytes, Any]]
    plan: Any = None


ROLES = {
    "user_message": "user",
    "agent_message": "agent",
    "agent_message_chunk": "agent",
    "agent_thought": "thought",
    "agent_thought_chunk": "thought",
}


def conversation(updates: list[Update]) -> Conversation:
    """Fold updates into the conversation that they tell."""
    items: dict[tuple[str, str], Any] = {}
    terminals: dict[str, tuple[bytes, Any]] = {}
    plan = None
    calls = tool_calls(updates)
    for update in updates:
        body = update.body
        if update.kind == "plan_update":
            plan = body["plan"]
        elif update.kind == "user_message":
            items["user", body["messageId"]] = body["content"]
        elif update.kind in ROLES:
            key = ROLES[update.kind], body["messageId"]
            before = items.get(key, "") if update.kind.endswith("_chunk") else ""
            items[key] = before + _text([update], (update.kind,))
        elif update.kind == "tool_call_update":
            call = calls[body["toolCallId"]]
            items["call", body["toolCallId"]] = {k: call.get(k) for k in CALL_MEMBERS}
        elif update.kind in ("terminal_update", "terminal_output_chunk"):
            terminals[body["terminalId"]] = _terminal(terminals, body)
    return Conversation([(*key, value) for key, value in items.items()], terminals, plan)


CALL_MEMBERS = ("name", "title", "kind", "status", "rawInput", "content", "locations")


def _terminal(terminals: dict[str, tuple[bytes, Any]], body: Message) -> tuple[bytes, Any]:
    output, status = terminals.get(body["terminalId"], (b"", None))
    snapshot = body.get("output")
    if snapshot is not None:
        output = base64.b64decode(snapshot["data"])
    output += base64.b64decode(body.get("data", ""))
    exited = body.get("exitStatus")
    return output, status if exited is None else exited
