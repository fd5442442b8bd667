"""Lone surrogates become U+FFFD, pairs become their character, wherever they are cut."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from term2_acp.surrogates import SurrogateJoiner, replace_in_value, replace_lone_surrogates

UNITS = st.one_of(
    st.sampled_from(["\ud800", "\ud83d", "\udbff", "\udc00", "\ude00", "\udfff"]),
    st.sampled_from(["a", "é", "\ufffd", "🙂", "\ufeff", "\0"]),
)
PIECES = st.lists(st.lists(UNITS, max_size=5).map("".join), max_size=8)


def repaired(text):
    """The rule, one unit at a time."""
    joined = re.sub(
        "([\ud800-\udbff])([\udc00-\udfff])",
        lambda pair: chr(0x10000 + ((ord(pair[1]) - 0xD800) << 10) + ord(pair[2]) - 0xDC00),
        text,
    )
    return re.sub("[\ud800-\udfff]", "\ufffd", joined)


@given(PIECES.map("".join))
@example("\ud800\ud83d\ude00\ude00")
def test_pairs_are_joined_and_the_rest_replaced_one_by_one(text):
    """Every lone half is one replacement character; all else stays as it is."""
    assert repaired(text) == replace_lone_surrogates(text)


@given(st.text())
def test_clean_text_stays_the_same(text):
    """The common case costs nothing."""
    assert replace_lone_surrogates(text) is text


@given(PIECES)
def test_a_stream_is_the_same_however_it_is_cut(pieces):
    """A pair that is split over two pieces is one character, as in the whole text."""
    joiner = SurrogateJoiner()
    shown = [joiner.feed(piece) for piece in pieces] + [joiner.finish()]
    assert repaired("".join(pieces)) == "".join(shown)
    "".join(shown).encode()
    for piece in shown:
        piece.encode()


@given(PIECES)
def test_at_most_one_character_is_held_back(pieces):
    """What can be shown is shown at once."""
    joiner = SurrogateJoiner()
    given_so_far = shown = ""
    for piece in pieces:
        given_so_far += piece
        shown += joiner.feed(piece)
        assert len(repaired(given_so_far)) - len(shown) <= 1


def test_a_joiner_can_be_used_again_after_its_end():
    """What was held back is given once."""
    joiner = SurrogateJoiner()
    assert "" == joiner.feed("\ud83d")
    assert "\ufffd" == joiner.finish()
    assert "" == joiner.finish()
    assert "\ufffd" == joiner.feed("\ude00")


def test_every_string_of_a_value_is_repaired():
    """Member names and nested values too; other values are left alone."""
    value = {"a\ud800": ["\udc00", {"b": "\ud83d\ude00"}, 1, None, True, 2.5]}
    assert {"a\ufffd": ["\ufffd", {"b": "😀"}, 1, None, True, 2.5]} == replace_in_value(value)
