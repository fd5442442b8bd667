"""What grep looks for: the pattern, line by line, and the files it is wanted in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import regex  # type: ignore[import-untyped]

from term2_acp.agent.ports import ToolError
from term2_acp.tools.glob_pattern import GlobPattern
from term2_acp.tools.walking import Parts

# One line is one step that a cancel has to wait for.
_LONGEST_LINE_S = 0.4
_LINE_SHOWN = 300
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


@attrs.frozen
class LinePattern:
    """A regular expression that is matched against single lines, within a time limit."""

    _compiled: regex.Pattern[str]
    # What every matching text contains, where that is known: most files are done at once.
    _literal: str | None

    @classmethod
    def compile(cls, pattern: str, *, ignore_case: bool) -> LinePattern:
        """
        Read the pattern.

        Raises:
            ToolError: it is no regular expression.
        """
        try:
            compiled = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
        except (regex.error, RecursionError, OverflowError) as error:
            raise ToolError(
                f"pattern {pattern!r} is no regular expression: {error}. "
                "Put a backslash before characters that are meant literally."
            ) from error
        literal = pattern.isascii() and pattern.replace("_", "a").isalnum() and not ignore_case
        return cls(compiled, pattern if literal else None)

    def matching_lines(self, text: str, check: Callable[[], None]) -> Iterator[MatchingLine]:
        r"""
        Yield the lines of a text that match; lines end at \n or \r\n only.

        Args:
            text: the whole text.
            check: called before each line; stops the search by raising.

        Raises:
            SlowPatternError: one line took too long.
        """
        if not text or (self._literal is not None and self._literal not in text):
            return
        for number, ended in enumerate(text.removesuffix("\n").split("\n"), start=1):
            check()
            line = ended.removesuffix("\r")
            try:
                match = self._compiled.search(line, timeout=_LONGEST_LINE_S)
            except TimeoutError:
                raise SlowPatternError(number) from None
            if match is not None:
                yield MatchingLine(number, _excerpt(line, match.start()))


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
