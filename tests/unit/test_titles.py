"""Titles: one line of the first user message, never long, never nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.eventlog import LinkBlock, ResourceBlock, TextBlock
from term2_acp.titles import MAX_TITLE, title_of

TEXTS = st.lists(
    st.one_of(
        st.text(),
        st.sampled_from(
            ["\n", "\r\n", "\u2028", "\u2029", "\u0085", "\x0b", "\x1c", " ", "w" * 99]
        ),
    ),
    max_size=8,
).map("".join)
BLOCKS = st.one_of(
    st.builds(TextBlock, TEXTS),
    st.builds(LinkBlock, TEXTS, TEXTS),
    st.builds(ResourceBlock, TEXTS, TEXTS),
)


@given(st.lists(BLOCKS, max_size=4))
def test_a_title_is_one_short_line(prompt):
    """By every reader's idea of a line, without white space at its ends."""
    title = title_of(prompt)
    assert 0 < len(title) <= MAX_TITLE == 256
    assert [title] == title.splitlines()
    assert title == title.strip()


@given(st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=256))
def test_a_short_first_line_is_the_title(line):
    """Word for word."""
    assert line == title_of([TextBlock(f"\n \n  {line} \nmore")])


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ([TextBlock("Fix  the\tbug\r\nplease")], "Fix the bug"),
        ([TextBlock(" \n"), TextBlock("second")], "second"),
        ([LinkBlock("main.py", "file:///main.py"), TextBlock("explain")], "main.py"),
        ([LinkBlock("", "file:///a"), TextBlock("explain")], "file:///a"),
        ([ResourceBlock("file:///notes.md", "text")], "file:///notes.md"),
        ([TextBlock("")], "Untitled"),
        ([], "Untitled"),
        ([TextBlock("é" * 256)], "é" * 256),
        ([TextBlock("é" * 257)], "é" * 255 + "…"),
        ([TextBlock("a\u2028b\x1cc")], "a b c"),
    ],
)
def test_the_title_is_the_first_thing_that_was_said(prompt, title):
    """Text first come, first served; an attachment has a name."""
    assert title == title_of(prompt)
