"""Text files byte for byte."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.files.errors import FileRefusedError
from term2_acp.files.text import TextFormat, decode_text


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        (b"", "", "utf-8"),
        ("é€😀".encode(), "é€😀", "utf-8"),
        (codecs.BOM_UTF8 + b"const a=1;\n", "const a=1;\n", "utf-8"),
        (codecs.BOM_UTF16_LE + "né\r\n".encode("utf-16-le"), "né\r\n", "utf-16-le"),
        (codecs.BOM_UTF16_BE + "né\r\n".encode("utf-16-be"), "né\r\n", "utf-16-be"),
        (b"x = 1\n// caf\xe9\n", "x = 1\n// café\n", "cp1252"),
        (b"\x93quoted\x94", "“quoted”", "cp1252"),
        (b"caf\xe9 \x81", "café \x81", "latin-1"),
        ("é".encode() + b" caf\xe9", "é caf\udce9", "utf-8"),
    ],
)
def test_encodings_are_told_apart(data: bytes, text: str, encoding: str) -> None:
    """The text is what its author saw, and encodes to the same bytes again."""
    decoded = decode_text(data)
    assert decoded.text == text
    assert decoded.format.encoding == encoding
    assert decoded.format.encode(decoded.text) == data


@pytest.mark.parametrize(
    "data",
    [
        b"text\0text",
        b"\x89PNG\r\n\x1a\n\xff\xd8",
        codecs.BOM_UTF16_LE + b"odd",
        codecs.BOM_UTF16_LE + b"a\0\0\0",
        codecs.BOM_UTF32_LE + "text".encode("utf-32-le"),
        codecs.BOM_UTF32_BE + "text".encode("utf-32-be"),
    ],
    ids=["nul", "png", "odd-utf16", "nul-utf16", "utf32-le", "utf32-be"],
)
def test_binary_is_refused(data: bytes) -> None:
    """What cannot be text is not decoded at all."""
    with pytest.raises(FileRefusedError, match="binary"):
        decode_text(data)


@given(st.binary() | st.text().map(str.encode) | st.text().map(lambda text: text.encode("utf-16")))
def test_whatever_is_decoded_encodes_to_the_same_bytes(data: bytes) -> None:
    """No byte of any file is lost by looking at it as text."""
    try:
        decoded = decode_text(data)
    except FileRefusedError:
        return
    assert decoded.format.encode(decoded.text) == data


def test_a_character_that_the_encoding_lacks_is_named() -> None:
    """The text cannot be written, and the error says why."""
    with pytest.raises(FileRefusedError, match=r"cp1252, which cannot hold '→' \(U\+2192\)"):
        TextFormat("cp1252").encode("a → b")
