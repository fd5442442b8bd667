"""
Hunks put where their lines are in a file, whatever line numbers they name (spec section 7).

A hunk goes where its context and removed lines are, exactly and next to each other. Of several
such places the order of the hunks leaves those that are possible; if that is more than one,
only a header with right counts may choose among them. Kept lines keep their line breaks, new
lines are written with those of the lines that they replace, or of their neighbours.

Only the lines of hunks are taken apart: a file may have millions of others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from term2_acp.tools.hunks import DiffError, Hunk, HunkLine, Mark
from term2_acp.tools.near_misses import near_misses
from term2_acp.tools.replacing import LineText

_MOST_PLACES = 1000
_MOST_NAMED = 10


@attrs.frozen
class Placed:
    """A hunk, and the token at which it goes into the text."""

    hunk: Hunk
    start: int


def apply_hunks(
    raw: str,
    hunks: Sequence[Hunk],
    *,
    check: Callable[[], None] = lambda: None,
    told: Callable[[str], str] = lambda text: text,
) -> str:
    """
    Return the text with every hunk applied.

    Args:
        raw: the text.
        hunks: in the order of the text.
        check: called at each hunk; stops it by raising.
        told: what of a text may be told when a hunk does not fit; keeps its lines.

    Raises:
        DiffError: a hunk fits nowhere or in several places; the text says which, and where
            in the file something like it is.
    """
    lines = LineText.of(raw)
    pieces: list[str] = []
    done = 0
    for placed in place(lines, hunks, check, told):
        check()
        pieces.append(raw[lines.raw_position(done) : lines.raw_position(placed.start)])
        new = _Written(lines, placed)
        done = new.end
        if placed.hunk is hunks[-1] and new.reaches_end:
            _end(pieces, new, lines)
        pieces += [text + ending for text, ending in new.lines]
    pieces.append(raw[lines.raw_position(done) :])
    return "".join(pieces)


def place(
    lines: LineText,
    hunks: Sequence[Hunk],
    check: Callable[[], None],
    told: Callable[[str], str],
) -> list[Placed]:
    """
    Return where each hunk goes.

    Raises:
        DiffError: as for `apply_hunks`.
    """
    tokens = lines.tokens
    around = f"\n{tokens}" if tokens.endswith("\n") else f"\n{tokens}\n"
    starts: list[dict[int, int]] = []
    for hunk in hunks:
        check()
        starts.append(_places(tokens, around, hunk))
        if not starts[-1]:
            raise DiffError(_missing(told(tokens), hunk))
    found = _in_order(hunks, [list(places) for places in starts])
    chosen = [
        [hunk.start - 1] if hunk.start is not None and hunk.start - 1 in places else places
        for hunk, places in zip(hunks, found, strict=True)
    ]
    found = _in_order(hunks, chosen)
    for hunk, places in zip(hunks, found, strict=True):
        if len(places) > 1:
            named = ", ".join(str(place + 1) for place in places[:_MOST_NAMED])
            more = " and more" if len(places) > _MOST_NAMED else ""
            raise DiffError(
                f"hunk {hunk.number} is ambiguous: it fits at lines {named}{more}; "
                "give more lines of context"
            )
    return [
        Placed(hunk, start[places[0]])
        for hunk, places, start in zip(hunks, found, starts, strict=True)
    ]


def _places(tokens: str, around: str, hunk: Hunk) -> dict[int, int]:
    """Find where the old lines of a hunk are: the index of the first, and its token."""
    old = hunk.old
    if not old:
        if tokens:
            raise DiffError(
                f"hunk {hunk.number} has only + lines, so its place is unknown; give lines of "
                "context before or after them"
            )
        return {0: 0}
    wanted = "\n" + "\n".join(old) + "\n"
    places: dict[int, int] = {}
    line = position = 0
    while tokens and (position := around.find(wanted, start := position)) >= 0:
        line += around.count("\n", start, position)
        if not hunk.at_end or position + len(wanted) == len(around):
            # The break before the first line is the token before it.
            places[line] = position
        if len(places) > _MOST_PLACES:
            break
        # The break that was found counts for the next place.
        position += 1
        line += 1
    return places


def _missing(tokens: str, hunk: Hunk) -> str:
    end = " at the end of the file" if hunk.at_end else ""
    message = f"hunk {hunk.number} does not fit: its context and removed lines are not there{end}"
    notes = near_misses(tokens.removesuffix("\n"), "\n".join(hunk.old))
    if not notes:
        return f"{message}; nothing like them was found, so read the file and copy them exactly"
    return f"{message}; near misses: {'; '.join(notes)}"


def _in_order(hunks: Sequence[Hunk], found: Sequence[list[int]]) -> list[list[int]]:
    """Leave out the places that the other hunks, in the order of the file, make impossible."""
    sizes = [len(hunk.old) for hunk in hunks]
    first: list[int] = []
    end = 0
    for hunk, places, size in zip(hunks, found, sizes, strict=True):
        possible = [place for place in places if place >= end]
        if not possible:
            raise DiffError(
                f"hunk {hunk.number} fits only at line {places[-1] + 1}, before the end of the "
                "hunk before it; give the hunks in the order of the file"
            )
        first.append(possible[0])
        end = possible[0] + size
    left: list[list[int]] = []
    limit: int | None = None
    for places, low, size in zip(reversed(found), reversed(first), reversed(sizes), strict=True):
        fitting = [
            place for place in places if place >= low and (limit is None or place + size <= limit)
        ]
        left.append(fitting)
        limit = fitting[-1]
    return left[::-1]


class _Written:
    """
    The lines that a hunk leaves, each with how it ends.

    Args:
        text: the file.
        placed: the hunk.
    """

    def __init__(self, text: LineText, placed: Placed) -> None:
        self._text = text
        self._removed: list[str] = []
        self._added: list[HunkLine] = []
        self.lines: list[tuple[str, str]] = []
        self.final_newline = placed.hunk.final_newline
        # The token at which the next of the old lines starts.
        self.end = placed.start
        for line in placed.hunk.lines:
            if line.mark is Mark.ADDED:
                self._added.append(line)
                continue
            ending, after = self._ending_of(line)
            if line.mark is Mark.REMOVED:
                self._removed.append(ending)
            else:
                self._write_added()
                self.lines.append((line.text, ending))
            self.end = after
        self._write_added()

    @property
    def reaches_end(self) -> bool:
        """Whether no line of the file comes after these."""
        return self.end >= len(self._text.tokens)

    def _ending_of(self, line: HunkLine) -> tuple[str, int]:
        position = self.end + len(line.text)
        if position >= len(self._text.tokens):
            return "", position
        return self._text.ending(position), position + 1

    def _write_added(self) -> None:
        removed = self._removed
        ending = next((e for e in removed if e), "") or self._text.ending_near(self.end)
        for index, line in enumerate(self._added):
            ending = (removed[index] if index < len(removed) else "") or ending
            self.lines.append((line.text, ending))
        self._removed, self._added = [], []


def _end(before: list[str], new: _Written, old: LineText) -> None:
    """End all lines but the last, and that as the diff says or else as the file did."""
    near = old.ending_near(len(old.tokens))
    lines = [(text, ending or near) for text, ending in new.lines]
    wanted = new.final_newline
    ends = wanted if wanted is not None else not old.tokens or old.tokens.endswith("\n")
    if not ends and lines:
        lines[-1] = (lines[-1][0], "")
    elif not ends:
        last = max((index for index, piece in enumerate(before) if piece), default=None)
        if last is not None:
            before[last] = before[last].removesuffix("\n").removesuffix("\r")
    new.lines = lines
