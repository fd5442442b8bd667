"""Replacing in texts of any line ending, against a slow model on lists of tokens."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.tools.replacing import LineText, first_difference

TEXTS = st.lists(st.sampled_from(["a", "b", "\n", "\r\n", "\r"]), max_size=24).map("".join)
PIECES = st.lists(st.sampled_from(["a", "b", "\n", "\r\n"]), max_size=5).map("".join)


def unchecked() -> None:
    """Stop nothing."""


def take_one(steps: Iterator[int]) -> None:
    """Stop when there is none left."""
    next(steps)


def tokens(text: str) -> list[str]:
    """A text as characters, where CRLF is one, and each line break of a CR-only text is one."""
    return re.findall(r"\r\n|.", text, re.DOTALL)


def is_break(token: str, text: str) -> bool:
    return token in ("\n", "\r\n") or (token == "\r" and "\n" not in text)


def plain(token: str, text: str) -> str:
    return "\n" if is_break(token, text) else token


def find_all(text: str, search: str) -> list[int]:
    """Where a search text is, as positions in the list of tokens, overlaps included."""
    have = [plain(token, text) for token in tokens(text)]
    want = ["\n" if token == "\r\n" else token for token in tokens(search)]
    return [
        start
        for start in range(len(have) - len(want) + 1)
        if have[start : start + len(want)] == want
    ]


@given(TEXTS, PIECES.filter(bool))
def test_a_search_finds_what_is_the_same_but_for_the_kind_of_line_break(
    text: str, search: str
) -> None:
    """Positions are those that a comparison token by token gives."""
    assert [match.start for match in LineText.of(text).find(search)] == find_all(text, search)


def model_replaced(text: str, search: str, new: str) -> str:
    """Replace every place, token by token, as slowly and plainly as can be."""
    have = tokens(text)
    length = len(tokens(search))
    result: list[str] = []
    done = 0
    for start in find_all(text, search):
        if start < done:
            continue
        result += have[done:start]
        result += model_piece(have, start, start + length, tokens(new), text)
        done = start + length
    return "".join(result + have[done:])


def model_piece(have: list[str], start: int, end: int, new: list[str], text: str) -> list[str]:
    """What takes the place of some tokens: what both share stays, breaks are like their own."""
    before: list[str] = []
    after: list[str] = []
    while start < end and new and plain(have[start], text) == plain(new[0], "\n"):
        before.append(have[start])
        start, new = start + 1, new[1:]
    while start < end and new and plain(have[end - 1], text) == plain(new[-1], "\n"):
        after.insert(0, have[end - 1])
        end, new = end - 1, new[:-1]
    breaks = [token for token in have[start:end] if is_break(token, text)]
    below = [token for token in have[start:] if is_break(token, text)]
    above = [token for token in have[:start] if is_break(token, text)]
    ending = (below[:1] or above[-1:] or ["\n"])[0]
    middle: list[str] = []
    for token in new:
        if plain(token, "\n") == "\n":
            ending = breaks.pop(0) if breaks else ending
            middle.append(ending)
        else:
            middle.append(token)
    return before + middle + after


@given(TEXTS, PIECES.filter(bool), PIECES)
def test_only_what_differs_is_touched(text: str, search: str, new: str) -> None:
    """Every byte that old and new share stays; new breaks are like those they replace."""
    lines = LineText.of(text)
    result = lines.replaced(lines.find(search, overlapping=False), new, unchecked)
    assert result == model_replaced(text, search, new)


@pytest.mark.parametrize(
    ("text", "search", "new", "result"),
    [
        ("one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2", "1\r\n2\r\nthree\r\n"),
        ("one\r\ntwo\r\n", "two", "two\nmore", "one\r\ntwo\r\nmore\r\n"),
        ("a\nb\r\nc\n", "a\nb\nc", "a\nB\nc", "a\nB\r\nc\n"),
        ("a\r\nb\nc\n", "a\nb", "a\nb\nb2", "a\r\nb\nb2\nc\n"),
        ("a\r\nb\nc\n", "a", "a\na2", "a\r\na2\r\nb\nc\n"),
        ("a\rb\nc\n", "a\rb", "a\rB", "a\rB\nc\n"),
        ("one\rtwo\r", "one\ntwo", "1\n2\n3", "1\r2\r3\r"),
        ("a\nb", "b", "b\n", "a\nb\n"),
        ("a\r\nb", "b", "b\nc", "a\r\nb\r\nc"),
        ("alone", "alone", "a\nb", "a\nb"),
        ("a\r\nb\r\n", "a\r\nb", "a\r\nc", "a\r\nc\r\n"),
        ("a\nb\n", "a\r\nb", "c\r\nd", "c\nd\n"),
    ],
)
def test_new_lines_end_as_their_neighbours_do(
    text: str, search: str, new: str, result: str
) -> None:
    """LF, CRLF, mixed and CR-only texts keep their endings, replaced lines each their own."""
    lines = LineText.of(text)
    assert lines.replaced(lines.find(search), new, unchecked) == result


def test_many_places_in_a_long_line_take_linear_time() -> None:
    """A text without line breaks is not searched for one at every place."""
    text = '"' * 200_000 + "x" * (16 << 20)
    lines = LineText.of(text)
    start = time.monotonic()
    for new in ("'", "\n"):
        found = lines.find('"', overlapping=False)
        assert lines.replaced(found, new, unchecked) == text.replace('"', new)
    assert time.monotonic() - start < 60


def test_replacing_stops_where_it_is_told_to() -> None:
    """The check is called at every place, not only before the first."""
    lines = LineText.of("a" * 10)
    steps = iter(range(5))
    with pytest.raises(StopIteration):
        lines.replaced(lines.find("a"), "b", lambda: take_one(steps))
    assert list(steps) == []


def test_the_half_of_a_line_break_is_not_found() -> None:
    """A search for LF or a lone CR does not match inside a CRLF."""
    assert [match.start for match in LineText.of("a\r\nb").find("\nb")] == [1]
    assert list(LineText.of("a\r\nb").find("a\r")) == []


@given(TEXTS, TEXTS)
def test_the_first_difference_is_the_first_line_that_differs(old: str, new: str) -> None:
    """All lines before it are the same in both texts."""
    line = first_difference(old, new)
    before = line - 1
    assert old.split("\n")[:before] == new.split("\n")[:before]
    if old != new:
        assert old.split("\n")[before:] != new.split("\n")[before:]
