"""
What the user is shown of an edit: whole texts, or of large files the changed region.

Spec section 6 sets the first bound. Past the second an edit is told but not shown: no editor
shows it either, and it would have to be stored and sent whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from term2_acp.agent.ports import DiffContent, FileChange, TextContent, ToolContent
from term2_acp.files.scope import FileEdit
from term2_acp.files.text import TextFile
from term2_acp.surrogates import replace_lone_surrogates
from term2_acp.tools.replacing import common_length, common_tail

WHOLE_TEXTS = 1 << 20
"""Up to so many characters, old and new together, a change is shown with the whole texts."""
LARGEST_SHOWN = 4 << 20
"""Up to so many characters the changed region is shown."""
_CONTEXT = 3


def file_change(
    edit: FileEdit,
    old: TextFile | None,
    new: str | None,
    redact_file: Callable[[str, str], str],
) -> FileChange:
    """
    Describe a change of a file.

    Args:
        edit: the file as it was.
        old: its text, None if there was no file.
        new: the text that it is to have, None if it is to go.
        redact_file: see `ToolContext.redact_file`.
    """
    before = None if old is None else redact_file(edit.path, old.text)
    new = None if new is None else redact_file(edit.path, new)
    change = FileChange(
        edit.path,
        before,
        new,
        has_bom=old is not None and old.format.is_utf8_with_bom,
        is_executable=edit.is_executable,
    )
    size = len(before or "") + len(new or "")
    if size > WHOLE_TEXTS and before is not None and new is not None:
        change = _region(change, before, new)
    shown = len(change.old or "") + len(change.new or "")
    if shown > LARGEST_SHOWN:
        return attrs.evolve(
            change,
            old=None if before is None else "",
            new=None if new is None else "",
            left_out=shown,
        )
    return attrs.evolve(change, old=_sendable(change.old), new=_sendable(change.new))


def diff_content(changes: Iterable[FileChange]) -> tuple[ToolContent, ...]:
    """Return the diff of an edit, and a text that says what of it is not shown."""
    changes = tuple(changes)
    notes = [
        f"The change of {change.path} is too large to be shown ({change.left_out} characters)."
        for change in changes
        if change.left_out
    ]
    diff = DiffContent(changes)
    return (diff, TextContent("\n".join(notes))) if notes else (diff,)


def _region(change: FileChange, old: str, new: str) -> FileChange:
    """Keep whole lines, with three before the first difference and three after the last."""
    head = common_length(old, new)
    tail = common_tail(old[head:], new[head:])
    start, end = head, len(old) - tail
    for _ in range(_CONTEXT + 1):
        start = max(old.rfind("\n", 0, start), 0)
        end = old.find("\n", end) + 1 or len(old)
    start += old.startswith("\n", start)
    return attrs.evolve(
        change,
        old=old[start:end],
        new=new[start : len(new) - (len(old) - end)],
        first_line=old.count("\n", 0, start) + 1,
    )


def _sendable(text: str | None) -> str | None:
    return None if text is None else replace_lone_surrogates(text)
