"""
Text files byte for byte: decoded for reading, encoded again with nothing else changed.

Every decoding here can be undone exactly, so an edit of some characters changes only the
bytes of those characters, whatever the rest of the file is.
"""

from __future__ import annotations

import codecs
import re

import attrs

from term2_acp.files.errors import FileRefusedError

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
# Escape, backspace and form feed turn up in texts; the other control characters do not.
_CONTROLS = re.compile(rb"[\x01-\x07\x0e-\x1a\x1c-\x1f]")
_NOT_ASCII = bytes(range(0x80, 0x100))


@attrs.frozen
class TextFormat:
    """
    How a file stores its characters.

    Args:
        encoding: the codec's name.
        bom: the byte order mark at the front, empty if there is none.
        errors: the codec's error handler; `surrogateescape` carries single bytes that are
            not UTF-8 through unchanged.
    """

    encoding: str = "utf-8"
    bom: bytes = b""
    errors: str = "strict"

    @property
    def is_utf8_with_bom(self) -> bool:
        """Whether the byte order mark is a character of the text as others read it."""
        return self.bom == codecs.BOM_UTF8

    def encode(self, text: str) -> bytes:
        """
        Return the bytes of a file with this content.

        Raises:
            FileRefusedError: the encoding has no bytes for a character of the text.
        """
        try:
            return self.bom + text.encode(self.encoding, self.errors)
        except UnicodeEncodeError as error:
            char = text[error.start]
            raise FileRefusedError(
                f"it is stored as {self.encoding}, which cannot hold {char!r} (U+{ord(char):04X})"
            ) from error


@attrs.frozen
class TextFile:
    """The characters of a file, without byte order mark, and how they are stored."""

    text: str
    format: TextFormat


def decode_text(data: bytes) -> TextFile:
    """
    Decode a file: UTF-8, UTF-16 by its byte order mark, else a single-byte encoding.

    A file that is UTF-8 but for some bytes keeps those as lone surrogates.

    Raises:
        FileRefusedError: it is binary.
    """
    if data.startswith(_UTF32):
        raise _binary()
    for bom, encoding in _UTF16.items():
        if data.startswith(bom):
            return _decode_utf16(data, TextFormat(encoding, bom))
    if b"\0" in data:
        raise _binary()
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    body = data[len(bom) :]
    try:
        return TextFile(body.decode(), TextFormat(bom=bom))
    except UnicodeDecodeError:
        if _CONTROLS.search(body):
            raise _binary() from None
    return _decode_other(body, bom)


def _decode_utf16(data: bytes, stored: TextFormat) -> TextFile:
    try:
        text = data[len(stored.bom) :].decode(stored.encoding)
    except UnicodeDecodeError:
        raise _binary() from None
    if "\0" in text:
        raise _binary()
    return TextFile(text, stored)


def _decode_other(body: bytes, bom: bytes) -> TextFile:
    valid = len(body.decode(errors="ignore"))
    if bom or valid > len(body.translate(None, _NOT_ASCII)):
        # Some of it is UTF-8, so all of it was meant to be.
        text = body.decode(errors="surrogateescape")
        return TextFile(text, TextFormat(bom=bom, errors="surrogateescape"))
    try:
        return TextFile(body.decode("cp1252"), TextFormat("cp1252"))
    except UnicodeDecodeError:
        return TextFile(body.decode("latin-1"), TextFormat("latin-1"))


def _binary() -> FileRefusedError:
    return FileRefusedError("it is binary")
