"""Glob patterns over path components."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.agent.ports import ToolError
from term2_acp.tools.glob_pattern import GlobPattern

SEGMENTS = st.sampled_from(["**", "*", "a", "b", "a*", "?", "[ab]"])
PATHS = st.lists(st.sampled_from(["a", "b", "ab", "ba"]), min_size=1, max_size=5)


def parse(pattern: str) -> GlobPattern:
    return GlobPattern.parse("pattern", pattern)


def model(pattern: list[str], path: list[str]) -> bool:
    """The same as one regular expression over the whole path."""
    simple = {"*": "[^/]+", "a*": "a[^/]*", "?": "[^/]", "[ab]": "[ab]"}
    expression = "".join(
        "(?:[^/]+/)*" if segment == "**" else simple.get(segment, segment) + "/"
        for segment in pattern
    )
    return re.fullmatch(expression, "/".join(path) + "/") is not None


@given(st.lists(SEGMENTS, min_size=1, max_size=5), PATHS)
def test_a_pattern_matches_as_its_regular_expression_would(
    pattern: list[str], path: list[str]
) -> None:
    """`*` stays within a component, `**` stands for any number of them."""
    assert parse("/".join(pattern)).matches(path) is model(pattern, path)


@given(st.lists(SEGMENTS, min_size=1, max_size=5), PATHS, PATHS)
def test_a_folder_above_a_match_is_never_given_up(
    pattern: list[str], folder: list[str], below: list[str]
) -> None:
    """Leaving folders out saves time and loses nothing."""
    compiled = parse("/".join(pattern))
    if compiled.matches(folder + below):
        assert compiled.may_match_below(folder)


def test_a_folder_that_cannot_lead_to_a_match_is_left_out() -> None:
    """Other folders, and folders too deep."""
    assert not parse("src/*.py").may_match_below(["docs"])
    assert not parse("src/*.py").may_match_below(["src", "deep"])
    assert parse("src/*.py").may_match_below(["src"])


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.{py,pyi}", "a.pyi", True),
        ("{src,test{s,}}/*.py", "test/a.py", True),
        ("{src,test{s,}}/*.py", "docs/a.py", False),
        ("*", ".hidden", True),
        ("*.PY", "a.py", False),
        ("[!a]", "b", True),
        ("[!a]", "a", False),
        ("./src//*.py", "src/a.py", True),
        ("src/**", "src/a/b/c", True),
        ("{a}", "{a}", True),
        ("[", "[", True),
        ("a.c", "abc", False),
    ],
)
def test_patterns_mean_what_a_shell_means(pattern: str, path: str, matches: bool) -> None:
    """Braces, sets, hidden files, and characters that mean nothing here."""
    assert parse(pattern).matches(path.split("/")) is matches


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("", "pattern is empty"),
        ("/etc/*", "is absolute"),
        ("../*", "leaves the folder"),
        ("a/{..,b}/*", "leaves the folder"),
        ("{a,b}" * 10, "more than 64 patterns"),
    ],
)
def test_what_is_no_pattern_below_the_folder_is_refused(pattern: str, told: str) -> None:
    """The error says what would be right."""
    with pytest.raises(ToolError, match=told):
        parse(pattern)


def test_many_wildcards_take_no_exponential_time() -> None:
    """Neither stars within a name nor many `**`."""
    start = time.monotonic()
    assert not parse("*a" * 40 + "b").matches(["a" * 250])
    assert not parse("**/a/" * 40 + "b").matches(["a"] * 120)
    assert time.monotonic() - start < 10
