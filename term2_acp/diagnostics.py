"""Diagnostics on stderr and in a file, that never hold the program up (spec sections 1 and 3)."""

from __future__ import annotations

import logging
import os
import select
from collections.abc import Callable, Mapping

from term2_acp.append_file import AppendFile
from term2_acp.log_records import JsonFormatter

LEVELS = ("debug", "info", "warning", "error", "critical")
LEVEL = "TERM2_LOG"
FORMAT = "TERM2_LOG_FORMAT"
FILE = "TERM2_LOG_FILE"
FORMATS = ("text", "json")

# A pipe that polls as writable takes so much without blocking.
_PIECE_BYTES = getattr(select, "PIPE_BUF", 512)
_MAX_RECORD_BYTES = 16 * 1024
_STDERR = 2
_ON_STDERR = "term2: %(levelname)s: %(message)s"
# A file is read later, and may be that of several processes.
_IN_FILE = "%(asctime)s %(process)d %(threadName)s %(levelname)s %(name)s: %(message)s"

logger = logging.getLogger(__name__)


def set_up(environment: Mapping[str, str]) -> None:
    """
    Send the records of `logging` where the environment asks for; called once.

    What is wrong with a variable is told on stderr, and its default holds.
    """
    level, kind, path, problems = read(environment)
    formatters = [logging.Formatter(_ON_STDERR), logging.Formatter(_IN_FILE)]
    if kind == "json":
        formatters = [JsonFormatter(), JsonFormatter()]
    handlers: list[logging.Handler] = [StderrHandler()]
    if path:
        try:
            handlers.append(FileHandler(path))
        except OSError as error:
            problems.append(f"{FILE}: {path} cannot be written ({error.strerror}); no log is kept")
    for handler, formatter in zip(handlers, formatters, strict=False):
        handler.setFormatter(formatter)
    logging.basicConfig(handlers=handlers, level=level.upper())
    # A broken stderr must not take the server down or fill it with tracebacks.
    logging.raiseExceptions = False
    for problem in problems:
        logger.warning(problem)


def read(environment: Mapping[str, str]) -> tuple[str, str, str, list[str]]:
    """The level, the format, the file (empty for none), and what is wrong with them."""
    problems = []
    chosen = []
    for name, words, default in ((LEVEL, LEVELS, "warning"), (FORMAT, FORMATS, "text")):
        word = environment.get(name) or default
        if word.lower() not in words:
            problems.append(f"{name} must be one of {', '.join(words)}, not {word!r}")
            word = default
        chosen.append(word.lower())
    return chosen[0], chosen[1], environment.get(FILE, ""), problems


def redact_by(redact: Callable[[str], str]) -> None:
    """
    Let everything that is written from now on pass `redact` (spec section 7).

    Handed in once the core is loaded: what is written before comes from no tool and no model.
    """
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _Handler):
            handler.redact = redact
            if isinstance(handler.formatter, JsonFormatter):
                handler.formatter.redact = redact


class _Handler(logging.Handler):
    """Writes what can be written now; the rest is dropped and counted, and the count is told."""

    def __init__(self) -> None:
        super().__init__()
        self._dropped = 0
        self.redact: Callable[[str], str] = str

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it; called by `logging` under the handler's lock."""
        if self._dropped and self._write(self._encoded(self._lost())):
            self._dropped = 0
        # In order: while the count cannot be told, nothing after it can.
        if self._dropped or not self._write(self._encoded(record)):
            self._dropped += 1

    def _lost(self) -> logging.LogRecord:
        text = f"{self._dropped} messages could not be written and are lost"
        return logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, None, None)

    def _encoded(self, record: logging.LogRecord) -> bytes:
        try:
            text = self.redact(self.format(record))
        except Exception:  # noqa: BLE001  a wrong log call must not stop what it tells about
            text = f"term2: {record.levelname}: {record.msg!r} could not be formatted"
        return text.encode("utf-8", "backslashreplace")[:_MAX_RECORD_BYTES] + b"\n"

    def _write(self, data: bytes) -> bool:
        raise NotImplementedError


class StderrHandler(_Handler):
    """
    Writes records to fd 2 while somebody reads it.

    An editor that does not drain stderr must not stop the server.
    """

    def __init__(self) -> None:
        super().__init__()
        self._poll = select.poll()
        self._poll.register(_STDERR, select.POLLOUT)

    def _write(self, data: bytes) -> bool:
        while data:
            ready = self._poll.poll(0)
            if not ready or not ready[0][1] & select.POLLOUT:
                return False
            try:
                written = os.write(_STDERR, data[:_PIECE_BYTES])
            except OSError:
                return False
            data = data[written:]
        return True


class FileHandler(_Handler):
    """
    Appends records to a regular file; a full disk loses them, and they are counted.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._file = AppendFile(path)
        super().__init__()

    def _write(self, data: bytes) -> bool:
        return self._file.append(data)
