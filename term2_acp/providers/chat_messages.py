"""A conversation as the messages of a Chat Completions request."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from term2_acp.agent.model import ModelRequest, ToolSpec
from term2_acp.providers.history import (
    Round,
    Step,
    call_arguments,
    call_name,
    result_text,
    rounds,
)
from term2_acp.providers.refusals import Refusal
from term2_acp.providers.variants import Variant

REASONING_FIELDS = ("reasoning_details", "reasoning_content", "reasoning")
"""Where servers put reasoning and want it back; the first that was used is sent."""

_WANTS_REASONING = re.compile(r"(?i)reasoning_content.*(?:pass|must|missing|required)")
_REFUSES_REASONING = re.compile(r"(?i)signature.*(?:thinking|reasoning)|encrypted.?content")
_WANTS_BRIDGE = re.compile(r"(?i)after role .?tool")
_TURN_ENDED = "(The turn ended here.)"


@attrs.frozen
class ChatVariant(Variant):
    """
    How a server of this format differs.

    Args:
        usage_option: it takes `stream_options`.
        empty_reasoning: every step with calls must have `reasoning_content`.
        bridged: a user message may not follow tool results directly.
    """

    usage_option: bool = True
    empty_reasoning: bool = False
    bridged: bool = False

    def changes(self, refusal: Refusal) -> dict[str, bool]:
        """See `Variant.changes`."""
        if "stream_options" in refusal.message:
            return {"usage_option": False}
        if _WANTS_REASONING.search(refusal.message):
            return {"empty_reasoning": True}
        if _REFUSES_REASONING.search(refusal.message):
            return {"fresh": True}
        return {"bridged": True} if _WANTS_BRIDGE.search(refusal.message) else {}


def chat_messages(
    request: ModelRequest, provider: str, variant: ChatVariant
) -> list[dict[str, Any]]:
    """
    Write the system prompt and the conversation.

    Reasoning goes back in the field that it came in, within rounds that call tools
    (DeepSeek requires it there, and ignores it elsewhere).
    """
    messages: list[dict[str, Any]] = []
    if request.system.strip():
        messages.append({"role": "system", "content": request.system})
    for round_ in rounds(request.messages, provider, fresh=variant.fresh):
        if variant.bridged and messages and messages[-1]["role"] == "tool":
            messages.append({"role": "assistant", "content": _TURN_ENDED})
        if round_.text:
            messages.append({"role": "user", "content": round_.text})
        for step in round_.steps:
            _append_step(messages, step, _reasoning(step, round_, variant))
    return messages


def chat_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Describe the tools."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in tools
    ]


def _append_step(messages: list[dict[str, Any]], step: Step, reasoning: Mapping[str, Any]) -> None:
    message: dict[str, Any] = {"role": "assistant", "content": None, **reasoning}
    if step.turn.text.strip():
        message["content"] = step.turn.text
    if step.turn.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {
                    "name": call_name(call.name),
                    "arguments": call_arguments(call.arguments),
                },
            }
            for call in step.turn.tool_calls
        ]
    before = messages[-1] if messages else {}
    if before.get("role") == "assistant" and "tool_calls" not in before:
        # Roles alternate: a step that went on without a call is one message with the next.
        messages.pop()
        message = _joined(before, message)
    messages.append(message)
    messages.extend(
        {"role": "tool", "tool_call_id": result.call_id, "content": result_text(result)}
        for result in step.results
    )


def _joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    texts = [message["content"] for message in (first, second) if message["content"]]
    joined = {**first, **second, "content": "\n\n".join(texts)}
    for field in REASONING_FIELDS:
        if field in first and type(first[field]) is type(second.get(field)):
            joined[field] = first[field] + second[field]
    return joined


def _reasoning(step: Step, round_: Round, variant: ChatVariant) -> dict[str, Any]:
    if not round_.has_calls:
        return {}
    state = step.state or {}
    for field in REASONING_FIELDS:
        if isinstance(state.get(field), str | list) and state[field]:
            return {field: state[field]}
    if variant.empty_reasoning or "reasoning_content" in state:
        return {"reasoning_content": step.turn.thought}
    return {}
