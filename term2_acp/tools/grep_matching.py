"""What grep looks for: the pattern, line by line, and the files it is wanted in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import attrs
import regex  # type: ignore[import-untyped]

from term2_acp.agent.ports import ToolError
from term2_acp.tools.glob_pattern import GlobPattern
from term2_acp.tools.walking import Parts

# One line is one step that a cancel has to wait for.
_LONGEST_LINE_S = 0.4
_LINE_SHOWN = 300
# Nothing that looks around or back, that sees where the text ends, or that keeps what it
# took: such a pattern matches wherever some piece of the text has the right form.
_PLAIN = re.compile(
    r"""(?x) (?:
        [^\\\[\](){}*+?|]                                 # a character, . ^ $
      | \\ (?: [dwsDWSbt] | [^\w\s] )                      # an escape
      | \[ \^? (?: [^\[\]\\] | \\ (?: [dwsDWSt] | [^\w\s] ) )+ \]  # a set
      | \( (?: \?: | (?! \? ) ) | \) | \|                 # a group
      | (?: [*+?] | \{ \d+ (?: ,\d* )? \} ) \?? (?! [+*?{] ) # a repetition
    )*+"""
)
_BEFORE_MATCH = 60


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


@attrs.define
class LinePattern:
    """A regular expression that is matched against single lines, within a time limit."""

    _line: regex.Pattern[str]
    # Finds in one go where the next matching line can be; None if that is not worth it.
    _scan: regex.Pattern[str] | None

    @classmethod
    def compile(cls, pattern: str, *, ignore_case: bool) -> LinePattern:
        """
        Read the pattern.

        Raises:
            ToolError: it is no regular expression.
        """
        flags = regex.IGNORECASE if ignore_case else 0
        try:
            line = regex.compile(pattern, flags)
            plain = _PLAIN.fullmatch(pattern) is not None
            scan = regex.compile(pattern, flags | regex.MULTILINE) if plain else None
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
            check: called before each line that is looked at; stops the search by raising.

        Raises:
            SlowPatternError: one line took too long.
        """
        if not text:
            return
        text = text.replace("\r\n", "\n").removesuffix("\n")
        number, start = 1, 0
        while start <= len(text):
            check()
            candidate = self._next_candidate(text, start)
            if candidate is None:
                return
            line_start = text.rfind("\n", start, candidate) + 1 or start
            number += text.count("\n", start, line_start)
            line = text[line_start : _line_end(text, line_start)]
            try:
                match = self._line.search(line, timeout=_LONGEST_LINE_S)
            except TimeoutError:
                raise SlowPatternError(number) from None
            if match is not None:
                yield MatchingLine(number, _excerpt(line, match.start()))
            start = line_start + len(line) + 1
            number += 1

    def _next_candidate(self, text: str, start: int) -> int | None:
        """
        Return a position at or before the next matching line, None if there is no such line.

        A plain pattern that matches within a line also matches there within the whole text,
        unless a match that begins earlier (and may span lines) hides it.
        """
        if self._scan is None:
            return start
        try:
            found = self._scan.search(text, start, timeout=_LONGEST_LINE_S)
        except TimeoutError:
            # It runs over line ends for too long; from here on line by line.
            self._scan = None
            return start
        return None if found is None else found.start()


@attrs.frozen
class FileFilter:
    """Which files of a tree are searched."""

    _include: GlobPattern | None
    _exclude: GlobPattern | None

    @classmethod
    def parse(cls, include: str | None, exclude: str | None) -> FileFilter:
        """
        Read the two globs.

        Raises:
            ToolError: one of them is no glob relative to the folder.
        """
        return cls(_glob("include", include), _glob("exclude", exclude))

    def takes(self, parts: Parts) -> bool:
        """Whether to search a file, given its path below the root of the search."""
        included = self._include is None or self._include.matches(parts)
        return included and self.enters(parts)

    def enters(self, parts: Parts) -> bool:
        """Whether to go into a folder."""
        return self._exclude is None or not self._exclude.matches(parts)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _glob(parameter: str, pattern: str | None) -> GlobPattern | None:
    if pattern is None:
        return None
    pattern = pattern.rstrip("/")
    return GlobPattern.parse(parameter, pattern if "/" in pattern else f"**/{pattern}")


def _excerpt(line: str, start: int) -> str:
    if len(line) <= _LINE_SHOWN:
        return line
    begin = max(0, min(start - _BEFORE_MATCH, len(line) - _LINE_SHOWN))
    end = begin + _LINE_SHOWN
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"
