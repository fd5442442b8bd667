"""
The body of a unified diff, read into hunks (spec section 7).

A hunk is lines that begin with a space, `+` or `-`. `@@` begins a new one, with or without
numbers, and may be missing before the first. Tolerated, since models write them: a `---`
and `+++` header before a `@@`, empty lines for empty context lines, CRLF line breaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

import attrs

from term2_acp.tools.bounds import clipped

_RANGES = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_GIT_HEADER = re.compile(r"(?:diff --git|index|new file mode|deleted file mode|(?:old|new) mode) ")
_SHOWN = 60


class DiffError(ValueError):
    """A diff cannot be read or does not fit; the text says what would be right."""


class Mark(StrEnum):
    """What the first character of a line of a diff says."""

    KEPT = " "
    REMOVED = "-"
    ADDED = "+"


@attrs.frozen
class HunkLine:
    """One line of a hunk, without its mark and its line break."""

    mark: Mark
    text: str


@attrs.frozen
class Hunk:
    r"""
    One place of a diff.

    Args:
        number: 1 for the first hunk of the diff.
        lines: what is kept, removed and added.
        start: the 1-based line that the header names, if the counts next to it are right:
            what miscounts its own lines knows nothing of those of the file.
        at_end: the last line is that of the file.
        final_newline: what `\ No newline at end of file` says of the new text.
    """

    number: int
    lines: tuple[HunkLine, ...]
    start: int | None = None
    at_end: bool = False
    final_newline: bool | None = None

    @property
    def old(self) -> list[str]:
        """The lines that must be in the file."""
        return [line.text for line in self.lines if line.mark is not Mark.ADDED]

    @property
    def added(self) -> list[str]:
        """The lines that come into the file."""
        return [line.text for line in self.lines if line.mark is Mark.ADDED]


@attrs.define
class _Draft:
    """A hunk that is being read; `bare` counts the empty lines at its end."""

    header: str
    lines: list[HunkLine] = attrs.field(factory=list)
    bare: int = 0
    unended: dict[Mark, int] = attrs.field(factory=dict)


def parse_diff(diff: str) -> tuple[Hunk, ...]:
    """
    Read a diff.

    Raises:
        DiffError: it has no hunk, or a line that is none of a diff.
    """
    drafts = [_Draft("")]
    for number, line in _body(diff):
        draft = drafts[-1]
        if line.startswith("@@"):
            drafts.append(_Draft(line))
        elif not line:
            draft.lines.append(HunkLine(Mark.KEPT, ""))
            draft.bare += 1
        elif line[0] in tuple(Mark):
            draft.lines.append(HunkLine(Mark(line[0]), line[1:]))
            draft.bare = 0
        elif line[0] == "\\" and draft.lines:
            draft.unended[draft.lines[-1].mark] = len(draft.lines)
        else:
            shown = repr(clipped(line, _SHOWN))
            raise DiffError(
                f"line {number} is no line of a diff: {shown}; each must begin with a space, "
                "+ or -, or with @@ between hunks"
            )
    return tuple(_finished(drafts))


def _body(diff: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers, without the header that may come first."""
    lines = diff.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    start = 0
    while start < len(lines) and _GIT_HEADER.match(lines[start]):
        start += 1
    marks = [line[:3] for line in lines[start : start + 3]]
    # Without the @@ they could as well be changes of lines that begin with "-- " and "++ ".
    if [mark.rstrip() for mark in marks[:2]] == ["---", "+++"] and marks[2:] in (["@@"], ["@@ "]):
        start += 2
    return ((number, line) for number, line in enumerate(lines[start:], start + 1))


def _finished(drafts: list[_Draft]) -> Iterator[Hunk]:
    number = 0
    for draft in drafts:
        start = _named_start(draft)
        if start is None and draft.bare:
            # They are more often the end of the text than lines of the file.
            del draft.lines[-draft.bare :]
            start = _named_start(draft)
        if not draft.lines:
            continue
        number += 1
        _check(draft, number)
        yield Hunk(
            number,
            tuple(draft.lines),
            start,
            at_end=bool(draft.unended),
            final_newline=_final_newline(draft),
        )
    if not number:
        raise DiffError("it has no lines; give lines that begin with a space, + or -")


def _named_start(draft: _Draft) -> int | None:
    header = _RANGES.match(draft.header)
    if header is None:
        return None
    start, old_count, _, new_count = (1 if part is None else int(part) for part in header.groups())
    counted = (
        sum(line.mark is not Mark.ADDED for line in draft.lines),
        sum(line.mark is not Mark.REMOVED for line in draft.lines),
    )
    return start if counted == (old_count, new_count) else None


def _check(draft: _Draft, number: int) -> None:
    if all(line.mark is Mark.KEPT for line in draft.lines):
        raise DiffError(f"hunk {number} changes nothing; give lines that begin with + or -")
    for mark, count in draft.unended.items():
        sides = {Mark.KEPT, mark} if mark is not Mark.KEPT else set(Mark)
        if any(line.mark in sides for line in draft.lines[count:]):
            raise DiffError(f"hunk {number} has more lines after its no-newline marker")


def _final_newline(draft: _Draft) -> bool | None:
    if Mark.ADDED in draft.unended:
        return False
    return True if Mark.REMOVED in draft.unended else None
