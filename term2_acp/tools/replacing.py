"""
Replacing pieces of a text while its line endings stay as they are.

A model writes line breaks as LF whatever the file has. So texts are compared as tokens, one
character each: a CRLF is one line break like an LF, and a CR on its own is a character like
any other, unless the whole file has no other line break. What is replaced is put back with
the endings of the lines that it replaces, and only the characters that differ are touched.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

import attrs

_CRLF = re.compile("\r\n")
_MOST_PIECES = 100_000
_ANY_BREAK = re.compile("\r\n|\n|\r")


@attrs.frozen
class Match:
    """A place where a search text was found, as token positions."""

    start: int
    end: int


@attrs.frozen
class LineText:
    """
    A text as tokens that remember how each line break was written.

    Args:
        raw: the text itself.
        tokens: the same with every line break as LF.
    """

    raw: str
    tokens: str
    # Positions in `tokens` of the breaks that are CRLF, ascending.
    _crlf: array[int]
    _lone_cr: bool

    @classmethod
    def of(cls, raw: str) -> LineText:
        """Read a text."""
        if "\n" not in raw:
            return cls(raw, raw.replace("\r", "\n"), array("L"), "\r" in raw)
        crlf = array("L", (found.start() - i for i, found in enumerate(_CRLF.finditer(raw))))
        return cls(raw, raw.replace("\r\n", "\n"), crlf, lone_cr=False)

    def tokens_of(self, piece: str) -> str:
        """Read a piece that a model wrote, as it compares with this text."""
        if self._lone_cr:
            return _ANY_BREAK.sub("\n", piece)
        return piece.replace("\r\n", "\n")

    def find(self, search: str, *, overlapping: bool = True) -> Iterator[Match]:
        """Yield where a search text is, from the left, also where one place overlaps another."""
        wanted = self.tokens_of(search)
        step = 1 if overlapping else len(wanted)
        start = self.tokens.find(wanted)
        while start >= 0:
            yield Match(start, start + len(wanted))
            start = self.tokens.find(wanted, start + step)

    def replaced_everywhere(self, search: str, replacement: str) -> tuple[str, int] | None:
        """
        Return the text with every occurrence replaced, and how many there were.

        None if the line breaks of the text are not all the same; then each place has its own
        to keep. The same as `find` and `replaced`, but fast and in little memory.
        """
        wanted = self.tokens_of(search)
        line_break = self._only_break()
        if line_break is None or (line_break == "\r\n" and "\r" in wanted):
            return None
        new = self.tokens_of(replacement).replace("\n", line_break)
        raw = self.raw.replace(wanted.replace("\n", line_break), new)
        return raw, self.tokens.count(wanted)

    def _only_break(self) -> str | None:
        if self._lone_cr:
            return "\r"
        if not self._crlf:
            return "\n"
        counts = {self.tokens.count("\n"), self.raw.count("\r")}
        return "\r\n" if counts == {len(self._crlf)} else None

    def line_of(self, position: int) -> int:
        """Return the 1-based line of a token position."""
        return self.tokens.count("\n", 0, position) + 1

    def replaced(
        self, matches: Iterable[Match], replacement: str, check: Callable[[], None]
    ) -> str:
        """
        Return the text with the replacement at each place.

        Args:
            matches: the places, from the left; none overlaps another.
            replacement: what to put there.
            check: called at each place; stops it by raising.
        """
        new = self.tokens_of(replacement)
        breaks = _Breaks(self.tokens)
        pieces: list[str] = []
        done = 0
        for match in matches:
            check()
            if len(pieces) > _MOST_PIECES:
                pieces = ["".join(pieces)]
            old = self.tokens[match.start : match.end]
            same_before = common_length(old, new)
            same_after = common_length(old[same_before:][::-1], new[same_before:][::-1])
            start, end = match.start + same_before, match.end - same_after
            middle = new[same_before : len(new) - same_after]
            pieces += (
                self.raw[done : self.raw_position(start)],
                self._with_endings(middle, start, end, breaks),
            )
            done = self.raw_position(end)
        pieces.append(self.raw[done:])
        return "".join(pieces)

    def raw_position(self, position: int) -> int:
        """Return where a token position is in the text itself."""
        return position + bisect_left(self._crlf, position)

    def _with_endings(self, new: str, start: int, end: int, breaks: _Breaks) -> str:
        """Write line breaks as the replaced lines do, those beyond as the last of them."""
        first, *others = new.split("\n")
        if not others:
            return first
        written = [first]
        near = breaks.near(start)
        ending = self.ending(near) if near >= 0 else "\n"
        position = start
        for line in others:
            replaced = self.tokens.find("\n", position, end)
            if replaced >= 0:
                ending = self.ending(replaced)
                position = replaced + 1
            written += (ending, line)
        return "".join(written)

    def ending_near(self, position: int) -> str:
        """Return how the line at a token position ends, or else the line before it."""
        near = self.tokens.find("\n", position)
        if near < 0:
            near = self.tokens.rfind("\n")
        return self.ending(near) if near >= 0 else "\n"

    def ending(self, position: int) -> str:
        """Return how the line break at a token position is written."""
        if self._lone_cr:
            return "\r"
        index = bisect_left(self._crlf, position)
        is_crlf = index < len(self._crlf) and self._crlf[index] == position
        return "\r\n" if is_crlf else "\n"


@attrs.define
class _Breaks:
    """The line breaks near positions that are asked for from the left, each found once."""

    _tokens: str
    _near: int = attrs.field(default=-1, init=False)
    _is_last: bool = attrs.field(default=False, init=False)

    def near(self, position: int) -> int:
        """Return where the line at a position ends, or the one before; -1 if there is none."""
        if self._near < position and not self._is_last:
            self._near = self._tokens.find("\n", position)
            if self._near < 0:
                self._near, self._is_last = self._tokens.rfind("\n"), True
        return self._near


def first_difference(old: str, new: str) -> int:
    """Return the 1-based line in which the new text first differs."""
    return old.count("\n", 0, common_length(old, new)) + 1


def common_length(one: str, other: str) -> int:
    """Return how many characters two texts have in common at the front."""
    same, most = 0, min(len(one), len(other))
    while same < most:
        middle = (same + most + 1) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            most = middle - 1
    return same


def common_tail(one: str, other: str) -> int:
    """Return how many characters two texts have in common at the end."""
    same, most = 0, min(len(one), len(other))
    while same < most:
        middle = (same + most + 1) // 2
        if (
            one[len(one) - middle : len(one) - same]
            == other[len(other) - middle : len(other) - same]
        ):
            same = middle
        else:
            most = middle - 1
    return same
