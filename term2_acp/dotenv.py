"""
Secrets in `.env` files: values whose names say so (spec section 7's table: free, redacted).

Lines are judged one by one, whatever is around them, so that a quote which is never closed
hides nothing from the rule; a value in quotes may go on over several lines besides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from term2_acp import strictjson

_NAMES = (".env", ".envrc")
_PREFIX = ".env."
# Also commented out, quoted as in JSON, and as a line of a diff.
_LINE = re.compile(
    r"^(?P<lead>[+ -]?[ \t]*+(?:\#[ \t]*+)?(?:export[ \t]++)?"
    r"(?P<quote>[\"']?)(?P<name>[A-Za-z_][A-Za-z0-9_.-]{0,200}+)(?P=quote)[ \t]*+[=:][ \t]*+)"
    r"(?P<value>[^\r\n]++)",
    re.MULTILINE,
)
_QUOTED = {
    '"': re.compile(r'"((?:[^"\\]|\\.){0,65536}+)"', re.DOTALL),
    "'": re.compile(r"'([^']{0,65536}+)'"),
    "`": re.compile(r"`([^`]{0,65536}+)`"),
}
_COMMENT = re.compile(r"[ \t]\#")


def is_dotenv(path: str) -> bool:
    """Whether a file of this name holds assignments that are redacted."""
    name = os.path.basename(path).casefold()
    return name in _NAMES or name.startswith(_PREFIX)


def names_dotenv(arguments: str) -> bool:
    """Whether a path in the arguments of a call is that of such a file, also by a link."""
    try:
        parsed = strictjson.loads(arguments)
    except ValueError:
        return False
    named = [parsed]
    if isinstance(parsed, dict) and isinstance(parsed.get("operations"), list):
        named += parsed["operations"]
    paths = (item.get("path") for item in named if isinstance(item, dict))
    return any(isinstance(path, str) and is_dotenv(path) for path in paths)


def secret_values(text: str, is_secret: Callable[[str, str], bool]) -> Iterator[tuple[int, int]]:
    """
    Yield where the secret values of a `.env` file are, without their quotes.

    Args:
        text: of the file, or lines of it.
        is_secret: judges a name and its value.
    """
    for line in _LINE.finditer(text):
        start = line.start("value")
        name, value = line["name"], line["value"]
        quoted = _QUOTED[value[0]].match(text, start) if value[0] in _QUOTED else None
        if quoted is not None:
            span = quoted.span(1)
            if "\n" in quoted[1]:
                # The quote may have been closed nowhere: the line counts on its own, too.
                yield from _judged(name, text, start + 1, start + len(value), is_secret)
        else:
            comment = _COMMENT.search(value)
            span = (start, start + (comment.start() if comment else len(value)))
        yield from _judged(name, text, *span, is_secret)


def _judged(
    name: str, text: str, start: int, end: int, is_secret: Callable[[str, str], bool]
) -> Iterator[tuple[int, int]]:
    value = text[start:end]
    if is_secret(name, value):
        stripped = value.strip()
        start += value.index(stripped)
        yield start, start + len(stripped)
