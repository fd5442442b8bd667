"""A scripted Chat Completions service, as strict as the strictest of its kind."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.models.http import HttpServer, Part, Reply, Request, json_reply, server_sent_event
from tests.models.steps import ScriptedStep, halves, has_lone_surrogate

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class ChatServer(HttpServer):
    """
    Speaks Chat Completions under `/v1`.

    Args:
        wants_reasoning: refuse steps with calls without their `reasoning_content`.
        models: the answer of `/v1/models`; None answers 404.
    """

    def __init__(self, *, wants_reasoning: bool = False, models: Any = None) -> None:
        self.wants_reasoning = wants_reasoning
        self.models = models
        self._thoughts: set[str] = {""}
        super().__init__()

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def step(self, step: ScriptedStep) -> None:
        """Script a whole, well-formed step."""
        self._thoughts.add(step.thought)
        self.reply(Reply((b"".join(chat_stream(step)),)))

    def stream(self, *parts: Part) -> None:
        """Script an event stream by its bytes."""
        self.reply(Reply(parts))

    def judge(self, request: Request) -> Reply | None:
        if request.path == "/v1/models":
            return json_reply(404, {}) if self.models is None else json_reply(200, self.models)
        if request.path != "/v1/chat/completions":
            return json_reply(404, {"error": {"message": f"Invalid URL {request.path}"}})
        fault = chat_fault(request.body)
        if fault is None and self.wants_reasoning:
            fault = self._reasoning_fault(request.body["messages"])
        if fault is None:
            return None
        self.faults.append(fault)
        error = {"message": fault, "type": "invalid_request_error", "param": None, "code": None}
        return json_reply(400, {"error": error})

    def _reasoning_fault(self, messages: list[dict[str, Any]]) -> str | None:
        for message in messages:
            if message.get("tool_calls") and message.get("reasoning_content") not in self._thoughts:
                return "The reasoning_content in the thinking mode must be passed back to the API."
        return None


def chat_chunk(delta: dict[str, Any], finish: str | None = None, **extra: Any) -> bytes:
    """One chunk with one choice."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return server_sent_event({**_head(), "choices": [choice], **extra})


def chat_usage(prompt: int = 11, completion: int = 7, cached: int = 5) -> bytes:
    """The chunk with the usage, which has no choice."""
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return server_sent_event({**_head(), "choices": [], "usage": usage})


CHAT_DONE = b"data: [DONE]\n\n"


def chat_stream(step: ScriptedStep) -> list[bytes]:
    """The events of a step, as documented."""
    events = [chat_chunk({"role": "assistant", "content": ""})]
    events += [chat_chunk({"reasoning_content": part}) for part in halves(step.thought)]
    events += [chat_chunk({"content": part}) for part in halves(step.text)]
    for index, call in enumerate(step.calls):
        function = {"name": call.name, "arguments": ""}
        head = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        events.append(chat_chunk({"tool_calls": [head]}))
        for part in halves(call.arguments):
            piece = {"index": index, "function": {"arguments": part}}
            events.append(chat_chunk({"tool_calls": [piece]}))
    finish = step.finish or ("tool_calls" if step.calls else "stop")
    return [*events, chat_chunk({}, finish), chat_usage(), CHAT_DONE]


def chat_fault(body: Any) -> str | None:
    """What a request breaks, in the words of a service; None if nothing."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "'messages' must not be empty"
    if has_lone_surrogate(body):
        return "invalid Unicode in the request"
    if body.get("stream") is not True:
        return "'stream' must be true here"
    pending: list[str] = []
    before = ""
    for message in messages:
        role = message.get("role")
        if pending and role != "tool":
            return (
                "An assistant message with 'tool_calls' must be followed by tool messages"
                f" responding to each 'tool_call_id'. These did not have any: {pending}"
            )
        fault = _content_fault(message)
        if fault is not None:
            return fault
        if role == "tool":
            if message.get("tool_call_id") not in pending:
                return "messages with role 'tool' must be a response to a preceding 'tool_calls'"
            pending.remove(message["tool_call_id"])
        elif role == before or (role == "system" and before):
            return "Conversation roles must alternate user/assistant/user/assistant/..."
        elif role == "assistant":
            pending = [call["id"] for call in message.get("tool_calls", ())]
            if len(set(pending)) != len(pending):
                return "duplicate tool_call_id"
        before = role
    return f"no response messages for {pending}" if pending else None


def _content_fault(message: dict[str, Any]) -> str | None:
    content = message.get("content")
    calls = message.get("tool_calls")
    if message.get("role") == "assistant" and content is None and calls:
        content = "calls instead"
    if not isinstance(content, str) or not content.strip():
        return f"content of a {message.get('role')} message must not be blank"
    for call in calls or ():
        if not NAME.fullmatch(call["function"]["name"]):
            return f"invalid function name {call['function']['name']!r}"
        try:
            json.loads(call["function"]["arguments"])
        except ValueError:
            return "function arguments must be JSON"
    return None


def _head() -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "scripted",
        "system_fingerprint": None,
    }
