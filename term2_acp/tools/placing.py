"""
Hunks put where their lines are in a file, whatever line numbers they name (spec section 7).

A hunk goes where its context and removed lines are, exactly and next to each other. Of several
such places the order of the hunks leaves those that are possible; if that is more than one,
only a header with right counts may choose among them. Kept lines keep their line breaks, new
lines are written with those of the lines that they replace, or of their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from term2_acp.tools.hunks import DiffError, Hunk, HunkLine, Mark
from term2_acp.tools.near_misses import near_misses

_MOST_PLACES = 1000
_MOST_NAMED = 10


@attrs.frozen
class FileLines:
    """The lines of a text, and how each of them ends."""

    texts: list[str]
    endings: list[str]

    @classmethod
    def of(cls, raw: str) -> FileLines:
        """Read a text; a CR on its own ends lines only where nothing else does."""
        if "\n" not in raw and "\r" in raw:
            *texts, last = raw.split("\r")
            endings = ["\r"] * len(texts)
        else:
            *broken, last = raw.split("\n")
            endings = ["\r\n" if line.endswith("\r") else "\n" for line in broken]
            texts = [line.removesuffix("\r") for line in broken]
        if last:
            texts.append(last)
            endings.append("")
        return cls(texts, endings)

    def ending_near(self, index: int) -> str:
        """Return how the line at an index ends, or the nearest before it that ends at all."""
        before = range(min(index, len(self.endings)) - 1, -1, -1)
        near = (self.endings[at] for at in (index, *before[:2]) if at < len(self.endings))
        return next((ending for ending in near if ending), "\n")


def apply_hunks(raw: str, hunks: Sequence[Hunk]) -> str:
    """
    Return the text with every hunk applied.

    Raises:
        DiffError: a hunk fits nowhere or in several places; the text says which, and where
            in the file something like it is.
    """
    lines = FileLines.of(raw)
    new = FileLines([], [])
    done = 0
    for hunk, start in zip(hunks, place(lines, hunks), strict=True):
        new.texts.extend(lines.texts[done:start])
        new.endings.extend(lines.endings[done:start])
        done = _apply(hunk, lines, start, new)
    new.texts.extend(lines.texts[done:])
    new.endings.extend(lines.endings[done:])
    _end(new, lines, hunks[-1].final_newline)
    return "".join(text + ending for text, ending in zip(new.texts, new.endings, strict=True))


def place(lines: FileLines, hunks: Sequence[Hunk]) -> list[int]:
    """
    Return the index of the first line of each hunk.

    Raises:
        DiffError: as for `apply_hunks`.
    """
    found = _in_order(hunks, [_places(lines, hunk) for hunk in hunks])
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
    return [places[0] for places in found]


def _places(lines: FileLines, hunk: Hunk) -> list[int]:
    """Find where the old lines of a hunk are."""
    old = hunk.old
    if not old:
        if lines.texts:
            raise DiffError(
                f"hunk {hunk.number} has only + lines, so its place is unknown; give lines of "
                "context before or after them"
            )
        return [0]
    text = "\n".join(lines.texts)
    around, wanted = f"\n{text}\n", "\n" + "\n".join(old) + "\n"
    places: list[int] = []
    line = position = 0
    while (position := around.find(wanted, start := position)) >= 0:
        line += around.count("\n", start, position)
        if not hunk.at_end or line + len(old) == len(lines.texts):
            places.append(line)
        if len(places) > _MOST_PLACES:
            break
        # The break that was found counts for the next place.
        position += 1
        line += 1
    if not places:
        raise DiffError(_missing(text, hunk))
    return places


def _missing(text: str, hunk: Hunk) -> str:
    end = " at the end of the file" if hunk.at_end else ""
    message = f"hunk {hunk.number} does not fit: its context and removed lines are not there{end}"
    notes = near_misses(text, "\n".join(hunk.old))
    if not notes:
        return f"{message}; nothing in the file is like them, so read it and copy them exactly"
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


def _apply(hunk: Hunk, lines: FileLines, start: int, new: FileLines) -> int:
    """Write a hunk that begins at `start`; the index after its last old line."""
    position = start
    removed: list[str] = []
    added: list[HunkLine] = []

    def write_added() -> None:
        ending = next((e for e in removed if e), "") or lines.ending_near(position)
        for index, line in enumerate(added):
            ending = (removed[index] if index < len(removed) else "") or ending
            new.texts.append(line.text)
            new.endings.append(ending)
        removed.clear()
        added.clear()

    for line in hunk.lines:
        if line.mark is Mark.ADDED:
            added.append(line)
            continue
        if line.mark is Mark.REMOVED:
            removed.append(lines.endings[position])
        else:
            write_added()
            new.texts.append(lines.texts[position])
            new.endings.append(lines.endings[position])
        position += 1
    write_added()
    return position


def _end(new: FileLines, old: FileLines, wanted: bool | None) -> None:
    """End all lines but the last, and that as the diff says or else as the file did."""
    for index, ending in enumerate(new.endings[:-1]):
        if not ending:
            new.endings[index] = old.ending_near(len(old.endings) - 1)
    if not new.texts:
        return
    ends = wanted if wanted is not None else not old.endings or bool(old.endings[-1])
    if not ends:
        new.endings[-1] = ""
    elif not new.endings[-1]:
        new.endings[-1] = old.ending_near(len(old.endings) - 1)
