"""
What an edit should make of a file, worked out the slow and plain way.

Written from the specification and the documentation of the tools, not from their code: every
line is taken apart with its ending, every place is tried, every order of places is tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import attrs

VALID_SEQUENCE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}"
)


class Refused(Exception):
    """The edit must fail and leave the file alone."""


@attrs.frozen
class Stored:
    """A text and how the file stores it."""

    text: str
    bom: bytes
    codec: str
    errors: str

    @classmethod
    def of(cls, data: bytes) -> Stored:
        """Read the bytes of a file."""
        for bom, codec in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
            if data.startswith(bom):
                return cls(data[2:].decode(codec), bom, codec, "strict")
        bom = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
        body = data[len(bom) :]
        try:
            return cls(body.decode("utf-8"), bom, "utf-8", "strict")
        except UnicodeDecodeError:
            if bom or VALID_SEQUENCE.search(body):
                text = body.decode("utf-8", "surrogateescape")
                return cls(text, bom, "utf-8", "surrogateescape")
        return cls(body.decode("cp1252"), b"", "cp1252", "strict")

    def bytes_with(self, text: str) -> bytes:
        """The bytes of the file with another text."""
        try:
            return self.bom + text.encode(self.codec, self.errors)
        except UnicodeEncodeError:
            raise Refused from None


def tokens(text: str) -> list[tuple[str, str]]:
    """Each character as it is compared, and as it is written; a line break is one."""
    if "\n" not in text:
        return [("\n" if char == "\r" else char, char) for char in text]
    found = []
    position = 0
    while position < len(text):
        size = 2 if text[position : position + 2] == "\r\n" else 1
        raw = text[position : position + size]
        found.append(("\n" if raw == "\r\n" else raw, raw))
        position += size
    return found


def compared(piece: str, text: str) -> str:
    """A piece that somebody wrote, as it is compared with the text."""
    piece = piece.replace("\r\n", "\n")
    return piece.replace("\r", "\n") if "\n" not in text and "\r" in text else piece


def replaced(text: str, search: str, replacement: str, *, everywhere: bool) -> str:
    """
    The text after one replacement.

    Raises:
        Refused: the search text is not there, or not only once.
    """
    chars = tokens(text)
    have = "".join(char for char, _ in chars)
    wanted, new = compared(search, text), compared(replacement, text)
    places = [at for at in range(len(have)) if have[at : at + len(wanted)] == wanted]
    if not places or (len(places) > 1 and not everywhere):
        raise Refused
    written = []
    at = 0
    while at < len(chars):
        if at in places:
            written.append(_put(chars, at, at + len(wanted), new))
            at += len(wanted)
        else:
            written.append(chars[at][1])
            at += 1
    return "".join(written)


def _put(chars: list[tuple[str, str]], start: int, end: int, new: str) -> str:
    """New characters for old ones: what is the same stays, line breaks are as they were."""
    old = [char for char, _ in chars[start:end]]
    front = 0
    while front < min(len(old), len(new)) and old[front] == new[front]:
        front += 1
    back = 0
    while back < min(len(old), len(new)) - front and old[-1 - back] == new[-1 - back]:
        back += 1
    first, last = start + front, end - back
    breaks = [raw for char, raw in chars[first:last] if char == "\n"]
    after = [raw for char, raw in chars[first:] if char == "\n"]
    before = [raw for char, raw in chars if char == "\n"]
    style = (after or before[-1:] or ["\n"])[0]
    written = [raw for _, raw in chars[start:first]]
    for char in new[front : len(new) - back]:
        if char == "\n":
            style = breaks.pop(0) if breaks else style
            written.append(style)
        else:
            written.append(char)
    return "".join([*written, *(raw for _, raw in chars[last:end])])


@attrs.frozen
class ModelHunk:
    """A hunk: its lines as (mark, text), the right line if its header has one, its marker."""

    lines: tuple[tuple[str, str], ...]
    start: int | None = None
    at_end: bool = False
    final_newline: bool | None = None

    @property
    def old(self) -> list[str]:
        """The lines that must be there."""
        return [text for mark, text in self.lines if mark != "+"]


def lines_of(text: str) -> list[tuple[str, str]]:
    """Each line and how it ends."""
    found = [("", "")]
    for char, raw in tokens(text):
        if char == "\n":
            found[-1] = (found[-1][0], raw)
            found.append(("", ""))
        else:
            found[-1] = (found[-1][0] + raw, "")
    return found if found[-1][0] else found[:-1]


def patched(text: str, hunks: Sequence[ModelHunk]) -> str:
    """
    The text after a patch.

    Raises:
        Refused: a hunk fits nowhere, or the hunks fit in more than one way.
    """
    lines = lines_of(text)
    candidates = [_candidates(lines, hunk) for hunk in hunks]
    used = _used(hunks, candidates)
    named = [
        {hunk.start - 1} if hunk.start is not None and hunk.start - 1 in places else places
        for hunk, places in zip(hunks, used, strict=True)
    ]
    used = _used(hunks, named)
    if any(len(places) != 1 for places in used):
        raise Refused
    return _rewritten(lines, hunks, [min(places) for places in used])


def _candidates(lines: list[tuple[str, str]], hunk: ModelHunk) -> set[int]:
    texts = [text for text, _ in lines]
    size = len(hunk.old)
    if not size:
        return set() if lines else {0}
    return {
        at
        for at in range(len(texts) - size + 1)
        if texts[at : at + size] == hunk.old and (not hunk.at_end or at + size == len(texts))
    }


def _used(hunks: Sequence[ModelHunk], candidates: Sequence[set[int]]) -> list[set[int]]:
    """The places of each hunk over every way to place all of them in order."""
    used: list[set[int]] = [set() for _ in hunks]
    for way in _ways(hunks, candidates, 0):
        for places, at in zip(used, way, strict=True):
            places.add(at)
    if hunks and not used[0]:
        raise Refused
    return used


def _ways(
    hunks: Sequence[ModelHunk], candidates: Sequence[set[int]], floor: int
) -> Iterator[tuple[int, ...]]:
    if not hunks:
        yield ()
        return
    for at in candidates[0]:
        if at >= floor:
            for rest in _ways(hunks[1:], candidates[1:], at + len(hunks[0].old)):
                yield (at, *rest)


def _rewritten(
    lines: list[tuple[str, str]], hunks: Sequence[ModelHunk], places: Sequence[int]
) -> str:
    new: list[tuple[str, str]] = []
    done = 0
    for hunk, at in zip(hunks, places, strict=True):
        new += lines[done:at]
        done = at
        group: list[tuple[str, str]] = []
        for mark, text in [*hunk.lines, (" end", "")]:
            if mark in "+-":
                group.append((mark, text))
                continue
            removed = sum(kind == "-" for kind, _ in group)
            new += _added(lines, done, removed, [text for kind, text in group if kind == "+"])
            done += removed
            group = []
            if mark == " ":
                new.append(lines[done])
                done += 1
    new += lines[done:]
    any_break = next((ending for _, ending in reversed(lines) if ending), "\n")
    new = [(text, ending or any_break) for text, ending in new]
    wanted = hunks[-1].final_newline
    ends = wanted if wanted is not None else not lines or bool(lines[-1][1])
    if new and not ends:
        new[-1] = (new[-1][0], "")
    return "".join(text + ending for text, ending in new)


def _added(
    lines: list[tuple[str, str]], at: int, removed: int, texts: list[str]
) -> list[tuple[str, str]]:
    """New lines in the place of some old ones, or before the line at an index."""
    old = [ending for _, ending in lines[at : at + removed]]
    around = [ending for _, ending in lines[at + removed :][:1] if ending]
    around += [ending for _, ending in reversed(lines[: at + removed]) if ending]
    style = next((ending for ending in old if ending), "") or (around or ["\n"])[0]
    new = []
    for index, text in enumerate(texts):
        style = (old[index] if index < len(old) else "") or style
        new.append((text, style))
    return new
