"""The lines that a pattern matches, against each line being looked at on its own."""

from __future__ import annotations

import time

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.agent.ports import ToolError
from term2_acp.tools.line_pattern import LinePattern, SlowPatternError

PLAIN = ["a", "A", "b", ".", "^", "$", "(a|b)", "(?:ab)", "[ab]", "[^a]", "[^-a]", r"[^\s]"]
PLAIN += [r"\s", r"\S", r"\W", r"\D", r"\b", "|", r"[\sa]"]
OTHER = ["(?=a)", "(?!b)", "(?<=a)", r"\A", r"\Z", r"\B", r"(a)\1", "a++", "b*+", r"\n", "\n"]
PIECES = st.sampled_from(PLAIN) | st.sampled_from(OTHER)
REPEATED = st.tuples(PIECES, st.sampled_from(["", "", "*", "+", "?", "*?", "{1,2}"])).map("".join)
PATTERNS = st.lists(REPEATED, min_size=1, max_size=4).map("".join)
TEXTS = st.lists(st.sampled_from(["a", "b", " ", "\n", "\r\n", "\r"]), max_size=20).map("".join)


def unchecked() -> None:
    """Stop nothing."""


def lines_of(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


@given(PATTERNS, TEXTS, st.booleans())
def test_a_line_is_found_exactly_if_it_matches_on_its_own(
    pattern: str, text: str, ignore_case: bool
) -> None:
    """Looking through the whole text first loses no line and adds none."""
    try:
        compiled = LinePattern.compile(pattern, ignore_case=ignore_case)
    except ToolError:
        return
    alone = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    wanted = [
        (number, line) for number, line in enumerate(lines_of(text), start=1) if alone.search(line)
    ]
    found = [(line.number, line.text) for line in compiled.matching_lines(text, unchecked)]
    assert found == wanted


def test_a_pattern_that_could_run_over_line_ends_is_quick() -> None:
    """It is kept within each line, so that a long text does not make it slow."""
    text = "a b\n" * 200_000 + "needle\n"
    compiled = LinePattern.compile(r"([^x]|\s)*n\w+", ignore_case=False)
    start = time.monotonic()
    assert [line.number for line in compiled.matching_lines(text, unchecked)] == [200_001]
    assert time.monotonic() - start < 20


def test_a_line_that_takes_too_long_is_named() -> None:
    """The search ends there."""
    compiled = LinePattern.compile("(a|aa)+$", ignore_case=False)
    with pytest.raises(SlowPatternError) as slow:
        list(compiled.matching_lines("x\n" + "a" * 100 + "b", unchecked))
    assert slow.value.line == 2
