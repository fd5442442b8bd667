"""What the edit tools have in common: what they refuse, and how they report."""

from __future__ import annotations

from term2_acp.agent.ports import Location, ToolContext, ToolError, ToolOutcome
from term2_acp.files.ledger import Knowledge
from term2_acp.files.scope import FileEdit
from term2_acp.files.text import TextFile
from term2_acp.redaction import MARKER
from term2_acp.tools.changes import diff_content, file_change
from term2_acp.tools.replacing import first_difference


def refuse_redacted(old: str, new: str, where: str) -> None:
    """
    Keep a model from writing back the marker that it saw in place of a credential.

    Args:
        old: what is replaced; empty if there is nothing.
        new: what would be written.
        where: the parameter that holds it.

    Raises:
        ToolError: the new text has the marker more often than the old one.
    """
    if new.count(MARKER) > old.count(MARKER):
        raise ToolError(
            f"{where} contains {MARKER}, which stands for a credential that you were not "
            "shown; writing it would destroy the real value. Leave that part of the file alone. "
            "Nothing was changed."
        )


def marker_note() -> str:
    """Say why a text with the marker is not found in a file."""
    return (
        f"{MARKER} stands for a credential that you were not shown, and is not what the file "
        "has. Leave that part out of what you look for."
    )


def refuse_stale(edit: FileEdit, shown: str) -> None:
    """
    Keep a session from editing what it has not seen in its present state.

    Raises:
        ToolError: the file changed since the session last read or wrote it.
    """
    if edit.knowledge is Knowledge.STALE:
        raise ToolError(
            f"{shown} was changed by somebody else since you last read it; nothing was changed. "
            "Read it again, then edit."
        )


def other_names_note(edit: FileEdit) -> str:
    """Say that other names of the file keep the old content, if there are any."""
    if not edit.leaves_other_names:
        return ""
    return (
        f" {edit.shown} had other names (hard links) that this call may not edit: they keep the "
        "old content, and the file is now one of its own."
    )


def edit_outcome(
    edit: FileEdit, old: TextFile | None, new: str, text: str, context: ToolContext
) -> ToolOutcome:
    """Report an edit: `text` to the model, the change to the user."""
    change = file_change(edit, old, new, context.redact_file)
    line = 1 if old is None else first_difference(old.text, new)
    text += other_names_note(edit)
    return ToolOutcome(text, content=diff_content([change]), locations=(Location(edit.path, line),))
