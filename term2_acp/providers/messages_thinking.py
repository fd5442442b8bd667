"""How `--effort` is said to each generation of Anthropic's models, and to its kin."""

from __future__ import annotations

import re
from typing import Literal, cast

import attrs
from anthropic.types import OutputConfigParam, ThinkingConfigParam

_Level = Literal["low", "medium", "high", "xhigh", "max"]

# claude-opus-4-8, claude-sonnet-5, claude-haiku-4-5-20251001; not claude-3-7-sonnet-20250219.
_VERSIONED = re.compile(r"claude-([a-z]+)-(\d)(?:-(\d)(?!\d))?")
_BUDGETS = {"minimal": 1024, "low": 4096, "medium": 10_000, "high": 20_000, "xhigh": 32_000}
_SMALLEST_BUDGET = 1024
# What is left for the answer itself.
_ANSWER_TOKENS = 1024


@attrs.frozen
class Thinking:
    """The members of a request that say how much to think; None is left out."""

    thinking: ThinkingConfigParam | None = None
    output_config: OutputConfigParam | None = None


@attrs.frozen
class _Generation:
    family: str
    version: tuple[int, int]


def thinking_for(model: str, effort: str | None, max_tokens: int) -> Thinking:
    """
    Choose what a model understands.

    Models from 4.6 on decide themselves how much to think (`adaptive`) and take an
    effort; from 5.0 on they do so unless told otherwise, and show it only if asked.
    Earlier ones, and other vendors' models behind the same format, take a budget.
    """
    generation = _generation(model)
    if generation is None or generation.version < (4, 6):
        return _budget(effort, max_tokens)
    adaptive: ThinkingConfigParam = {"type": "adaptive", "display": "summarized"}
    if effort is None:
        return Thinking(adaptive if generation.version >= (5, 0) else None)
    if effort == "none":
        return _off(generation)
    return Thinking(adaptive, {"effort": _level(effort, generation)})


def wants_thinking_first(thinking: Thinking) -> bool:
    """Whether a turn under way must have begun with thinking (only with a budget)."""
    return thinking.thinking is not None and thinking.thinking["type"] == "enabled"


def _generation(model: str) -> _Generation | None:
    match = _VERSIONED.search(model)
    if match is not None:
        return _Generation(match[1], (int(match[2]), int(match[3] or 0)))
    # The preview has no number.
    return _Generation("mythos", (4, 6)) if "claude-mythos" in model else None


def _off(generation: _Generation) -> Thinking:
    latest = generation.version >= (5, 5)
    if generation.family == "sonnet" and latest:
        return Thinking({"type": "between_tools"})
    if generation.family in ("fable", "mythos") or (generation.family == "opus" and latest):
        # These always think; the least is what comes nearest.
        return Thinking(None, {"effort": "low"})
    return Thinking({"type": "disabled"})


def _level(effort: str, generation: _Generation) -> _Level:
    if effort == "minimal":
        return "low"
    if effort == "xhigh" and generation.version < (4, 7):
        # These know `max`, and nothing between it and `high`.
        return "max"
    return cast("_Level", effort)


def _budget(effort: str | None, max_tokens: int) -> Thinking:
    if effort is None:
        return Thinking()
    if effort == "none":
        return Thinking({"type": "disabled"})
    budget = min(_BUDGETS[effort], max_tokens - _ANSWER_TOKENS)
    if budget < _SMALLEST_BUDGET:
        return Thinking()
    return Thinking({"type": "enabled", "budget_tokens": budget})
