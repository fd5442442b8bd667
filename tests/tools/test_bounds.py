"""How much a tool says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.tools.bounds import (
    OutputBuffer,
    clipped,
    cut_after,
    cut_before,
    integer_text,
    keep_ends,
    safe_line,
    title_line,
)

RUN = r"[A-Za-z0-9_+/=.~-]"


def test_a_title_is_one_bounded_line() -> None:
    """Line breaks, tabs and control characters become blanks, and length is bounded."""
    assert title_line("Run `a\nb\t\x1b[31mc`") == "Run `a b [31mc`"
    for text in ("xy " * 500, "x" * 121, "x" * 5000):
        assert len(title_line(text)) == 120
        assert title_line(text).count("…") == 1
    assert title_line("x" + " " * 5000 + "y") == "x … y"


def test_a_long_title_keeps_both_ends() -> None:
    """The name of a file is at the end of its path, what a command does may be anywhere."""
    title = title_line(f"Create {'very/long/' * 40}name.txt")
    assert title.startswith("Create very/long/")
    assert title.endswith("/name.txt")


def test_a_line_that_is_cut_before_it_is_redacted_is_cut_like_a_result() -> None:
    """One short line, without half of a run of characters."""
    assert safe_line("python: a\n\tb") == "python: a b"
    assert len(safe_line("xy " * 500)) <= 120
    assert safe_line(f"python: {'x' * 500}") == "python: …"


def test_a_text_in_bounds_is_left_alone() -> None:
    """The limit itself is in bounds."""
    assert keep_ends("x" * 50, 50) == "x" * 50


@given(st.lists(st.text(alphabet="ab", max_size=9), min_size=200, max_size=300).map("\n".join))
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


@given(st.text(alphabet="aZ0_+/=.~-  \"'\n(,é", max_size=600), st.integers(0, 600))
def test_a_cut_never_goes_through_what_may_be_a_credential(text: str, position: int) -> None:
    """It goes back (for the front) or on (for the end), and no farther than it must."""
    before, after = cut_before(text, position), cut_after(text, position)
    assert 0 <= before <= min(position, len(text))
    assert min(position, len(text)) <= after <= len(text)
    for cut in (before, after):
        around = text[cut - 1 : cut + 1] if cut else ""
        assert not re.fullmatch(RUN * 2, around)
    spaced = text[:position].rfind(" ") + 1
    assert before >= min(spaced, len(text))


@pytest.mark.parametrize("length", [20, 199, 200, 201, 5000])
def test_a_long_run_of_characters_is_left_out_whole(length: int) -> None:
    """No part of it is shown, wherever the cut falls in it."""
    run = "sk-" + "x" * length
    assert clipped(f"a {run} b", 10) == "a …"
    assert safe_line(f"Run {run}{' end' * 40}").replace(run, "").count("x") == 0
    kept = keep_ends(f"front {run} {'y ' * 100}{run} end", 30)
    assert "x" not in kept
    assert kept.startswith("front ")
    assert kept.endswith(" end")


def test_a_cut_is_made_next_to_a_blank_or_a_quote_where_one_is_near() -> None:
    """A password may hold other characters than a token does."""
    assert clipped('key: "p@ss!w0rd:x&y"', 14) == 'key: "…'


def test_a_huge_integer_is_not_written_out() -> None:
    """Others are."""
    assert integer_text(-(2**33)) == "-8589934592"
    assert integer_text(10**4000) == "an integer of 13288 bits"


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
