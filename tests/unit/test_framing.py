"""Lines and JSON values: every cutting is the same, limits hold, nothing breaks a line."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.errors import AcpError, InvalidRequestError, ParseError
from term2_acp.rpc.framing import (
    MAX_LINE_BYTES,
    LineSplitter,
    LineTooLong,
    decode,
    encode,
    is_blank,
)

TOO_LONG = "too long"
LIMIT = 8

ANY_CHARACTER = st.characters(exclude_categories=[])
TROUBLE = st.sampled_from(
    ["\u2028", "\u2029", "\u0085", "\x0b", "\x1c", "\r", "\n", "\0", "é", "🙂"]
)
SURROGATE = st.sampled_from(["\ud800", "\udbff", "\udc00", "\udfff", "\ud83d", "\ude00"])
TEXTS = st.lists(st.one_of(ANY_CHARACTER, TROUBLE, SURROGATE), max_size=8).map("".join)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


def split(pieces, limit=MAX_LINE_BYTES):
    """The lines of a stream that arrives in pieces."""
    splitter = LineSplitter(limit)
    lines = [line for piece in pieces for line in splitter.feed(piece)]
    lines += splitter.finish()
    return [TOO_LONG if isinstance(line, LineTooLong) else line for line in lines]


def expected_lines(data, limit):
    """The same by the rule: a line ends at a line feed; one carriage return before it goes."""
    *lines, last = data.split(b"\n")
    lines = [line.removesuffix(b"\r") for line in [*lines, *([last] if last else [])]]
    return [line if len(line) <= limit else TOO_LONG for line in lines]


def cut(data, places):
    """The data in pieces, cut at the given places."""
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(bounds)]


def repaired(value):
    """What a value is on the wire: pairs of surrogates joined, lone ones U+FFFD."""
    if isinstance(value, str):
        joined = re.sub(
            "[\ud800-\udbff][\udc00-\udfff]",
            lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"),
            value,
        )
        return re.sub("[\ud800-\udfff]", "\ufffd", joined)
    if isinstance(value, list):
        return [repaired(item) for item in value]
    if isinstance(value, dict):
        return {repaired(key): repaired(item) for key, item in value.items()}
    return value


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b"\0", "\u2028".encode()])).map(
        b"".join
    ),
    st.lists(st.integers(0, 200), max_size=12),
)
def test_any_cutting_of_a_stream_gives_the_same_lines(data, places):
    """Many reads for a line, many lines in a read: only the line feeds count."""
    assert expected_lines(data, LIMIT) == split(cut(data, places), LIMIT)


@given(st.lists(st.integers(0, LIMIT + 4), max_size=5), st.booleans())
def test_each_line_is_judged_by_its_own_length(lengths, carriage_return):
    """A line over the limit says nothing about those before and after it."""
    end = b"\r\n" if carriage_return else b"\n"
    data = b"".join(b"x" * length + end for length in lengths)
    expected = [b"x" * length if length <= LIMIT else TOO_LONG for length in lengths]
    for size in (1, 3, len(data) or 1):
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        assert expected == split(pieces, LIMIT)


def test_the_limit_is_32_mib_without_the_line_feed():
    """A line of exactly 32 MiB is taken, one byte more is not, and the stream goes on."""
    longest = b"x" * (32 * 1024 * 1024)
    assert [True, TOO_LONG, b"next"] == [
        line if isinstance(line, str) or len(line) < 10 else line == longest
        for line in split([longest, b"\n", longest, b"x\n", b"next\n"])
    ]


def test_a_line_over_the_limit_is_not_held_in_memory():
    """It is dropped while it arrives, whatever comes of it."""
    splitter = LineSplitter(1000)
    tracemalloc.start()
    try:
        for number in range(300):
            assert not list(splitter.feed(bytes([number % 9 + 65]) * 65536))
        held, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 3 * 65536
    assert [LineTooLong, bytes] == [type(line) for line in splitter.feed(b"\nnext\n")]


def test_an_unfinished_line_over_the_limit_is_told_at_the_end():
    """The end of input ends it like a line feed."""
    assert [TOO_LONG] == split([b"x" * (LIMIT + 2)], LIMIT)


def test_a_line_that_was_too_long_is_an_invalid_request():
    """It is answered with -32600, and the limit is named."""
    with pytest.raises(InvalidRequestError, match=str(MAX_LINE_BYTES)) as caught:
        decode(LineTooLong())
    assert caught.value.code == -32600


@pytest.mark.parametrize("line", [b"", b" ", b"\t \r", b"\x0b\x0c"])
def test_white_space_is_a_blank_line(line):
    """Blank lines are tolerated."""
    assert is_blank(line)


@pytest.mark.parametrize("line", [b"0", b" {} ", b"\0", "\u00a0".encode(), "\u2028".encode()])
def test_anything_else_is_no_blank_line(line):
    """Only ASCII white space is nothing."""
    assert not is_blank(line)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[1,]",
        b"{} {}",
        b"{'a':1}",
        b'"\n"',
        b"NaN",
        b'{"a":Infinity}',
        b"[-Infinity]",
        b"\xff",
        b'"\xed\xa0\x80"',
        b"\xef\xbb\xbf{}",
        b"1" * 5000,
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\0",
    ],
)
def test_what_is_not_json_is_a_parse_error(line):
    """Each is -32700 with one line of text, and never another exception."""
    with pytest.raises(ParseError) as caught:
        decode(line)
    assert caught.value.code == -32700
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("depth", [500, 700, 900])
def test_deep_nesting_around_a_surrogate_is_parsed_or_refused(depth):
    """Garbage never ends the server: a value too deep to repair is a parse error at worst."""
    line = b"[" * depth + b'"\\ud800"' + b"]" * depth
    try:
        value = decode(line)
    except AcpError:
        return
    for _ in range(depth):
        (value,) = value
    assert value == "\ufffd"


@settings(deadline=None)
@given(VALUES)
def test_a_message_is_one_line_that_means_the_same(value):
    """One line for every reader of lines, UTF-8, equal to the value but for lone surrogates."""
    line = encode(value)
    text = line.decode("utf-8")
    assert line.endswith(b"\n")
    assert [text[:-1]] == text.splitlines()
    assert repaired(value) == json.loads(line) == decode(line[:-1])


@settings(deadline=None)
@given(VALUES)
def test_escaped_surrogates_come_in_as_replacement_characters(value):
    """What a client escapes is accepted; nothing with a lone surrogate gets any further."""
    decoded = decode(json.dumps(value, ensure_ascii=True).encode())
    assert repaired(value) == decoded
    json.dumps(decoded, ensure_ascii=False).encode()


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\u0085"])
def test_line_ends_of_other_readers_stay_inside_a_line(character):
    """Raw in a string from the client they end nothing, and they come out escaped."""
    line = json.dumps({"text": f"a{character}b"}, ensure_ascii=False).encode()
    assert [line] == split([line + b"\n"])
    assert {"text": f"a{character}b"} == decode(line)
    assert character.encode() not in encode(decode(line))


@given(st.binary(max_size=30))
def test_any_bytes_are_a_value_or_an_error_of_ours(line):
    """Nothing else comes out of the decoder."""
    with contextlib.suppress(AcpError):
        decode(line)
