"""
The wire trace: what went over the pipes, for bug reports (`TERM2_TRACE=FILE`).

Imported only where it is asked for. A line is a JSON object: `at` (RFC 3339, UTC), `pid`,
`direction` (`in` from the client, `out` to it), and `message`, or `text` where a line was no
JSON, or `omitted_bytes` where it was too long to keep. `{"lost": N}` stands for lines that
came faster than they could be written, or that the disk had no room for. Secrets are
replaced as in the log (see `redaction`), line by line.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque

import attrs

from term2_acp import strictjson
from term2_acp.append_file import AppendFile
from term2_acp.log_records import utc
from term2_acp.redaction import Redactor
from term2_acp.rpc.framing import MAX_LINE_BYTES

logger = logging.getLogger(__name__)

VARIABLE = "TERM2_TRACE"
IN = "in"
OUT = "out"

_MAX_HELD_BYTES = 8 * 1024 * 1024
_MAX_KEPT_BYTES = 1024 * 1024
# What an entry takes beyond its text, so that many empty lines are bounded too.
_ENTRY_BYTES = 200


@attrs.frozen
class _Entry:
    at: float
    direction: str
    data: bytes
    size: int


class Trace:
    """
    Writes lines to a file on a thread of its own, `term2-trace`.

    `received` and `sent` may be called from any thread and never wait: a slow or full
    disk loses lines, which are counted, and never holds the server up. `stop` ends it.

    Raises:
        OSError: the file cannot be opened for appending, or cannot be made private.
    """

    def __init__(self, path: str, *, max_held_bytes: int = _MAX_HELD_BYTES) -> None:
        self._path = path
        self._file = AppendFile(path, private=True)
        self._max_held_bytes = max_held_bytes
        self._redactor = Redactor()
        self._changed = threading.Condition()
        self._entries: deque[_Entry] = deque()
        self._held = 0
        self._lost = 0
        self._told = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="term2-trace", daemon=True)

    def start(self) -> None:
        """Start the thread; once."""
        self._thread.start()

    def received(self, line: bytes | None) -> None:
        """Note a line of the client; None is one that was longer than any may be."""
        if line is None:
            self._put(IN, b"", MAX_LINE_BYTES + 1)
        else:
            self._put(IN, line, len(line))

    def sent(self, lines: bytes) -> None:
        """Note whole lines to the client, when they begin to be written."""
        for line in lines.split(b"\n"):
            if line:
                self._put(OUT, line, len(line))

    def stop(self, timeout_s: float) -> None:
        """Write what waits, for at most `timeout_s` seconds, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def _put(self, direction: str, data: bytes, size: int) -> None:
        if len(data) > _MAX_KEPT_BYTES:
            data = b""
        entry = _Entry(time.time(), direction, data, size)
        with self._changed:
            if self._closed:
                return
            if self._held + len(data) + _ENTRY_BYTES > self._max_held_bytes:
                self._lost += 1
                return
            self._entries.append(entry)
            self._held += len(data) + _ENTRY_BYTES
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._entries or self._closed)
                if not self._entries:
                    break
                entry = self._entries.popleft()
                self._held -= len(entry.data) + _ENTRY_BYTES
            self._write(entry)
        self._tell_lost()
        self._file.close()

    def _write(self, entry: _Entry) -> None:
        if self._tell_lost() and self._file.append(self._line(entry)):
            return
        with self._changed:
            self._lost += 1
        if not self._told:
            self._told = True
            logger.warning("%s: %s cannot be written; lines of it are lost", VARIABLE, self._path)

    def _tell_lost(self) -> bool:
        """Write how many lines are missing; whether there are none or that worked."""
        with self._changed:
            lost = self._lost
        if not lost:
            return True
        if not self._file.append(
            _encoded({"at": utc(time.time()), "pid": os.getpid(), "lost": lost})
        ):
            return False
        with self._changed:
            self._lost -= lost
        return True

    def _line(self, entry: _Entry) -> bytes:
        line: dict[str, object] = {
            "at": utc(entry.at),
            "pid": os.getpid(),
            "direction": entry.direction,
        }
        if entry.size != len(entry.data):
            line["omitted_bytes"] = entry.size
        else:
            try:
                line["message"] = self._redactor.value(strictjson.loads(entry.data.decode()))
            except (ValueError, RecursionError):
                line["text"] = self._redactor.text(entry.data.decode("utf-8", "backslashreplace"))
        return _encoded(line)


def _encoded(line: dict[str, object]) -> bytes:
    # Only ASCII: an escape is never a line break, and never a lone surrogate.
    return json.dumps(line).encode() + b"\n"
