"""Diagnostics as JSON lines, for machines that collect them."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable

_MAX_TEXT = 4000


class JsonFormatter(logging.Formatter):
    """
    One object a record: `at` (RFC 3339, UTC), `level`, `logger`, `pid`, `thread`, `message`.

    `traceback` is there where there is one. Long texts lose their middle, so that a
    line stays below what is written at once and is always whole JSON. Before that they pass
    `redact`: half a credential is not recognised.
    """

    redact: Callable[[str], str] = str

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        line = {
            "at": utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "thread": record.threadName,
            "message": _shortened(self.redact(record.getMessage())),
        }
        if record.exc_info:
            line["traceback"] = _shortened(self.redact(self.formatException(record.exc_info)))
        return json.dumps(line, ensure_ascii=False)


def utc(seconds: float) -> str:
    """A time since the epoch as RFC 3339 with microseconds."""
    whole = int(seconds)
    microseconds = int((seconds - whole) * 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{microseconds:06d}Z"


def _shortened(text: str) -> str:
    half = len(text)
    shown = text
    # By its size as JSON, where one character may take six bytes.
    while (
        len(json.dumps(shown, ensure_ascii=False).encode("utf-8", "backslashreplace")) > _MAX_TEXT
    ):
        half = min(half // 2, _MAX_TEXT // 2)
        shown = f"{text[:half]} … {text[-half:]}"
    return shown
