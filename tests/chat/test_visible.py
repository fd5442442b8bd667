"""Text of others is harmless on a terminal, whatever is in it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.chat.visible import visible, visible_line, visible_output


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, wide 日本 and joined 👩\u200d💻", "plain, wide 日本 and joined 👩\u200d💻"),
        ("a\tb\nc\r\nd", "a\tb\nc\nd"),
        ("over\rwritten", "over^Mwritten"),
        ("\x1b[2J\x07\x00\x7f", "^[[2J^G^@^?"),
        ("\x9b2J\x85", "<U+009B>2J<U+0085>"),
        ("rm \u202e/ fr-\u2066", "rm <U+202E>/ fr-<U+2066>"),
        ("line\u2028line\u2029", "line<U+2028>line<U+2029>"),
        ("soft\u00adhyphen\u200b", "soft<U+00AD>hyphen<U+200B>"),
        ("tag\U000e0041", "tag<U+E0041>"),
        ("half \ud800", "half \ufffd"),
    ],
)
def test_what_cannot_be_seen_is_shown(text, shown):
    """Lines and tabs stay, everything else that drives or hides is written out."""
    assert shown == visible(text)


@given(st.text(st.characters(), max_size=40))
def test_no_control_character_is_left(text):
    """Neither controls nor format characters, apart from the joiners, nor surrogates."""
    assert not {
        character
        for character in visible_line(text)
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    } - {"\u200c", "\u200d"}


def test_a_line_stays_one():
    """Line ends and tabs of a title do not make another line or column."""
    assert "a^Jb c" == visible_line("a\nb\tc")


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "link"),
        (b"\x1bPq#0\x1b\\after", "after"),
        (b"\x1b(Bcharset\x1b=", "charset"),
        (b"10%\r50%\r100%\nnext\r\n", "100%\nnext\n"),
        (b"done\r", "done"),
        (b"bad \xff utf", "bad \ufffd utf"),
        (b"cut \x1b[3", "cut "),
        (b"bell\x07", "bell^G"),
    ],
)
def test_output_is_shown_without_its_colours(data, shown):
    """Sequences are left out, a line that was written over shows its last state."""
    assert shown == visible_output(data)
