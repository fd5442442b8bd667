"""What a call shows the user, without credentials (spec section 7)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from term2_acp.agent.ports import (
    DiffContent,
    FileChange,
    Location,
    TerminalContent,
    TextContent,
    ToolContent,
)
from term2_acp.redaction import Redactor


def without_credentials(
    content: Sequence[ToolContent], redactor: Redactor, root: str
) -> tuple[ToolContent, ...]:
    """
    Return the content with every credential replaced; what a terminal shows has none.

    Args:
        content: of a call.
        redactor: finds them.
        root: the session's folder, whose own path stays as it is.
    """
    return tuple(_redacted(item, redactor, root) for item in content)


def openable(places: Sequence[Location], redactor: Redactor, root: str) -> tuple[Location, ...]:
    """Return the places that can be told: a path without its credential leads nowhere."""
    return tuple(place for place in places if redactor.path(place.path, root) == place.path)


def _redacted(item: ToolContent, redactor: Redactor, root: str) -> ToolContent:
    match item:
        case TextContent():
            return TextContent(redactor.text(item.text))
        case DiffContent(changes):
            return DiffContent(
                tuple(_redacted_change(change, redactor, root) for change in changes)
            )
        case TerminalContent():
            return item


def _redacted_change(change: FileChange, redactor: Redactor, root: str) -> FileChange:
    return attrs.evolve(
        change,
        path=redactor.path(change.path, root),
        old=None if change.old is None else redactor.text(change.old),
        new=None if change.new is None else redactor.text(change.new),
    )
