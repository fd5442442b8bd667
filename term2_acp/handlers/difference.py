"""Where two sequences of lines differ, in time that grows no faster than they do."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

Opcode = tuple[str, int, int, int, int]
"""As in `difflib`: a tag, and the ranges of both sequences; other than "equal" is a change."""

# The matcher looks at each pair of equal lines, once for each stretch that it finds.
_MATCHING_COST = 200_000


def common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many items are the same at the beginning, and behind that at the end."""
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    tail = 0
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail


def opcodes(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    """
    How the new lines come of the old ones.

    Lines that are once in each hold long texts together; what is between them is matched
    line by line while that is cheap, and else replaced whole.
    """
    found: list[Opcode] = []
    left = _MATCHING_COST
    i = j = 0
    for a, b in [*_anchors(old, new), (len(old), len(new))]:
        head, tail = common_ends(old[i:a], new[j:b])
        found.append(("equal", i, i + head, j, j + head))
        i, j = i + head, j + head
        old_part, new_part = old[i : a - tail], new[j : b - tail]
        cost = _cost(old_part, new_part)
        if cost <= left:
            left -= cost
            matcher = SequenceMatcher(None, old_part, new_part, autojunk=False)
            found += [(tag, *_moved(ranges, i, j)) for tag, *ranges in matcher.get_opcodes()]
        else:
            found.append(("replace", i, a - tail, j, b - tail))
        found.append(("equal", a - tail, a, b - tail, b))
        i, j = a, b
    return list(_merged(found))


def grouped(codes: Sequence[Opcode], context: int) -> Iterator[list[Opcode]]:
    """Cut what is equal down to the lines around changes; what is far apart is apart."""
    group: list[Opcode] = []
    for index, code in enumerate(codes):
        tag, i1, i2, j1, j2 = code
        is_first, is_last = index == 0, index == len(codes) - 1
        if tag != "equal" or (i2 - i1 <= 2 * context and not is_first and not is_last):
            group.append(code)
            continue
        if group:
            after = min(context, i2 - i1)
            yield [*group, (tag, i1, i1 + after, j1, j1 + after)]
        before = 0 if is_last else min(context, i2 - i1)
        group = [(tag, i2 - before, i2, j2 - before, j2)] if before else []
    if group:
        yield group


def _moved(ranges: Sequence[int], old: int, new: int) -> tuple[int, int, int, int]:
    i1, i2, j1, j2 = ranges
    return i1 + old, i2 + old, j1 + new, j2 + new


def _cost(old: Sequence[str], new: Sequence[str]) -> int:
    """Pairs of equal lines, and the lines themselves: what the matcher has to look at."""
    if not old or not new:
        return 0
    counts = Counter(old)
    return 10 * (len(old) + len(new)) + sum(counts[line] for line in new)


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The longest row of lines that are once in each sequence, and in the same order in both."""
    if _cost(old, new) <= _MATCHING_COST:
        return []
    once_old, once_new = _once(old), _once(new)
    pairs = [(i, once_new[line]) for line, i in once_old.items() if line in once_new]
    # The last pair of the best row of each length so far, and what comes before each pair.
    lasts: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        before.append(lasts[length - 1] if length else -1)
        if length == len(ends):
            ends.append(j)
            lasts.append(index)
        else:
            ends[length], lasts[length] = j, index
    row = []
    index = lasts[-1] if lasts else -1
    while index >= 0:
        row.append(pairs[index])
        index = before[index]
    return row[::-1]


def _once(lines: Sequence[str]) -> dict[str, int]:
    counts = Counter(lines)
    return {line: index for index, line in enumerate(lines) if counts[line] == 1}


def _merged(found: Sequence[Opcode]) -> Iterator[Opcode]:
    """Join neighbours of one kind, and leave out what is empty."""
    last: Opcode | None = None
    for code in found:
        tag, i1, i2, j1, j2 = code
        if i1 == i2 and j1 == j2:
            continue
        if last is not None and (last[0] == "equal") == (tag == "equal"):
            tag = tag if tag == "equal" else "replace"
            last = (tag, last[1], i2, last[3], j2)
            continue
        if last is not None:
            yield last
        last = code
    if last is not None:
        yield last
