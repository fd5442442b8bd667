"""Where a search text almost is."""

from __future__ import annotations

import time

import pytest

from term2_acp.tools.near_misses import near_misses

CODE = """\
def one(a, b):
    if a:
        return b
    return a


def two(a, b):
    if b:
        return a
    return b
"""


@pytest.mark.parametrize(
    ("search", "told"),
    [
        ("def one(a,b):", "line 1 (only white space differs): 'def one(a, b):'"),
        ("\tif a:\n\t\treturn b", "line 2 (only white space differs): '    if a:'"),
        ("DEF ONE(a, b):", "line 1 (upper and lower case differ): 'def one(a, b):'"),
        (
            "def two(a, b):\n    if b:\n        return 0\n    return b",
            "line 7 (the first difference is in line 9: the file has '        return a')",
        ),
        (
            "def two(a, b):\n    finally",
            "line 7 (the first difference is in line 8: the file has '    if b:')",
        ),
        ("def three(a, b):", "line 1: 'def one(a, b):'"),
    ],
)
def test_the_best_place_is_told_with_what_differs(search: str, told: str) -> None:
    """White space first, then case, then blocks that begin alike, then similar lines."""
    assert near_misses(CODE, search)[0].startswith(told)


@pytest.mark.parametrize("search", ["nothing of the kind is here", "  \n\t\n"])
def test_nothing_is_told_where_nothing_is_alike(search: str) -> None:
    """A far-fetched hint would mislead."""
    assert near_misses(CODE, search) == []


def test_at_most_three_places_are_told() -> None:
    """Each is cut if its line is long."""
    notes = near_misses(f"x = {'1' * 500}\n" * 10, f"x={'1' * 500}")
    assert len(notes) == 3
    assert all(len(note) < 250 for note in notes)


def test_a_large_file_of_similar_lines_takes_bounded_time() -> None:
    """Only so many lines are compared letter by letter."""
    text = "\n".join(f"value_{number} = compute(number, {number})" for number in range(200_000))
    start = time.monotonic()
    near_misses(text, "valu = comput(numbr, 17)\nnext line")
    assert time.monotonic() - start < 20


def test_a_token_is_not_cut() -> None:
    """Half of a credential would not be recognised as one."""
    line = f"the key is {'y ' * 60} sk-{'x' * 60} here"
    (told,) = near_misses(line, "THE KEY IS")
    assert "sk-" not in told
    assert told.endswith("y  …'")
