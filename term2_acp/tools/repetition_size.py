"""How large a regular expression becomes when its repetitions are written out."""

from __future__ import annotations

import math
import re

LARGEST_SIZE = 50_000
"""The largest size to compile, in characters: compiling takes memory in proportion."""

_PIECE = re.compile(
    r"""(?xs)
      (?P<comment> \( \? \# [^)]* \) )
    | (?P<atom> \\. | \[ \^? \]? (?: \\. | \[: [^\]]* :\] | [^\]\\] )* \] )
    | (?P<open> \( )
    | (?P<close> \) )
    | \{ (?P<count> [^{}]* ) \}
    | .
    """
)
_BRACES = re.compile(r"\{([^{}]*)\}")
# With these flags parentheses in comments and in sets within sets do not group.
_OTHER_SYNTAX = re.compile(r"\(\?[A-Za-z0-9]*(?:x|V1)")
_BLANK = re.compile(r"\#[^\n]*\n|\s")
_COUNT = re.compile(r"([0-9]*)(?:,([0-9]*))?")


def expanded_size(pattern: str) -> int:
    """
    Return how many characters and classes `pattern` has with its counted repetitions written out.

    It is estimated rather too high: what it takes for a repetition need not be one.
    """
    if _OTHER_SYNTAX.search(pattern):
        return len(pattern) * math.prod(map(_most, _BRACES.findall(pattern)))
    sizes = [0]
    last = 0
    for piece in _PIECE.finditer(pattern):
        if piece["comment"]:
            continue
        if piece["open"]:
            sizes.append(0)
            last = 0
            continue
        if piece["close"] and len(sizes) > 1:
            last = more = max(sizes.pop(), 1)
        elif piece["count"] is not None:
            more = last * (_most(piece["count"]) - 1)
            last += more
        else:
            last = more = 1
        sizes[-1] += more
    return sum(sizes)


def _most(count: str) -> int:
    """Return the largest number of a repetition, or 1 if it is something else."""
    found = _COUNT.fullmatch(_BLANK.sub("", count))
    if found is None:
        return 1
    numbers = [number for number in found.groups() if number]
    if any(len(number) > len(str(LARGEST_SIZE)) for number in numbers):
        return LARGEST_SIZE + 1
    return max(1, *map(int, numbers)) if numbers else 1
