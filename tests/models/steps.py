"""What a scripted model does in one step, in no vendor's words."""

from __future__ import annotations

import json
from typing import Any

import attrs


@attrs.frozen
class Call:
    """One tool call; `arguments` is the JSON text."""

    name: str
    arguments: str

    @classmethod
    def of(cls, name: str, **arguments: Any) -> Call:
        """A call with arguments as values."""
        return cls(name, json.dumps(arguments, ensure_ascii=False))


@attrs.frozen
class ScriptedStep:
    """One answer: its reasoning, text and calls, and the vendor's word for its end."""

    text: str = ""
    thought: str = ""
    calls: tuple[Call, ...] = ()
    finish: str | None = None


def halves(text: str) -> tuple[str, ...]:
    """A text in two deltas, or none if it is empty."""
    middle = (len(text) + 1) // 2
    return tuple(part for part in (text[:middle], text[middle:]) if part)


def has_lone_surrogate(value: Any) -> bool:
    """Whether any string of a JSON value is no Unicode text."""
    if isinstance(value, str):
        return any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, dict):
        return any(has_lone_surrogate(item) for pair in value.items() for item in pair)
    return isinstance(value, list) and any(has_lone_surrogate(item) for item in value)
