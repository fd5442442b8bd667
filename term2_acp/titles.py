"""A session's title, from its first user message (spec section 5)."""

from __future__ import annotations

from collections.abc import Sequence

from term2_acp.eventlog import PromptBlock, TextBlock

MAX_TITLE = 256
"""Characters."""


def title_of(prompt: Sequence[PromptBlock]) -> str:
    """One line of at most `MAX_TITLE` characters: the text, or what was attached."""
    for block in prompt:
        if isinstance(block, TextBlock):
            text = block.text
        else:
            text = getattr(block, "name", "") or block.uri
        for line in text.split("\n"):
            words = " ".join(line.split())
            if words:
                return words if len(words) <= MAX_TITLE else words[: MAX_TITLE - 1] + "…"
    return "Untitled"
