"""How much a tool says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.tools.bounds import OutputBuffer, keep_ends, title_line


def test_a_title_is_one_bounded_line() -> None:
    """Line breaks, tabs and control characters become blanks, and length is bounded."""
    assert title_line("Run `a\nb\t\x1b[31mc`") == "Run `a b [31mc`"
    long = title_line("x" * 500)
    assert len(long) == 120
    assert long.endswith("…")


def test_a_text_in_bounds_is_left_alone() -> None:
    """The limit itself is in bounds."""
    assert keep_ends("x" * 50, 50) == "x" * 50


@given(st.text(alphabet="ab\n", min_size=200, max_size=2000))
def test_both_ends_stay_and_the_cut_is_stated(text: str) -> None:
    """What is kept is a prefix and a suffix, and the number of characters left out is true."""
    kept = keep_ends(text, 120)
    found = re.search(r"\n?\[… (\d+) characters left out …\]\n", kept)
    assert found
    tail = kept[found.end() :]
    head = text[: len(text) - int(found[1]) - len(tail)]
    assert kept in (
        f"{head}[… {found[1]} characters left out …]\n{tail}",
        f"{head}\n[… {found[1]} characters left out …]\n{tail}",
    )
    assert text.endswith(tail)
    assert len(tail) <= 40
    assert len(head) <= 80
    assert head
    assert tail


def test_a_cut_is_made_between_lines_where_there_are_any() -> None:
    """No line is shown in part unless it is very long."""
    lines = [f"line {number}" for number in range(100)]
    kept = keep_ends("\n".join(lines), 120).split("\n")
    shown = [line for line in kept if not line.startswith("[…")]
    assert set(shown) <= set(lines)


@given(st.lists(st.binary(max_size=30), max_size=30))
def test_a_stream_keeps_its_ends_and_counts_the_rest(pieces: list[bytes]) -> None:
    """Whatever the pieces, head and tail are those of the whole stream."""
    buffer = OutputBuffer(head_limit=16, tail_limit=8)
    for piece in pieces:
        buffer.append(piece)
    whole = b"".join(pieces)
    if len(whole) <= 24:
        assert buffer.text() == whole.decode(errors="replace")
    else:
        assert re.search(
            rf"\[… ({len(whole) - 24}|{len(whole) - 23}|{len(whole) - 22}"
            rf"|{len(whole) - 21}) bytes left out …\]\n",
            buffer.text(),
        )


def test_a_long_stream_takes_bounded_memory() -> None:
    """What is held does not grow with what passes through."""
    buffer = OutputBuffer(head_limit=1000, tail_limit=1000)
    for _ in range(1000):
        buffer.append(b"x" * 10_000)
    assert len(buffer.text()) < 2100
    assert "[… 9998000 bytes left out …]" in buffer.text()


@pytest.mark.parametrize("cut", range(4))
def test_a_character_at_the_cut_is_left_out_whole(cut: int) -> None:
    """A cut in the middle of a character shows no replacement character."""
    buffer = OutputBuffer(head_limit=8 + cut, tail_limit=8 + cut)
    buffer.append("😀".encode() * 20)
    assert "\ufffd" not in buffer.text()
    assert buffer.text().count("😀") == 4
