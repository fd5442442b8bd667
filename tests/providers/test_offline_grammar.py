"""The grammar of the offline model's directives (spec section 2)."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from term2_acp.providers.offline_directives import (
    USAGES,
    Code,
    Create,
    Directive,
    Fail,
    Grep,
    Malformed,
    Plan,
    Read,
    Replace,
    Say,
    Shell,
    Sleep,
    Think,
    Unknown,
)
from term2_acp.providers.offline_grammar import parse_directives

ANY_TEXT = st.text(st.characters())
"""Any code points, lone surrogates too."""

ONE_LINE = st.text(st.characters(exclude_characters="\n"))

DIRECTIVE_LIKE = st.lists(
    st.one_of(
        st.builds(
            "/{}{}{}".format,
            st.sampled_from([*USAGES, "unknown"]),
            st.sampled_from(["", " ", "\t", "  "]),
            st.one_of(
                ONE_LINE,
                st.sampled_from(["a <<b", "a <<END", "<<END", '"a b" c => d', '"a', "nan", "-1"]),
            ),
        ),
        st.sampled_from(["END", "END\r", "", "prose"]),
    )
).map("\n".join)


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/read a.txt", Read("a.txt")),
        ('/read "a b.txt"', Read("a b.txt")),
        ("/read   a.txt  ", Read("a.txt")),
        ("/grep def .*\\n$", Grep("def .*\\n$")),
        ("/create a.txt <<one\\ntwo\\tthree\\\\n", Create("a.txt", "one\ntwo\tthree\\n")),
        ('/create "a b" <<x', Create("a b", "x")),
        ("/create a.txt <<", Create("a.txt", "")),
        ("/create a.txt <<see <<END", Create("a.txt", "see <<END")),
        ("/create a.txt <<\\q \\", Create("a.txt", "\\q \\")),
        ("/replace a.txt old => new", Replace("a.txt", "old", "new")),
        ("/replace a.txt a => b => c", Replace("a.txt", "a", "b => c")),
        ("/replace a.txt   indented\\n => ", Replace("a.txt", "  indented\n", "")),
        ('/replace "a b" x => y', Replace("a b", "x", "y")),
        ("/shell printf 'a\\nb' | wc -l", Shell("printf 'a\\nb' | wc -l")),
        ("/code print(1)\\nprint(2)", Code("print(1)\nprint(2)")),
        ("/plan read; ; write ;", Plan(("read", "write"))),
        ("/think hm", Think("hm")),
        ("/say two  words\\nand a line", Say("two  words\nand a line")),
        ("/sleep 0.5", Sleep(0.5)),
        ("/sleep .5", Sleep(0.5)),
        ("/sleep 2", Sleep(2)),
        ("/fail", Fail()),
        ("/unknown", Unknown("unknown")),
        ("/Read a.txt", Unknown("Read")),
        ("/un-known_1 x", Unknown("un-known_1")),
    ],
)
def test_a_line_becomes_its_directive(line: str, expected: Directive) -> None:
    """Every form of the grammar is read as the specification says."""
    assert (expected,) == parse_directives(line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "hello",
        " /say indented",
        "//say",
        "/usr/bin/env is a path",
        "/",
        "/ say",
        "/1st",
        "/say\x0bx",
        "/état",
        "say /say hi",
    ],
)
def test_a_line_of_another_shape_is_no_directive(line: str) -> None:
    """Only a line that begins with `/`, a name and a blank or its end counts."""
    assert parse_directives(line) == ()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("/read", "PATH is missing"),
        ("/read a b", "double quotes"),
        ('/read "a', "double quotes"),
        ('/read ""', "double quotes"),
        ('/read "a"b', "double quotes"),
        ("/grep ", "PATTERN is missing"),
        ("/create", "PATH is missing"),
        ("/create a.txt", "<<TEXT is missing"),
        ("/create <<text", "PATH is one word"),
        ("/create a.txt text", "<<TEXT is missing"),
        ("/create a.txt <<END\nno end", "line END is missing"),
        ("/replace a.txt old=>new", "' => '"),
        ("/replace a.txt  => new", "OLD is missing"),
        ("/shell", "COMMAND is missing"),
        ("/code", "PYTHON is missing"),
        ("/code <<END\nEND", "PYTHON is missing"),
        ("/code <<END\nprint(1)", "line END is missing"),
        ("/plan ; ;", "entries are missing"),
        ("/think", "TEXT is missing"),
        ("/say \t", "TEXT is missing"),
        ("/sleep", "SECONDS"),
        ("/sleep soon", "SECONDS"),
        ("/sleep -1", "SECONDS"),
        ("/sleep nan", "SECONDS"),
        ("/sleep inf", "SECONDS"),
        ("/sleep 1e999", "SECONDS"),
        ("/sleep 86401", "SECONDS"),
        ("/sleep 1_0", "SECONDS"),
        ("/fail now", "no argument"),
    ],
)
def test_a_malformed_directive_says_what_is_wrong(line: str, reason: str) -> None:
    """A known name with a wrong argument is told apart, with the reason."""
    (directive,) = parse_directives(line)
    assert isinstance(directive, Malformed)
    assert reason in directive.reason


def test_a_heredoc_is_taken_literally_up_to_its_end() -> None:
    """The lines between `<<END` and `END` are one text, without escapes or directives."""
    text = "/create a.py <<END\n/say not me\nprint('\\n')\n END\nEND\n/say me"
    expected = (Create("a.py", "/say not me\nprint('\\n')\n END"), Say("me"))
    assert expected == parse_directives(text)


def test_an_empty_heredoc_is_an_empty_text() -> None:
    """`<<END` right before `END` is the same as `<<` alone."""
    assert (Create("a", ""),) == parse_directives("/create a <<END\nEND")


@pytest.mark.parametrize("opening", ["/create", "/create a b <<x", "/write a", "/read a b"])
def test_the_lines_of_a_heredoc_are_never_obeyed(opening: str) -> None:
    """What a line that cannot be obeyed meant to write is not run instead."""
    directives = parse_directives(f"{opening} <<END\n/shell rm -r .\nEND\n/say after")
    assert isinstance(directives[0], Unknown | Malformed)
    assert (Say("after"),) == directives[1:]


def test_a_heredoc_without_end_hides_what_follows() -> None:
    """Without `END` nobody knows where the text stops, so nothing after it runs."""
    (directive,) = parse_directives("/code <<END\n/shell rm -r .")
    assert isinstance(directive, Malformed)


def test_windows_line_ends_are_no_part_of_a_line() -> None:
    """A directive and `END` may end in CR LF; the text of a heredoc keeps its own."""
    text = "/say hi\r\n/create a <<END\r\none\r\ntwo\r\nEND\r\n/fail\r\n"
    assert (Say("hi"), Create("a", "one\r\ntwo\r"), Fail()) == parse_directives(text)


def test_unusual_separators_do_not_end_a_line() -> None:
    """Only LF ends a line: U+2028, U+0085 and form feeds belong to the text."""
    text = "a\u2028/fail\x85/fail\x0c/fail\r/fail"
    assert (Say(text),) == parse_directives(f"/say {text}")


@settings(deadline=None)
@given(ANY_TEXT | DIRECTIVE_LIKE)
def test_any_text_is_parsed(text: str) -> None:
    """The parser never raises; malformed directives name one that has a usage."""
    for directive in parse_directives(text):
        if isinstance(directive, Malformed):
            assert directive.name in USAGES


@settings(deadline=None)
@given(ANY_TEXT)
def test_escapes_round_trip(text: str) -> None:
    """Any text can be written on one line with the three escapes."""
    if text.endswith("\r"):  # A CR at the end of the line belongs to the line end.
        text += "."
    assume(text.rstrip(" \t") != "END")  # `<<END` opens a heredoc.
    assert (Create("a", text),) == parse_directives(f"/create a <<{escape(text)}")


@settings(deadline=None)
@given(st.lists(ONE_LINE.filter(lambda line: line.removesuffix("\r") != "END")))
def test_heredocs_round_trip(lines: list[str]) -> None:
    """Any lines but `END` come out of a heredoc as they went in."""
    text = "\n".join(lines)
    assert (Create("a", text),) == parse_directives(f"/create a <<END\n{text}\nEND")
