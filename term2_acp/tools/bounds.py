"""
Keeping what a tool says to a bounded size: head and tail stay, the cut is stated.

Credentials are looked for after the cut, and half of one is not recognised. So no text is cut
within a run of the characters that credentials are made of.
"""

from __future__ import annotations

import codecs
import re

import attrs

from term2_acp.redaction import CUT, UNBROKEN

RESULT_LIMIT = 60_000
"""The most characters that a tool tells the model."""

LARGEST_FILE = 64 << 20
"""The largest file that is read or edited, in bytes."""

_TITLE_LIMIT = 120
_CONTINUATION = range(0x80, 0xC0)
# How far from where it should be a text is cut rather than next to a blank or a quote.
_FARTHEST = 200
_BREAK = re.compile(r"[\s\"'`]")
_LARGEST_ECHOED = 10**20


def cut_before(text: str, position: int) -> int:
    """
    Return where to end what is kept of the front of `text`: at `position` or before.

    That is next to white space or a quote if there is one within 200 characters, and never
    within a run of letters, digits and `_+/=.~-`: a longer run is left out whole.
    """
    if not 0 < position < len(text):
        return min(max(position, 0), len(text))
    if _BREAK.match(text[position]):
        return position
    start = max(position - _FARTHEST, 0)
    near = [found.end() for found in _BREAK.finditer(text, start, position)]
    if near:
        return near[-1]
    if text[position] not in UNBROKEN:
        return position
    return len(text[:position].rstrip(UNBROKEN))


def cut_after(text: str, position: int) -> int:
    """Return where to begin what is kept of the end of `text`: as `cut_before`, but forward."""
    return len(text) - cut_before(text[::-1], len(text) - position)


def clipped(text: str, limit: int) -> str:
    """Return `text`, or if it is longer than `limit` characters its front and an ellipsis."""
    return text if len(text) <= limit else text[: cut_before(text, limit - 1)] + CUT


def safe_line(text: str) -> str:
    """Return the front of `text` as one short line; cut like everything that is not redacted."""
    return clipped(one_line(clipped(text, 4 * _TITLE_LIMIT)), _TITLE_LIMIT)


def title_line(text: str) -> str:
    """
    Return `text` as a title: one line, free of control characters, at most 120 characters.

    A longer one keeps both ends: the name of a file is at the end of its path. It is cut
    anywhere, so credentials must have been replaced before.
    """
    kept = 4 * _TITLE_LIMIT
    ends = text if len(text) <= 2 * kept else f"{text[:kept]}…{text[-kept:]}"
    line = one_line(ends)
    if len(line) <= _TITLE_LIMIT:
        return line
    return f"{line[: _TITLE_LIMIT * 2 // 3]}…{line[1 - _TITLE_LIMIT // 3 :]}"


def one_line(text: str) -> str:
    """Return `text` as one line in which nothing hides, ends the line or turns the writing."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.split())


def integer_text(value: int) -> str:
    """Return an integer as an error names it: in digits unless there are many."""
    if -_LARGEST_ECHOED < value < _LARGEST_ECHOED:
        return str(value)
    return f"an integer of {value.bit_length()} bits"


@attrs.frozen
class Ends:
    """The two ends of a text that was too long, whole lines where there are any."""

    head: str
    omitted: str
    tail: str


def split_ends(text: str, limit: int = RESULT_LIMIT) -> Ends | None:
    """Return the ends of `text` to keep, two thirds at the front, or None if it is in bounds."""
    if len(text) <= limit:
        return None
    head_size = limit * 2 // 3
    tail_start = len(text) - (limit - head_size)
    # A line break near the cut is where to cut; a long line is cut within.
    cut = text.rfind("\n", head_size // 2, head_size) + 1 or cut_before(text, head_size)
    resume = text.find("\n", tail_start, (tail_start + len(text)) // 2) + 1
    resume = resume or cut_after(text, tail_start)
    return Ends(text[:cut], text[cut:resume], text[resume:])


def keep_ends(text: str, limit: int = RESULT_LIMIT) -> str:
    """Return `text`, or its two ends and a line that says how much is left out."""
    ends = split_ends(text, limit)
    if ends is None:
        return text
    return f"{ends.head}{cut_note(f'{len(ends.omitted)} characters', ends.head)}{ends.tail}"


def cut_note(what: str, before: str) -> str:
    """Return the line that stands for what was left out after `before`."""
    line_break = "" if not before or before.endswith("\n") else "\n"
    return f"{line_break}[… {what} left out …]\n"


@attrs.define
class OutputBuffer:
    """
    The two ends of a byte stream, in bounded memory.

    Args:
        head_limit: bytes to keep of the front.
        tail_limit: bytes to keep of the end.
    """

    head_limit: int
    tail_limit: int
    _head: bytearray = attrs.field(factory=bytearray, init=False)
    _tail: bytearray = attrs.field(factory=bytearray, init=False)
    _total: int = attrs.field(default=0, init=False)

    def append(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self._total += len(data)
        room = self.head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self.tail_limit :]
        if len(self._tail) > 2 * self.tail_limit:
            del self._tail[: -self.tail_limit]

    def text(self) -> str:
        """Return what is kept as text; other than UTF-8 becomes U+FFFD, and a cut is stated."""
        tail = bytes(self._tail[-self.tail_limit :])
        omitted = self._total - len(self._head) - len(tail)
        if not omitted:
            return (bytes(self._head) + tail).decode(errors="replace")
        # A character that the cut goes through is left out whole.
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))
        lead = next((i for i, byte in enumerate(tail[:4]) if byte not in _CONTINUATION), 0)
        rest = tail[lead:].decode(errors="replace")
        return f"{head}{cut_note(f'{omitted + lead} bytes', head)}{rest}"
