"""The lines that a pattern matches, against each line being looked at on its own."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.agent.ports import ToolError
from term2_acp.tools.grep_matching import LinePattern, SlowPatternError

PIECES = st.sampled_from(
    ["a", "b", ".", "^", "$", "(a|b)", "(?:ab)", "[ab]", "[^a]", r"\s", r"\S", r"\W", r"\b", r"\n"]
    + ["(?=a)", "(?!b)", "(?<=a)", r"\A", r"\Z", r"\B", "|", "(a)\\1", "A", "a++", "b*+"]
)
REPEATED = st.tuples(PIECES, st.sampled_from(["", "", "*", "+", "?", "*?", "{1,2}"])).map("".join)
PATTERNS = st.lists(REPEATED, min_size=1, max_size=4).map("".join)
TEXTS = st.lists(st.sampled_from(["a", "b", " ", "\n", "\r\n", "\r"]), max_size=20).map("".join)


def unchecked() -> None:
    """Stop nothing."""


def lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


@given(PATTERNS, TEXTS, st.booleans())
def test_a_line_is_found_exactly_if_it_matches_on_its_own(
    pattern: str, text: str, ignore_case: bool
) -> None:
    """Looking through the whole text first loses no line and adds none."""
    try:
        compiled = LinePattern.compile(pattern, ignore_case=ignore_case)
        alone = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except (ToolError, re.error):
        return
    wanted = [
        (number, line) for number, line in enumerate(lines_of(text), start=1) if alone.search(line)
    ]
    found = [(line.number, line.text) for line in compiled.matching_lines(text, unchecked)]
    assert found == wanted


def test_a_pattern_that_runs_over_line_ends_for_too_long_is_matched_line_by_line() -> None:
    """Such a pattern is slow on the text as a whole, and quick on each line."""
    text = "a\n" * 60_000 + "needle b\n"
    compiled = LinePattern.compile(r"([^x]|[^y])*b", ignore_case=False)
    assert [line.number for line in compiled.matching_lines(text, unchecked)] == [60_001]


def test_a_line_that_takes_too_long_is_named() -> None:
    """The search ends there."""
    compiled = LinePattern.compile("(a|aa)+$", ignore_case=False)
    with pytest.raises(SlowPatternError) as slow:
        list(compiled.matching_lines("x\n" + "a" * 100 + "b", unchecked))
    assert slow.value.line == 2
