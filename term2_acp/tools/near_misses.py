"""Where a search text is almost found, told so that the next attempt can be right."""

from __future__ import annotations

import difflib
from collections import Counter

from term2_acp.tools.bounds import clipped

_MOST_SHOWN = 3
_LINE_SHOWN = 160
# Comparing lines letter by letter takes long, so only so many are, and fewer exactly.
_MOST_COMPARED = 4000
_MOST_RATED = 40
_COMPARED_LENGTH = 200
_SIMILAR = 0.6
# A line such as "}" is everywhere and tells nothing.
_MOST_OCCURRENCES = 50
# Of a longer text only so many characters are looked at, around the best known line.
_LOOKED_AT = 1 << 21


def near_misses(text: str, search: str) -> list[str]:
    """
    Say where in `text` something like `search` is, best first, at most three places.

    Args:
        text: the file's text, with every line break as LF.
        search: what was looked for and not found, likewise.
    """
    wanted = search.split("\n")
    while wanted and not wanted[0].strip():
        del wanted[0]
    while wanted and not wanted[-1].strip():
        del wanted[-1]
    if not wanted:
        return []
    start = _start_of_part(text, wanted)
    lines = text[start : start + _LOOKED_AT].split("\n")
    first = text.count("\n", 0, start) + 1
    return (
        _other_spelling(lines, wanted, first)
        or _partial_blocks(lines, wanted, first)
        or _similar_lines(lines, wanted, first)
    )[:_MOST_SHOWN]


def _start_of_part(text: str, wanted: list[str]) -> int:
    """Return where to begin looking: at the front, or before the first line that is there."""
    if len(text) <= _LOOKED_AT:
        return 0
    known = sorted({line.strip() for line in wanted}, key=len, reverse=True)[:_MOST_SHOWN]
    places = (text.find(line) for line in known if line)
    place = next((place for place in places if place >= 0), 0)
    return text.rfind("\n", 0, max(place - _LOOKED_AT // 2, 0)) + 1


def _other_spelling(lines: list[str], wanted: list[str], first: int) -> list[str]:
    """Find places that are the same but for white space, or for upper and lower case."""
    squeezed = [_squeeze(line) for line in lines]
    spelled = [_squeeze(line) for line in wanted]
    notes = _places(lines, squeezed, spelled, "only white space differs", first)
    if notes:
        return notes
    folded = [line.casefold() for line in squeezed]
    same = [line.casefold() for line in spelled]
    return _places(lines, folded, same, "upper and lower case differ", first)


def _places(
    lines: list[str], have: list[str], want: list[str], difference: str, first: int
) -> list[str]:
    notes: list[str] = []
    for start in range(len(have) - len(want) + 1):
        if _block_fits(have, start, want):
            notes.append(f"line {start + first} ({difference}): {_shown(lines[start])}")
            if len(notes) == _MOST_SHOWN:
                break
    return notes


def _block_fits(have: list[str], start: int, want: list[str]) -> bool:
    """Whether the lines match, where the first and the last may be parts of lines."""
    if len(want) == 1:
        return want[0] in have[start]
    last = start + len(want) - 1
    return (
        have[start].endswith(want[0])
        and have[last].startswith(want[-1])
        and have[start + 1 : last] == want[1:-1]
    )


def _partial_blocks(lines: list[str], wanted: list[str], first: int) -> list[str]:
    """Find where several lines are as wanted, and name the first one that is not."""
    where: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        where.setdefault(line.strip(), []).append(number)
    votes: Counter[int] = Counter()
    for offset, line in enumerate(wanted):
        places = where.get(line.strip(), []) if line.strip() else []
        if len(places) <= _MOST_OCCURRENCES:
            votes.update(number - offset for number in places if number >= offset)
    best = votes.most_common(_MOST_SHOWN)
    return [_first_difference(lines, wanted, start, first) for start, _ in best]


def _first_difference(lines: list[str], wanted: list[str], start: int, first: int) -> str:
    for offset, line in enumerate(wanted):
        number = start + offset
        have = lines[number] if number < len(lines) else None
        if have is None or have.strip() != line.strip():
            shown = "the file ends" if have is None else f"the file has {_shown(have)}"
            place = f"line {start + first}"
            return f"{place} (the first difference is in line {number + first}: {shown})"
    return f"line {start + first} (white space differs)"


def _similar_lines(lines: list[str], wanted: list[str], first: int) -> list[str]:
    longest = max(wanted, key=lambda line: len(line.strip())).strip()[:_COMPARED_LENGTH]
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(longest)
    quick: list[tuple[float, int]] = []
    for number, line in enumerate(lines[:_MOST_COMPARED]):
        matcher.set_seq1(line.strip()[:_COMPARED_LENGTH])
        if matcher.real_quick_ratio() >= _SIMILAR:
            quick.append((matcher.quick_ratio(), number))
    scored: list[tuple[float, int]] = []
    for estimate, number in sorted(quick, reverse=True)[:_MOST_RATED]:
        matcher.set_seq1(lines[number].strip()[:_COMPARED_LENGTH])
        if estimate >= _SIMILAR and matcher.ratio() >= _SIMILAR:
            scored.append((-matcher.ratio(), number))
    return [f"line {number + first}: {_shown(lines[number])}" for _, number in sorted(scored)]


def _squeeze(line: str) -> str:
    return "".join(line.split())


def _shown(line: str) -> str:
    return repr(clipped(line, _LINE_SHOWN))
