"""A scripted Messages service, which refuses what the vendor refuses."""

from __future__ import annotations

import re
from typing import Any

from tests.models.http import HttpServer, Part, Reply, Request, json_reply, server_sent_event
from tests.models.steps import ScriptedStep, halves, has_lone_surrogate

_TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_MAX_CACHE_MARKS = 4


class MessagesServer(HttpServer):
    """
    Speaks Messages; a thinking block is valid only unchanged and after what it came after.

    The prefix check is that of the vendor's models with preserved thinking.
    """

    def __init__(self) -> None:
        self._prefixes: dict[str, Any] = {}
        self._sealed: dict[str, dict[str, Any]] = {}
        super().__init__()

    @property
    def base_url(self) -> str:
        return self.url

    def step(self, step: ScriptedStep) -> None:
        """Script a whole, well-formed step; its thought is sealed."""
        signature = ""
        if step.thought:
            signature = f"signature-{len(self._sealed)}"
            self._sealed[signature] = {
                "type": "thinking",
                "thinking": step.thought,
                "signature": signature,
            }
        self.reply(Reply((b"".join(message_stream(step, signature)),), label=signature))

    def stream(self, *parts: Part) -> None:
        """Script an event stream by its bytes."""
        self.reply(Reply(parts))

    def seal(self, *blocks: dict[str, Any]) -> None:
        """Take thinking blocks as given out, by the next answer that is labelled so."""
        self._sealed.update((block["signature"], block) for block in blocks)

    def forget_reasoning(self) -> None:
        """From now on the earlier thinking is another account's."""
        self._sealed.clear()

    def judge(self, request: Request) -> Reply | None:
        if request.path != "/v1/messages":
            return _refusal(404, "not_found_error", "Not found")
        body = request.body
        fault = messages_fault(body)
        if fault is not None:
            self.faults.append(fault)
            return _refusal(400, "invalid_request_error", fault)
        fault = self._thinking_fault(body)
        return None if fault is None else _refusal(400, "invalid_request_error", fault)

    def respond(self, request: Request) -> Reply:
        reply = super().respond(request)
        if reply.label:
            body = request.body
            self._prefixes[reply.label] = _prefix(body, len(body["messages"]))
        return reply

    def _thinking_fault(self, body: Any) -> str | None:
        for index, message in enumerate(body["messages"]):
            for place, block in enumerate(message["content"]):
                if block["type"] != "thinking":
                    continue
                fault = f"messages.{index}.content.{place}: Invalid `signature` in `thinking` block"
                if self._sealed.get(block["signature"]) != block:
                    return fault
                if self._prefixes.get(block["signature"]) != _prefix(body, index):
                    return f"{fault}. The block is bound to a different conversation."
        return None


def _prefix(body: Any, count: int) -> Any:
    """Everything before a message, without the marks for the cache."""
    members = (body.get("system"), body.get("tools"), body["messages"][:count])
    return _unmarked(list(members))


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(item) for name, item in value.items() if name != "cache_control"}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


def message_event(kind: str, **members: Any) -> bytes:
    """One named event."""
    return server_sent_event({"type": kind, **members}, kind)


PING = message_event("ping")
MESSAGE_STOP = message_event("message_stop")


def message_start() -> bytes:
    """The first event, with what was read."""
    usage = {
        "input_tokens": 4,
        "cache_creation_input_tokens": 2,
        "cache_read_input_tokens": 5,
        "output_tokens": 1,
    }
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return message_event("message_start", message=message)


def message_delta(stop_reason: str) -> bytes:
    """The event with the end and what was written."""
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    return message_event("message_delta", delta=delta, usage={"output_tokens": 7})


def message_block(index: int, content: dict[str, Any], deltas: list[dict[str, Any]]) -> list[bytes]:
    """The events of one content block."""
    return [
        message_event("content_block_start", index=index, content_block=content),
        *(message_event("content_block_delta", index=index, delta=delta) for delta in deltas),
        message_event("content_block_stop", index=index),
    ]


def message_stream(step: ScriptedStep, signature: str = "") -> list[bytes]:
    """The events of a step, as documented."""
    events = [message_start(), PING]
    index = 0
    if step.thought:
        deltas = [{"type": "thinking_delta", "thinking": part} for part in halves(step.thought)]
        deltas.append({"type": "signature_delta", "signature": signature})
        content: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
        events += message_block(index, content, deltas)
        index += 1
    if step.text:
        deltas = [{"type": "text_delta", "text": part} for part in halves(step.text)]
        events += message_block(index, {"type": "text", "text": ""}, deltas)
        index += 1
    for number, call in enumerate(step.calls):
        content = {"type": "tool_use", "id": f"toolu_{number}", "name": call.name, "input": {}}
        pieces = ("", *halves(call.arguments))
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        events += message_block(index, content, deltas)
        index += 1
    finish = step.finish or ("tool_use" if step.calls else "end_turn")
    return [*events, message_delta(finish), MESSAGE_STOP]


def messages_fault(body: Any) -> str | None:
    """What a request breaks, in the vendor's words; None if nothing."""
    if has_lone_surrogate(body):
        return "invalid Unicode in the request"
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        return "max_tokens: Field required"
    thinking = body.get("thinking") or {}
    if (
        thinking.get("type") == "enabled"
        and not 1024 <= thinking["budget_tokens"] < body["max_tokens"]
    ):
        return "`max_tokens` must be greater than `thinking.budget_tokens`"
    if _cache_marks(body) > _MAX_CACHE_MARKS:
        return "A maximum of 4 blocks with cache_control may be provided."
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "messages: at least one message is required"
    pending: list[str] = []
    for index, message in enumerate(messages):
        role = "assistant" if index % 2 else "user"
        if message["role"] != role:
            return f"messages.{index}: roles must alternate between user and assistant"
        if not isinstance(message["content"], list) or not message["content"]:
            return f"messages.{index}: all messages must have non-empty content"
        fault = _blocks_fault(f"messages.{index}", message["content"], role)
        if fault is not None:
            return fault
        results = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        if sorted(results) != sorted(pending):
            return (
                f"messages.{index}: `tool_use` ids were found without `tool_result` blocks"
                f" immediately after, or the other way round: {pending} and {results}"
            )
        pending = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
    if messages[-1]["role"] != "user":
        return "This model does not support assistant message prefill."
    return None


def _blocks_fault(path: str, blocks: list[dict[str, Any]], role: str) -> str | None:
    allowed = ("text", "tool_result")
    if role == "assistant":
        allowed = ("text", "tool_use", "thinking", "redacted_thinking")
    spoken = False
    for place, block in enumerate(blocks):
        kind = block["type"]
        if kind not in allowed:
            return f"{path}.content.{place}: `{kind}` is not allowed in {role} messages"
        if kind == "text" and not block["text"].strip():
            return f"{path}: text content blocks must contain non-whitespace text"
        if kind == "tool_result" and spoken:
            return f"{path}: tool_result blocks must come first"
        if kind == "tool_use" and not (
            _TOOL_ID.fullmatch(block["id"])
            and _TOOL_NAME.fullmatch(block["name"])
            and isinstance(block["input"], dict)
        ):
            return f"{path}.content.{place}: invalid tool_use"
        if "thinking" in kind and "cache_control" in block:
            return f"{path}.content.{place}: thinking blocks cannot have cache_control"
        spoken = spoken or kind == "text"
    if "thinking" in blocks[-1]["type"]:
        return f"{path}: The final block in an assistant message cannot be `thinking`."
    return None


def _cache_marks(value: Any) -> int:
    if isinstance(value, dict):
        own = int("cache_control" in value)
        return own + sum(_cache_marks(item) for name, item in value.items() if name != "input")
    return sum(_cache_marks(item) for item in value) if isinstance(value, list) else 0


def _refusal(status: int, kind: str, message: str) -> Reply:
    error = {"type": kind, "message": message}
    return json_reply(status, {"type": "error", "error": error, "request_id": "req_1"})
