"""Lines to JSON values and back; no I/O (spec section 4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import Any, NoReturn

from term2_acp.errors import InvalidRequestError, ParseError
from term2_acp.surrogates import replace_in_value, replace_lone_surrogates

MAX_LINE_BYTES = 32 * 1024 * 1024
"""The longest line that is accepted, without its line feed (spec section 4)."""

# Legal inside a JSON string, yet some clients' line readers split at them.
_LINE_BREAKS_ELSEWHERE = str.maketrans(
    {"\u2028": "\\u2028", "\u2029": "\\u2029", "\u0085": "\\u0085"}
)
_WHITE_SPACE = b" \t\r\n\v\f"
_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class LineTooLong:
    """Stands for a line that was discarded because it passed the limit."""


class LineSplitter:
    r"""
    Cuts a byte stream into lines at `\n` and at nothing else.

    A line over the limit is dropped while it arrives, so at most `limit` bytes are
    held whatever the client sends.
    """

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._held = 0
        self._discarding = False

    def feed(self, data: bytes) -> Iterator[bytes | LineTooLong]:
        """Yield the lines that `data` completes."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._hold(data[start:end])
            yield self._take()
            start = end + 1
        self._hold(data[start:])

    def finish(self) -> Iterator[bytes | LineTooLong]:
        """Yield the last line if it lacked its line feed."""
        if self._pieces or self._discarding:
            yield self._take()

    def _hold(self, piece: bytes) -> None:
        if self._discarding or not piece:
            return
        self._held += len(piece)
        # A carriage return before the line feed is tolerated and does not count.
        if self._held > self._limit + 1:
            self._discarding = True
            self._pieces.clear()
        else:
            self._pieces.append(piece)

    def _take(self) -> bytes | LineTooLong:
        line = b"".join(self._pieces).removesuffix(b"\r")
        too_long = self._discarding or len(line) > self._limit
        self._pieces.clear()
        self._held = 0
        self._discarding = False
        return LineTooLong() if too_long else line


def is_blank(line: bytes) -> bool:
    """Whether a line holds nothing but white space, which is tolerated."""
    return not line.strip(_WHITE_SPACE)


def decode(line: bytes | LineTooLong) -> Any:
    """
    Parse one line.

    Raises:
        ParseError: not UTF-8 or not JSON (NaN and Infinity are not JSON).
        InvalidRequestError: the line was over `MAX_LINE_BYTES`.
    """
    if isinstance(line, LineTooLong):
        message = f"the line is longer than {MAX_LINE_BYTES} bytes and was discarded"
        raise InvalidRequestError(message)
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"parse error: the line is not UTF-8 at byte {error.start}"
        raise ParseError(message) from None
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        # A lone surrogate can only come from an escape, which is rare: look for it first.
        return replace_in_value(value) if "\\ud" in text or "\\uD" in text else value
    except json.JSONDecodeError as error:
        message = f"parse error: the line is not JSON at character {error.pos}"
        raise ParseError(message) from None
    except RecursionError:
        message = "parse error: the JSON is nested too deeply"
        raise ParseError(message) from None
    except ValueError:
        message = "parse error: the line has a number that is too long or not JSON"
        raise ParseError(message) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def encode(value: Any) -> bytes:
    """Serialize a message as one line of UTF-8 that ends in a line feed."""
    try:
        return _to_bytes(_dumps(value)) + b"\n"
    except UnicodeEncodeError:
        return encode(replace_in_value(value))


def encode_string(text: str) -> bytes:
    """Serialize a string as `encode` would inside of a message."""
    try:
        return _to_bytes(encode_basestring(text))
    except UnicodeEncodeError:
        return encode_string(replace_lone_surrogates(text))


def _to_bytes(text: str) -> bytes:
    if not text.isascii():
        text = text.translate(_LINE_BREAKS_ELSEWHERE)
    return text.encode()
