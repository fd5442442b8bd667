"""A conversation as the messages of a Messages request, with marks for its cache."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from term2_acp.agent.model import ModelRequest, ToolSpec
from term2_acp.providers.history import (
    Round,
    Step,
    call_input,
    call_name,
    result_text,
    rounds,
    split_text,
)
from term2_acp.providers.refusals import Refusal
from term2_acp.providers.variants import Variant

BLOCKS = "blocks"
"""The member of a state with the content blocks of a step, in their order."""

_THINKING_TYPES = ("thinking", "redacted_thinking")
_CACHE_MARK = {"type": "ephemeral"}
# Beside the system prompt and the tools; the format allows four in all.
_MARKED_MESSAGES = 2
_NOTHING_SAID = "(The conversation goes on.)"

_REFUSES_REASONING = re.compile(
    r"(?i)signature.*thinking|thinking.*signature|thinking.*cannot be modified"
)
_WANTS_THINKING = re.compile(r"(?i)expected .?(?:redacted_)?thinking")


@attrs.frozen
class MessagesVariant(Variant):
    """`unbudgeted`: the turn under way did not begin with thinking, so none may be asked for."""

    unbudgeted: bool = False

    def lasting(self) -> MessagesVariant:
        """Nothing: all of it is about one conversation."""
        return MessagesVariant()

    def changes(self, refusal: Refusal) -> dict[str, bool]:
        """See `Variant.changes`."""
        if _WANTS_THINKING.search(refusal.message):
            return {"unbudgeted": True}
        return {"fresh": True} if _REFUSES_REASONING.search(refusal.message) else {}


def message_rounds(request: ModelRequest, provider: str, *, fresh: bool) -> list[Round]:
    """The conversation as `write_messages` takes it."""
    return rounds(request.messages, provider, fresh=fresh)


def write_messages(conversation: Sequence[Round]) -> list[dict[str, Any]]:
    """
    Write the conversation: roles alternate, results come before what the user says.

    The same beginning is always written the same way, apart from the cache marks:
    the vendor binds a thinking block to everything before it.
    """
    messages: list[dict[str, Any]] = []
    for round_ in conversation:
        if round_.text:
            _extend(messages, "user", [{"type": "text", "text": round_.text}])
        for step in round_.steps:
            if not messages:
                _extend(messages, "user", [{"type": "text", "text": _NOTHING_SAID}])
            _extend(messages, "assistant", step_blocks(step))
            _extend(messages, "user", _results(step))
    users = [message for message in messages if message["role"] == "user"]
    for message in users[-_MARKED_MESSAGES:]:
        message["content"][-1]["cache_control"] = _CACHE_MARK
    return messages


def write_system(system: str) -> list[dict[str, Any]]:
    """The system prompt, with the mark that caches it and the tools."""
    if not system.strip():
        return []
    return [{"type": "text", "text": system, "cache_control": _CACHE_MARK}]


def write_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Describe the tools; the last one has a mark for the cache."""
    described: list[dict[str, Any]] = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        for tool in tools
    ]
    if described:
        described[-1]["cache_control"] = _CACHE_MARK
    return described


def begins_without_thinking(conversation: Sequence[Round]) -> bool:
    """Whether the turn under way called a tool before any thinking."""
    steps = conversation[-1].steps if conversation else ()
    if not steps or not steps[0].turn.tool_calls:
        return False
    return step_blocks(steps[0])[0]["type"] not in _THINKING_TYPES


def step_blocks(step: Step) -> list[dict[str, Any]]:
    """The blocks of a step in their own order, as far as its text and calls still have them."""
    calls = [
        {
            "type": "tool_use",
            "id": call.call_id,
            "name": call_name(call.name),
            "input": call_input(call.arguments),
        }
        for call in step.turn.tool_calls
    ]
    order = _order(step)
    texts = split_text(step.turn.text, [block for block in order if block.get("type") == "text"])
    blocks: list[dict[str, Any]] = []
    for block in order:
        kind = block.get("type")
        if kind in _THINKING_TYPES:
            blocks.append(dict(block))
        elif kind == "text":
            text = texts.pop(0)
            if text.strip():
                blocks.append({"type": "text", "text": text})
        elif kind == "tool_use" and calls:
            blocks.append(calls.pop(0))
    blocks.extend(calls)
    # A message may not end with thinking.
    while blocks and blocks[-1]["type"] in _THINKING_TYPES:
        blocks.pop()
    return blocks


def _order(step: Step) -> list[Mapping[str, Any]]:
    blocks = step.state.get(BLOCKS) if step.state else None
    order: list[Mapping[str, Any]] = []
    if isinstance(blocks, list):
        order = [block for block in blocks if isinstance(block, dict)]
    if any(block.get("type") == "text" for block in order):
        return order
    thinking = [block for block in order if block.get("type") in _THINKING_TYPES]
    # Text that the blocks do not know of stands before the calls.
    rest = order[len(thinking) :] if order[: len(thinking)] == thinking else []
    return [*thinking, {"type": "text", "length": len(step.turn.text)}, *rest]


def _results(step: Step) -> list[dict[str, Any]]:
    return [
        {
            "type": "tool_result",
            "tool_use_id": result.call_id,
            "content": result_text(result),
            "is_error": result.failed,
        }
        for result in step.results
    ]


def _extend(messages: list[dict[str, Any]], role: str, blocks: list[dict[str, Any]]) -> None:
    if not blocks:
        return
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"].extend(blocks)
    else:
        messages.append({"role": role, "content": list(blocks)})
