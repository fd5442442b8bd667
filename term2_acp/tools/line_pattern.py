"""Regular expressions that are matched against the single lines of a text, in bounded time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import attrs
import regex  # type: ignore[import-untyped]

from term2_acp.agent.ports import ToolError
from term2_acp.tools.bounds import clipped, cut_after, cut_before
from term2_acp.tools.repetition_size import LARGEST_SIZE, expanded_size

# One search in the pattern's engine is one step that a cancel has to wait for.
_LONGEST_STEP_S = 0.4
_SCANNED_AT_ONCE = 1 << 19
_LINE_SHOWN = 300
_BEFORE_MATCH = 60

# What may match a line break, and the same without it.
_WITHIN_LINE = {r"\s": r"[^\S\n]", r"\D": r"[^\d\n]", r"\W": r"[^\w\n]"}
# The pieces of plain patterns: nothing that looks around or back, that sees where a text
# begins or ends, or that keeps what it took.
_PIECE = re.compile(
    r"""(?x)
      (?P<set> \[ \^? (?: [^\[\]\\] | \\ (?: [dwsDWS] | [^\w\s] ) )+ \] )
    | (?P<escape> \\ (?: [dwsDWSb] | [^\w\s] ) )
    | (?: [*+?] | \{ \d+ (?: ,\d* )? \} ) \?? (?! [+*?{] )
    | \( (?: \?: | (?! \? ) ) | [)|]
    | [^\\\[\](){}*+?|\n]
    """
)


@attrs.frozen
class MatchingLine:
    """A line that matches: its 1-based number and its text, cut around the match if long."""

    number: int
    text: str


class SlowPatternError(Exception):
    """The pattern took too long on one line; `line` is its number."""

    def __init__(self, line: int) -> None:
        super().__init__(f"pattern too slow on line {line}")
        self.line = line


@attrs.frozen
class LinePattern:
    """
    A regular expression that matches within single lines.

    Most patterns can be rewritten so that they match within a whole text exactly what they
    match in its lines; those need one search a matching line, the others one search a line.
    """

    _line: regex.Pattern[str]
    _scan: regex.Pattern[str] | None

    @classmethod
    def compile(cls, pattern: str, *, ignore_case: bool) -> LinePattern:
        """
        Read a pattern.

        Raises:
            ToolError: it is no regular expression, or its repetitions are too many.
        """
        if expanded_size(pattern) > LARGEST_SIZE:
            raise ToolError(
                f"pattern {clipped(pattern, _LINE_SHOWN)!r} repeats too much: written out it has "
                f"more than {LARGEST_SIZE} characters. Use smaller numbers in braces, or + or *."
            )
        flags = regex.IGNORECASE if ignore_case else 0
        try:
            line = regex.compile(pattern, flags)
            within = _within_lines(pattern)
            scan = None if within is None else regex.compile(within, flags | regex.MULTILINE)
        except MemoryError as error:
            raise ToolError("pattern takes too much memory; write it with less in it.") from error
        except (regex.error, RecursionError, OverflowError) as error:
            raise ToolError(
                f"pattern {pattern!r} is no regular expression: {error}. "
                "Put a backslash before characters that are meant literally."
            ) from error
        return cls(line, scan)

    def matching_lines(self, text: str, check: Callable[[], None]) -> Iterator[MatchingLine]:
        r"""
        Yield the lines of a text that match; lines end at \n or \r\n only.

        Args:
            text: the whole text.
            check: called again and again; stops the search by raising.

        Raises:
            SlowPatternError: one line took too long.
        """
        if not text:
            return
        text = text.replace("\r\n", "\n").removesuffix("\n")
        number, counted = 1, 0
        for position in self._positions(text, check):
            start = text.rfind("\n", 0, position) + 1
            number += text.count("\n", counted, start)
            counted = start
            line = text[start : _line_end(text, start)]
            yield MatchingLine(number, _excerpt(line, position - start))

    def _positions(self, text: str, check: Callable[[], None]) -> Iterator[int]:
        """Yield where each matching line has its first match."""
        start = 0
        while self._scan is not None and start <= len(text):
            check()
            end = _line_end(text, min(start + _SCANNED_AT_ONCE, len(text)))
            try:
                found = self._scan.search(text, start, end, timeout=_LONGEST_STEP_S)
            except TimeoutError:
                # Some line of these is slow; which one is found out below.
                break
            if found is not None:
                yield found.start()
                end = _line_end(text, found.start())
            start = end + 1
        yield from self._positions_by_line(text, start, check)

    def _positions_by_line(self, text: str, start: int, check: Callable[[], None]) -> Iterator[int]:
        while start <= len(text):
            check()
            end = _line_end(text, start)
            try:
                found = self._line.search(text[start:end], timeout=_LONGEST_STEP_S)
            except TimeoutError:
                raise SlowPatternError(text.count("\n", 0, start) + 1) from None
            if found is not None:
                yield start + found.start()
            start = end + 1


def _within_lines(pattern: str) -> str | None:
    """Rewrite a plain pattern so that no match has a line break in it; None for another one."""
    pieces: list[str] = []
    position = 0
    while position < len(pattern):
        piece = _PIECE.match(pattern, position)
        if piece is None:
            return None
        position = piece.end()
        text = piece[0]
        if piece.lastgroup == "escape":
            text = _WITHIN_LINE.get(text, text)
        elif piece.lastgroup == "set" and regex.match(text, "\n"):
            if not text.startswith("[^") or text[2] == "-":
                return None
            text = rf"[^\n{text[2:]}"
        pieces.append(text)
    return "".join(pieces)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _excerpt(line: str, start: int) -> str:
    if len(line) <= _LINE_SHOWN:
        return line
    begin = max(0, min(start - _BEFORE_MATCH, len(line) - _LINE_SHOWN))
    end = cut_before(line, begin + _LINE_SHOWN)
    # Nearer to the match only where a run of characters is longer than may be shown.
    wider = cut_before(line, begin)
    begin = wider if begin - wider <= _LINE_SHOWN else cut_after(line, begin)
    if begin >= end:
        omitted = cut_after(line, start + 1) - cut_before(line, start)
        return f"[… the match is within {omitted} characters without a break, left out …]"
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"
