"""Instants and ages as people write them."""

from __future__ import annotations

import re
import time

_UNITS_S = {"h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_AGE = re.compile(r"([1-9][0-9]{0,5})([hdwy])")


def rfc3339(microseconds: int) -> str:
    """An instant in UTC, as RFC 3339."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:06d}Z"


def local(microseconds: int) -> str:
    """An instant in the user's own time, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(microseconds // 1_000_000))


def age(text: str) -> int:
    """
    Seconds of an age such as 12h, 30d, 8w or 1y.

    Raises:
        ValueError: it is none.
    """
    found = _AGE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return int(found[1]) * _UNITS_S[found[2]]
