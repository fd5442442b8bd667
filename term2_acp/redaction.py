"""Credentials in what tools are given and say are not stored or shown (spec section 7)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from term2_acp import strictjson

MARKER = "[REDACTED]"
MIN_LENGTH = 8
"""Shorter values of secret-looking variables are too common as ordinary text."""

_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_PATH = re.compile(r"(~|\.{0,2})/|[A-Za-z]:\\")
# Token shapes of well-known services. Each starts with a fixed text, and goes on in
# letters, digits, `_`, `-` and `.` only, so that the stream knows what to hold back.
_PREFIXES = (
    "sk-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxa-",
    "xoxp-",
    "xoxr-",
    "xoxs-",
    "AKIA",
    "ASIA",
    "AIza",
    "npm_",
    "hf_",
    "pypi-",
    "eyJ",
    "rk_live_",
    "sk_live_",
    "sk_test_",
)
_TOKENS = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"sk-[A-Za-z0-9_-]{20,}"
    r"|gh[pousr]_[A-Za-z0-9]{30,}"
    r"|github_pat_[A-Za-z0-9_]{22,}"
    r"|glpat-[A-Za-z0-9_-]{20,}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|AIza[A-Za-z0-9_-]{35}"
    r"|npm_[A-Za-z0-9]{36}"
    r"|hf_[A-Za-z0-9]{30,}"
    r"|pypi-[A-Za-z0-9_-]{50,}"
    r"|[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    r")"
)
_KEY_BEGIN = "-----BEGIN "
_KEY_BLOCK = re.compile(
    r"-----BEGIN (?P<kind>[A-Z ]*PRIVATE KEY)-----.*?(?:-----END (?P=kind)-----|\Z)", re.DOTALL
)
# A header that is not complete, or a private key without its end.
_OPEN_BLOCK = re.compile(
    r"-----BEGIN (?:[A-Z ]*-{0,4}\Z|[A-Z ]*PRIVATE KEY-----(?:(?!-----END [A-Z ]+-----).)*\Z)",
    re.DOTALL,
)
_OPEN_TOKEN = re.compile(
    rf"(?<![A-Za-z0-9_])(?:{'|'.join(map(re.escape, _PREFIXES))})[A-Za-z0-9_.-]*\Z"
)
# No token is longer; a longer run of such characters is let go.
_LONGEST_HELD = 8 * 1024


class Redactor:
    """
    Replaces secrets in text; immutable, so any thread may use it.

    Args:
        environment: variables whose names look like secrets give values to look for.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        values = {value for name, value in variables.items() if _is_secret(name, value)}
        # The longest first: one value may begin with another.
        self._values = tuple(sorted(values, key=len, reverse=True))
        self._known = (
            re.compile("|".join(re.escape(value) for value in self._values))
            if self._values
            else None
        )

    def text(self, text: str) -> str:
        """The text with every secret replaced by `MARKER`."""
        if self._known is not None:
            text = self._known.sub(MARKER, text)
        if _KEY_BEGIN in text:
            text = _KEY_BLOCK.sub(MARKER, text)
        return _TOKENS.sub(MARKER, text)

    def value(self, value: Any) -> Any:
        """A JSON value with every secret in its strings replaced."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        return value

    def arguments(self, arguments: str) -> str:
        """The JSON text of a call's arguments, judged by what it means."""
        try:
            parsed = strictjson.loads(arguments)
            redacted = self.value(parsed)
            return arguments if redacted == parsed else json.dumps(redacted, ensure_ascii=False)
        except ValueError:
            return self.text(arguments)

    def held_back(self, text: str) -> int:
        """How many characters at the end may be the beginning of a secret."""
        held = max((_overlap(text, value) for value in self._values), default=0)
        block = _OPEN_BLOCK.search(text, max(text.rfind(_KEY_BEGIN), 0))
        if block:
            held = max(held, len(text) - block.start())
        held = max(held, _overlap(text, _KEY_BEGIN))
        token = _OPEN_TOKEN.search(text, max(len(text) - _LONGEST_HELD, 0))
        if token:
            held = max(held, len(text) - token.start())
        held = max(held, *(_starting(text, prefix) for prefix in _PREFIXES))
        return self._before_match(text, min(held, _LONGEST_HELD))

    def _before_match(self, text: str, held: int) -> int:
        """Hold a whole secret rather than cut it in two."""
        patterns = [self._known, _KEY_BLOCK, _TOKENS] if self._known else [_KEY_BLOCK, _TOKENS]
        cut = len(text) - held
        for pattern in (*patterns, *patterns):
            for match in pattern.finditer(text):
                if match.start() < cut < match.end():
                    cut = match.start()
        return len(text) - cut

    def for_bytes(self) -> Redactor:
        """The same for text that is bytes decoded as Latin-1."""
        values = {f"KEY{i}": v.encode().decode("latin-1") for i, v in enumerate(self._values)}
        return Redactor(values)


class RedactedStream:
    """
    Redacts bytes as they come, also a secret that is split over two pieces.

    What may be the beginning of a secret waits for the next piece or the end.
    Used by one thread.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor.for_bytes()
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what can be shown now."""
        # Latin-1 keeps every byte as one character.
        text = (self._held + data).decode("latin-1")
        keep = len(text) - self._redactor.held_back(text)
        self._held = text[keep:].encode("latin-1")
        return self._redactor.text(text[:keep]).encode("latin-1")

    def finish(self) -> bytes:
        """Return the rest."""
        text, self._held = self._held.decode("latin-1"), b""
        return self._redactor.text(text).encode("latin-1")


def _is_secret(name: str, value: str) -> bool:
    if not _NAME.search(name) or len(value) < MIN_LENGTH:
        return False
    return not _PATH.match(value) and not value.isalpha()


def _overlap(text: str, secret: str) -> int:
    """The length of the longest end of the text that is a true beginning of the secret."""
    for length in range(min(len(secret) - 1, len(text)), 0, -1):
        if text.endswith(secret[:length]):
            return length
    return 0


def _starting(text: str, prefix: str) -> int:
    """The overlap with a token's prefix, where a token may begin."""
    length = _overlap(text, prefix)
    before = text[len(text) - length - 1 : len(text) - length]
    return 0 if before.isalnum() or before == "_" else length
