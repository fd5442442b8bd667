"""
Credentials in what tools are given and say are not stored or shown (spec section 7).

All of it is linear in the text: it runs on every piece of output, of any size.
"""

from __future__ import annotations

import functools
import json
import os
import re
import string
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from term2_acp import strictjson
from term2_acp.dotenv import is_dotenv, secret_values

MARKER = "[REDACTED]"
MIN_LENGTH = 8
"""Shorter values of secret-looking variables are too common as ordinary text."""
UNBROKEN = string.ascii_letters + string.digits + "_+/=.~-"
"""Credentials are made of these: no text is cut within a run of them (`tools.bounds`)."""
CUT = "…"
"""Stands where the rest of a text was cut off."""

_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_PATH = re.compile(r"(?:~|\.{0,2})/|[A-Za-z]:\\")
_LONGEST_WORD = 20
# Token shapes of well-known services: a fixed beginning, and how it goes on. No boundary
# is asked for before them, since colour codes and escapes stand there.
_SHAPES = {
    "sk-": r"[A-Za-z0-9_-]{20,}+",
    "ghp_": r"[A-Za-z0-9]{30,}+",
    "gho_": r"[A-Za-z0-9]{30,}+",
    "ghu_": r"[A-Za-z0-9]{30,}+",
    "ghs_": r"[A-Za-z0-9]{30,}+",
    "ghr_": r"[A-Za-z0-9]{30,}+",
    "github_pat_": r"[A-Za-z0-9_]{22,}+",
    "glpat-": r"[A-Za-z0-9_-]{20,}+",
    "xoxb-": r"[A-Za-z0-9-]{10,}+",
    "xoxa-": r"[A-Za-z0-9-]{10,}+",
    "xoxp-": r"[A-Za-z0-9-]{10,}+",
    "xoxr-": r"[A-Za-z0-9-]{10,}+",
    "xoxs-": r"[A-Za-z0-9-]{10,}+",
    "AKIA": r"[A-Z0-9]{16}(?![A-Za-z0-9])",
    "ASIA": r"[A-Z0-9]{16}(?![A-Za-z0-9])",
    "AIza": r"[A-Za-z0-9_-]{35}",
    "npm_": r"[A-Za-z0-9]{36}",
    "hf_": r"[A-Za-z0-9]{30,}+",
    "pypi-": r"[A-Za-z0-9_-]{50,}+",
    "rk_live_": r"[A-Za-z0-9]{16,}+",
    "sk_live_": r"[A-Za-z0-9]{16,}+",
    "sk_test_": r"[A-Za-z0-9]{16,}+",
}
_JWT = "eyJ"
_PREFIXES = (*_SHAPES, _JWT)
_TOKENS = {word: re.compile(re.escape(word) + rest) for word, rest in _SHAPES.items()}
_IS_UNBROKEN = re.compile(f"[{re.escape(UNBROKEN)}]*")
_IN_LINE = re.compile(r"[^\r\n]+")
# Names in stylesheets and packages begin like these keys, but are not random.
_JUDGED = "sk-"
_RUN = re.compile(r"[A-Za-z0-9_.-]{24,}+")
_JWT_PART = 8

_KEY_BEGIN = "-----BEGIN "
_KEY_BODY = r"A-Za-z0-9+/=\s\\"
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    rf"(?P<body>(?:\s*[A-Za-z-]{{1,40}}: [^\n]{{0,200}}\n)*+[{_KEY_BODY}]*+)"
    r"(?:-----END [A-Z0-9 ]{0,40}-----)?"
)
_SHORTEST_BODY = 40
_IN_BODY = re.compile(rf"[{_KEY_BODY}]*+")
_OPEN_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,60}(?:-{0,4}\Z|"
    rf"PRIVATE KEY(?: BLOCK)?-----(?:\s*[A-Za-z-]{{1,40}}: [^\n]{{0,200}}\n)*+[{_KEY_BODY}]*+"
    r"(?:-{0,5}\Z|-----E[A-Z0-9 -]{0,50}\Z))"
)
_OPEN_TOKEN = re.compile(rf"(?:{'|'.join(map(re.escape, _PREFIXES))})[A-Za-z0-9_.-]*+\Z")
# So much at the end may be held back; a longer run is no token.
_LONGEST_HELD = 8 * 1024


class Redactor:
    """
    Replaces secrets in text; immutable, so any thread may use it.

    Args:
        environment: variables whose names look like secrets give values to look for.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        found = {value.strip() for name, value in variables.items() if _is_secret(name, value)}
        # As a JSON text and as Python's own messages would have it.
        for escaped in (functools.partial(json.dumps, ensure_ascii=False), repr):
            found |= {escaped(value)[1:-1] for value in set(found)}
        self._set(found)

    def _set(self, values: set[str]) -> None:
        # The longest first: one value may begin with another.
        self._values = tuple(sorted(values, key=len, reverse=True))
        # Those that a cut may go through.
        self._breakable = tuple(v for v in self._values if not _IS_UNBROKEN.fullmatch(v))

    def text(self, text: str) -> str:
        """The text with every secret replaced by `MARKER`."""
        return _replaced(text, list(self._spans(text)))

    def file(self, path: str, text: str) -> str:
        """
        The text of a file without the secrets that a part of it would not show as such.

        These are private keys, secrets of several lines or words, and in a `.env` file the
        values whose names say that they are secret. There are as many lines as before.
        """
        spans = list(_private_keys(text))
        for value in self._breakable:
            spans += _occurrences(text, value)
        if is_dotenv(path):
            spans += secret_values(text, _is_secret)
        lines = (
            (start + line.start(), start + line.end())
            for start, stop in _merged(spans)
            for line in _IN_LINE.finditer(text[start:stop])
        )
        return _replaced(text, list(lines))

    def path(self, path: str, root: str) -> str:
        """An absolute path with every secret in it replaced, but for those of the root itself."""
        if path == root or path.startswith(root.rstrip("/") + "/"):
            return root + self.text(path[len(root) :])
        return self.text(path)

    def value(self, value: Any) -> Any:
        """A JSON value with every secret in its strings replaced, also in what becomes a file."""
        return self._value(value, self.text)

    def _value(self, value: Any, redacted: Callable[[str], str]) -> Any:
        if isinstance(value, str):
            return redacted(value)
        if isinstance(value, list):
            return [self._value(item, redacted) for item in value]
        if isinstance(value, dict):
            path = value.get("path")
            if isinstance(path, str) and is_dotenv(path):
                redacted = self._dotenv_text
            return {self.text(key): self._value(item, redacted) for key, item in value.items()}
        return value

    def _dotenv_text(self, text: str) -> str:
        return self.text(_replaced(text, list(secret_values(text, _is_secret))))

    def arguments(self, arguments: str) -> str:
        """The JSON text of a call's arguments, judged by what it means."""
        try:
            parsed = strictjson.loads(arguments)
            redacted = self.value(parsed)
            # Of a member that comes twice only the last is a value, but both are in the text.
            if redacted == parsed and self.text(arguments) == arguments:
                return arguments
            return json.dumps(redacted, ensure_ascii=False)
        except ValueError:
            return self.text(arguments)

    def held_back(self, text: str) -> int:
        """How many characters at the end may be the beginning of a secret."""
        start = max(len(text) - _LONGEST_HELD, 0)
        tail = text[start:]
        held = max((_overlap(tail, word) for word in (*self._values, *_PREFIXES)), default=0)
        held = max(held, _overlap(tail, _KEY_BEGIN))
        for pattern, hint in ((_OPEN_BLOCK, _KEY_BEGIN), (_OPEN_TOKEN, "")):
            match = pattern.search(tail) if hint in tail else None
            if match:
                held = max(held, len(tail) - match.start())
        # Hold a whole secret rather than cut it in two.
        cut = len(tail) - held
        for begin, end in _merged(list(self._spans(tail))):
            if begin < cut < end:
                cut = begin
        return len(tail) - cut

    def for_bytes(self) -> Redactor:
        """The same for text that is bytes decoded as Latin-1."""
        redactor = Redactor({})
        redactor._set({value.encode().decode("latin-1") for value in self._values})
        return redactor

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        for value in self._values:
            yield from _occurrences(text, value)
        for value in self._breakable:
            yield from _cut_off(text, value)
        yield from _private_keys(text)
        for prefix, shape in _TOKENS.items():
            if prefix in text:
                for match in shape.finditer(text):
                    if prefix != _JUDGED or _is_random(match[0]):
                        yield match.span()
        if _JWT in text:
            yield from _web_tokens(text)


class RedactedStream:
    """
    Redacts bytes as they come, also a secret that is split over two pieces.

    What may be the beginning of a secret waits for the next piece or the end, in
    bounded memory. Used by one thread.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor.for_bytes()
        self._held = ""
        # A private key that is longer than what is held: its rest is dropped.
        self._in_key = False

    def feed(self, data: bytes) -> bytes:
        """Return what can be shown now."""
        # Latin-1 keeps every byte as one character.
        text = self._held + self._skip_key(data.decode("latin-1"))
        keep = len(text) - self._redactor.held_back(text)
        shown, self._held = text[:keep], text[keep:]
        begin = self._held.find(_KEY_BEGIN)
        if begin >= 0 and len(self._held) - begin >= _LONGEST_HELD // 2:
            shown += self._held
            self._held = ""
            self._in_key = True
        return self._redactor.text(shown).encode("latin-1")

    @property
    def waiting(self) -> int:
        """How many bytes wait for what comes next."""
        return len(self._held)

    def finish(self) -> bytes:
        """Return the rest."""
        text, self._held = self._held, ""
        return self._redactor.text(text).encode("latin-1")

    def _skip_key(self, text: str) -> str:
        if not self._in_key:
            return text
        match = _IN_BODY.match(text)
        end = match.end() if match else 0
        self._in_key = end == len(text)
        return text[end:]


def _is_secret(name: str, value: str) -> bool:
    value = value.strip()
    if not _NAME.search(name) or len(value) < MIN_LENGTH:
        return False
    if value.isalpha() and len(value) < _LONGEST_WORD:
        return False
    # Secrets in Base64 may begin with a slash; no folder is named like that.
    return not _PATH.match(value) or any(_is_random(part) for part in value.split("/"))


def _is_random(text: str) -> bool:
    """Whether a long name mixes letters of both cases with digits, as generated keys do."""
    return (
        len(text) >= 16
        and any(character.isdigit() for character in text)
        and any(character.isupper() for character in text)
        and any(character.islower() for character in text)
    )


def _occurrences(text: str, value: str) -> Iterator[tuple[int, int]]:
    start = text.find(value)
    while start >= 0:
        yield start, start + len(value)
        start = text.find(value, start + len(value))


def _cut_off(text: str, value: str) -> Iterator[tuple[int, int]]:
    """Where a text was cut off within the value."""
    at = text.find(CUT)
    while at >= 0:
        length = _overlap(text[max(at - len(value), 0) : at], value)
        if length >= MIN_LENGTH:
            yield at - length, at
        at = text.find(CUT, at + 1)


def _private_keys(text: str) -> Iterator[tuple[int, int]]:
    if _KEY_BEGIN in text:
        for match in _KEY_BLOCK.finditer(text):
            if len(match["body"].strip()) >= _SHORTEST_BODY:
                yield match.span()


def _replaced(text: str, spans: list[tuple[int, int]]) -> str:
    if not spans:
        return text
    parts, end = [], 0
    for start, stop in _merged(spans):
        parts += [text[end:start], MARKER]
        end = stop
    return "".join([*parts, text[end:]])


def _web_tokens(text: str) -> Iterator[tuple[int, int]]:
    """JSON web tokens: three parts with dots between, the first two of JSON objects."""
    for run in _RUN.finditer(text):
        if _JWT not in run[0]:
            continue
        at = run.start()
        parts = run[0].split(".")
        for first, second, third in zip(parts, parts[1:], parts[2:], strict=False):
            begin = first.find(_JWT)
            if (
                begin >= 0
                and len(first) - begin >= _JWT_PART
                and second.startswith(_JWT)
                and len(second) >= _JWT_PART
                and len(third) >= _JWT_PART
            ):
                yield at + begin, at + len(first) + len(second) + len(third) + 2
            at += len(first) + 1


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def _overlap(text: str, secret: str) -> int:
    """The length of the longest end of the text that is a true beginning of the secret."""
    longest = min(len(secret) - 1, len(text))
    for length in range(longest, 0, -1):
        if text.endswith(secret[:length]):
            return length
    return 0
