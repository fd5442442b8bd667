"""Lone surrogates: accepted from anywhere, stored and sent nowhere (spec section 4)."""

from __future__ import annotations

from typing import Any


def replace_lone_surrogates(text: str) -> str:
    """Join surrogate pairs and turn each lone surrogate into U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def replace_in_value(value: Any) -> Any:
    """Do the same in every string of a JSON value, member names included."""
    if isinstance(value, str):
        return replace_lone_surrogates(value)
    if isinstance(value, list):
        return [replace_in_value(item) for item in value]
    if isinstance(value, dict):
        return {replace_lone_surrogates(key): replace_in_value(item) for key, item in value.items()}
    return value


class SurrogateJoiner:
    """
    Streams text whose surrogate pairs may be split over two pieces.

    A high surrogate at the end of a piece is held back until the next piece shows
    whether its other half follows.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Return what is complete so far, free of lone surrogates."""
        text = self._held + text
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._held = text[-1]
            text = text[:-1]
        return replace_lone_surrogates(text)

    def finish(self) -> str:
        """Return what was held back, as U+FFFD."""
        held, self._held = self._held, ""
        return replace_lone_surrogates(held)
