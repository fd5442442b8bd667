"""A conversation as the input items of a Responses request."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from term2_acp.agent.model import ModelRequest, ToolSpec, UserTurn
from term2_acp.providers.history import (
    Step,
    call_arguments,
    call_name,
    result_text,
    rounds,
    split_text,
)
from term2_acp.providers.refusals import Refusal
from term2_acp.providers.variants import Variant

ITEMS = "items"
"""The member of a state with the output items of a step, in their order."""

_REFUSES_REASONING = re.compile(
    r"(?i)encrypted.?content.*(?:verif|invalid|decrypt|pars)|invalid_encrypted_content"
    r"|of type .?reasoning.? was provided without|items are not persisted"
)
_REFUSES_INCLUDE = re.compile(r"(?i)encrypted content is not supported")
_REFUSES_SUMMARY = re.compile(r"(?i)reasoning.?summar|verified to (?:generate|stream)")


@attrs.frozen
class ResponseVariant(Variant):
    """
    What a model has.

    Args:
        encrypted: it can return its reasoning for the next request.
        summary: it can summarize its reasoning for the user.
    """

    encrypted: bool = True
    summary: bool = True

    def changes(self, refusal: Refusal) -> dict[str, bool]:
        """See `Variant.changes`."""
        said = f"{refusal.kind} {refusal.message}"
        if _REFUSES_INCLUDE.search(said):
            return {"encrypted": False}
        if _REFUSES_REASONING.search(said):
            return {"fresh": True}
        return {"summary": False} if _REFUSES_SUMMARY.search(said) else {}


def response_input(request: ModelRequest, provider: str, *, fresh: bool) -> list[dict[str, Any]]:
    """Write the conversation; the system prompt goes into the instructions."""
    items: list[dict[str, Any]] = []
    for round_ in rounds(request.messages, provider, fresh=fresh):
        if round_.text:
            items.append({"role": "user", "content": round_.text})
        for step in round_.steps:
            items.extend(_step_items(step))
            items.extend(
                {
                    "type": "function_call_output",
                    "call_id": result.call_id,
                    "output": result_text(result),
                }
                for result in step.results
            )
    return items


def response_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Describe the tools; not strict, because their parameters may be optional."""
    return [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": False,
        }
        for tool in tools
    ]


def cache_key(request: ModelRequest) -> str:
    """What the requests of one conversation share, so that they meet in one cache."""
    first = next((turn.text for turn in request.messages if isinstance(turn, UserTurn)), "")
    text = f"{request.model}\0{request.system}\0{first}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _step_items(step: Step) -> list[dict[str, Any]]:
    """The items of a step in their own order, as far as its text and calls still have them."""
    calls = [
        {
            "type": "function_call",
            "call_id": call.call_id,
            "name": call_name(call.name),
            "arguments": call_arguments(call.arguments),
        }
        for call in step.turn.tool_calls
    ]
    order = _order(step)
    texts = split_text(step.turn.text, [item for item in order if item.get("type") == "message"])
    items: list[dict[str, Any]] = []
    for item in order:
        match item.get("type"):
            case "reasoning":
                items.append(dict(item))
            case "message":
                items.extend(_message(texts.pop(0), item.get("phase")))
            case "function_call" if calls:
                items.append(calls.pop(0))
    items.extend(calls)
    # Reasoning is refused without what it led to.
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


def _order(step: Step) -> list[Mapping[str, Any]]:
    items = step.state.get(ITEMS) if step.state else None
    order: list[Mapping[str, Any]] = []
    if isinstance(items, list):
        order = [item for item in items if isinstance(item, dict)]
    if any(item.get("type") == "message" for item in order):
        return order
    return [*order, {"type": "message", "length": len(step.turn.text)}]


def _message(text: str, phase: object) -> list[dict[str, Any]]:
    if not text.strip():
        return []
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if isinstance(phase, str):
        message["phase"] = phase
    return [message]
