"""Cursors of the session list: only one of ours, whole and for the same list, is taken."""

from __future__ import annotations

import base64

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from term2_acp.cursors import CursorSeal
from term2_acp.errors import InvalidParamsError

SEAL = CursorSeal(b"k" * 32)
CWDS = st.none() | st.text(st.characters(exclude_categories=[]), max_size=10)
POSITIONS = st.tuples(st.integers(0, 2**62), st.text(max_size=10))


@given(POSITIONS, CWDS)
def test_a_cursor_gives_back_its_position(position, cwd):
    """It is one word of plain ASCII, and outlives the process that made it."""
    cursor = SEAL.seal(position, cwd)
    assert cursor.isascii()
    assert position == CursorSeal(b"k" * 32).open(cursor, cwd)


@given(POSITIONS, CWDS, CWDS)
def test_a_cursor_is_for_one_list(position, cwd, other):
    """A list for another cwd, or for none, is another list."""
    assume(cwd != other)
    with pytest.raises(InvalidParamsError, match="cwd"):
        SEAL.open(SEAL.seal(position, cwd), other)


@given(POSITIONS, CWDS, st.integers(0), st.characters(exclude_categories=[]))
def test_a_changed_cursor_is_refused(position, cwd, place, character):
    """Any other character at any place, also one that base64 reads alike."""
    cursor = SEAL.seal(position, cwd)
    place %= len(cursor)
    changed = cursor[:place] + character + cursor[place + 1 :]
    assume(changed != cursor)
    with pytest.raises(InvalidParamsError, match="cursor"):
        SEAL.open(changed, cwd)


@given(POSITIONS, st.integers(0), st.text(min_size=1, max_size=3))
def test_a_shortened_or_lengthened_cursor_is_refused(position, length, more):
    """Down to the empty one."""
    cursor = SEAL.seal(position, None)
    for changed in (cursor[: length % len(cursor)], cursor + more, more + cursor):
        with pytest.raises(InvalidParamsError, match="cursor"):
            SEAL.open(changed, None)


@given(st.text(st.characters(exclude_categories=[]), max_size=80))
def test_anything_else_is_refused(text):
    """Whatever it is, it is a wrong parameter."""
    with pytest.raises(InvalidParamsError, match="cursor"):
        SEAL.open(text, None)


@given(st.binary(max_size=60))
def test_well_formed_base64_is_not_enough(data):
    """Nobody can make one up."""
    with pytest.raises(InvalidParamsError, match="cursor"):
        SEAL.open(base64.urlsafe_b64encode(data).decode(), None)


def test_a_cursor_of_another_store_is_refused():
    """Each store has a key of its own."""
    with pytest.raises(InvalidParamsError, match="cursor"):
        SEAL.open(CursorSeal(b"other").seal((1, "s"), None), None)
