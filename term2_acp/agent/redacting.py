"""What a call shows the user, without credentials (spec section 7)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from term2_acp.agent.ports import DiffContent, FileChange, TerminalContent, TextContent, ToolContent
from term2_acp.redaction import Redactor


def without_credentials(
    content: Sequence[ToolContent], redactor: Redactor
) -> tuple[ToolContent, ...]:
    """Return the content with every credential replaced; what a terminal shows has none."""
    return tuple(_redacted(item, redactor) for item in content)


def _redacted(item: ToolContent, redactor: Redactor) -> ToolContent:
    match item:
        case TextContent():
            return TextContent(redactor.text(item.text))
        case DiffContent(changes):
            return DiffContent(tuple(_redacted_change(change, redactor) for change in changes))
        case TerminalContent():
            return item


def _redacted_change(change: FileChange, redactor: Redactor) -> FileChange:
    return attrs.evolve(
        change,
        old=None if change.old is None else redactor.text(change.old),
        new=None if change.new is None else redactor.text(change.new),
    )
