"""
A conversation in the shape that every vendor's format can be written from.

The rules that all formats share are kept here: nothing blank is sent, user turns do
not follow each other, and a provider gets back its own data and nobody else's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from term2_acp.agent.model import AssistantTurn, ModelMessage, ToolResult, UserTurn
from term2_acp.surrogates import replace_in_value

FRESH = "fresh"
"""The member of a state that says: reasoning from before this step is not to be sent."""

NO_OUTPUT = "(no output)"
"""What stands for a blank tool result; several formats refuse blank text."""

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME = 64


@attrs.frozen
class Step:
    """One model step with the results of its calls; `state` is usable or None."""

    turn: AssistantTurn
    results: tuple[ToolResult, ...]
    state: Mapping[str, Any] | None


@attrs.frozen
class Round:
    """What the user said, and the steps that answered it."""

    text: str
    steps: tuple[Step, ...]

    @property
    def has_calls(self) -> bool:
        """Whether any step called a tool."""
        return any(step.turn.tool_calls for step in self.steps)


def rounds(messages: Sequence[ModelMessage], provider: str, *, fresh: bool = False) -> list[Round]:
    """
    Group a conversation by what the user said.

    Depends for each message only on what was written before the next request, so
    that the same conversation is always sent with the same beginning.

    Args:
        provider: whose states are given back.
        fresh: send no reasoning from before now.
    """
    grouped: list[tuple[list[str], list[Step]]] = []
    for message in messages:
        match message:
            case UserTurn():
                if not grouped or grouped[-1][1]:
                    grouped.append(([], []))
                grouped[-1][0].extend(
                    text for text in (message.text, message.attached) if text.strip()
                )
            case AssistantTurn():
                if not message.text.strip() and not message.tool_calls:
                    continue
                if not grouped:
                    grouped.append(([], []))
                grouped[-1][1].append(Step(message, (), _own_state(message, provider)))
            case ToolResult():
                if grouped and grouped[-1][1]:
                    last = grouped[-1][1][-1]
                    grouped[-1][1][-1] = attrs.evolve(last, results=(*last.results, message))
    grouped_rounds = [Round("\n\n".join(texts), tuple(steps)) for texts, steps in grouped]
    return _without_stale_reasoning(grouped_rounds, fresh=fresh)


def _own_state(turn: AssistantTurn, provider: str) -> Mapping[str, Any] | None:
    return turn.state if turn.provider == provider and isinstance(turn.state, dict) else None


def _without_stale_reasoning(grouped: list[Round], *, fresh: bool) -> list[Round]:
    """Forget the states before the last step that was made without them."""
    kept: list[Round] = []
    for round_ in reversed(grouped):
        steps: list[Step] = []
        for step in reversed(round_.steps):
            steps.append(attrs.evolve(step, state=None) if fresh else step)
            fresh = fresh or bool(step.state and step.state.get(FRESH))
        kept.append(attrs.evolve(round_, steps=tuple(reversed(steps))))
    return kept[::-1]


def call_name(name: str) -> str:
    """A tool's name as every format accepts it, also one that a model made up."""
    return _NOT_IN_NAMES.sub("_", name)[:_MAX_NAME] or "unknown"


def call_input(arguments: str) -> dict[str, Any]:
    """
    The arguments of a past call as a JSON object without lone surrogates.

    What is no JSON object is put into one, so that a malformed call cannot make
    every later request fail; its result tells the model what was wrong.
    """
    if not arguments.strip():
        return {}
    try:
        value = replace_in_value(json.loads(arguments, parse_constant=_refuse_constant))
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"malformed_arguments": arguments}


def call_arguments(arguments: str) -> str:
    """The same as JSON text; what was fine is sent as the model wrote it."""
    value = call_input(arguments)
    try:
        if json.loads(arguments, parse_constant=_refuse_constant) == value:
            return arguments
    except (ValueError, RecursionError):
        pass
    return json.dumps(value, ensure_ascii=False)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def result_text(result: ToolResult) -> str:
    """The text of a result, never blank."""
    return result.text if result.text.strip() else NO_OUTPUT


def split_text(text: str, pieces: Sequence[Mapping[str, Any]]) -> list[str]:
    """
    Cut a step's text into the pieces that it was made of, by their `length`.

    The log keeps one text; where its length is no longer the sum of the pieces (a
    credential was replaced), all of it is the first piece.
    """
    lengths = [piece.get("length") for piece in pieces]
    whole = [length for length in lengths if isinstance(length, int) and length >= 0]
    if not pieces:
        return []
    if len(whole) != len(pieces) or sum(whole) != len(text):
        return [text, *("" for _ in pieces[1:])]
    cut: list[str] = []
    start = 0
    for length in whole:
        cut.append(text[start : start + length])
        start += length
    return cut
