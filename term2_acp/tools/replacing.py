"""
Replacing pieces of a text while its line endings stay as they are.

A model writes line breaks as LF whatever the file has. So texts are compared as tokens, one
character each: a CRLF is one line break like an LF, and a CR on its own is a character like
any other, unless the whole file has no other line break. What is replaced is put back with
the endings of the lines that it replaces, and only the characters that differ are touched.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

import attrs

_CRLF = re.compile("\r\n")
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
    _crlf: tuple[int, ...]
    _lone_cr: bool

    @classmethod
    def of(cls, raw: str) -> LineText:
        """Read a text."""
        if "\n" not in raw:
            return cls(raw, raw.replace("\r", "\n"), (), "\r" in raw)
        crlf = tuple(found.start() - index for index, found in enumerate(_CRLF.finditer(raw)))
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
            old = self.tokens[match.start : match.end]
            same_before = _common_length(old, new)
            same_after = _common_length(old[same_before:][::-1], new[same_before:][::-1])
            start, end = match.start + same_before, match.end - same_after
            middle = new[same_before : len(new) - same_after]
            pieces += (
                self.raw[done : self._raw(start)],
                self._with_endings(middle, start, end, breaks),
            )
            done = self._raw(end)
        pieces.append(self.raw[done:])
        return "".join(pieces)

    def _raw(self, position: int) -> int:
        return position + bisect_left(self._crlf, position)

    def _with_endings(self, new: str, start: int, end: int, breaks: _Breaks) -> str:
        """Write line breaks as the replaced lines do, those beyond as the last of them."""
        first, *others = new.split("\n")
        if not others:
            return first
        written = [first]
        near = breaks.near(start)
        ending = self._ending(near) if near >= 0 else "\n"
        position = start
        for line in others:
            replaced = self.tokens.find("\n", position, end)
            if replaced >= 0:
                ending = self._ending(replaced)
                position = replaced + 1
            written += (ending, line)
        return "".join(written)

    def _ending(self, position: int) -> str:
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
    return old.count("\n", 0, _common_length(old, new)) + 1


def _common_length(one: str, other: str) -> int:
    """Return how many characters two texts have in common at the front."""
    same, most = 0, min(len(one), len(other))
    while same < most:
        middle = (same + most + 1) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            most = middle - 1
    return same
