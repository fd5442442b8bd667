"""The terminal of a running command: what it shows, and how much (spec sections 5 and 7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from term2_acp.eventlog import Event, TerminalExited, TerminalOutput
from term2_acp.redaction import RedactedStream, Redactor

HEAD_BYTES = 1024 * 1024
"""So much of a command's output is shown as it comes."""
TAIL_BYTES = 256 * 1024
"""So much of the end is shown when the command is over, if there was more."""
# The kept end may begin inside a secret: it starts behind a line break near its beginning.
_LONGEST_LINE_START = 8 * 1024


class LiveTerminal:
    """
    Turns output into events; what is beyond the bounds is counted, not kept.

    Past the head a piece costs next to nothing, so that a command that prints without
    end is still held to its time-out. Used by the one thread that runs the command.
    """

    def __init__(self, terminal_id: str, emit: Callable[[Event], None], redactor: Redactor) -> None:
        self.terminal_id = terminal_id
        self._redactor = redactor
        self._redacted = RedactedStream(redactor)
        self._emit = emit
        self._shown = 0
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._omitted = 0

    def output(self, data: bytes) -> bytes:
        """Show bytes, or keep them for the end; returns what was shown, without credentials."""
        if self._shown >= HEAD_BYTES:
            self._keep(data)
            return b""
        shown = self._redacted.feed(data)
        self._show(shown)
        if self._shown >= HEAD_BYTES:
            # What waits may be half a credential; it goes with what is left out.
            self._omitted += self._redacted.waiting
        return shown

    def finish(self) -> bytes:
        """Show what waited for the end, and return it."""
        shown = self._redacted.finish() if self._shown < HEAD_BYTES else self._end()
        self._show(shown)
        return shown

    def exited(self, exit_code: int | None, signal: str | None) -> None:
        """Mark the terminal as ended."""
        self._emit(TerminalExited(self.terminal_id, exit_code, signal))

    def _show(self, data: bytes) -> None:
        if data:
            self._shown += len(data)
            self._emit(TerminalOutput(self.terminal_id, data))

    def _keep(self, data: bytes) -> None:
        self._tail.append(data)
        self._tail_bytes += len(data)
        while self._tail_bytes - len(self._tail[0]) >= TAIL_BYTES:
            dropped = len(self._tail.popleft())
            self._tail_bytes -= dropped
            self._omitted += dropped

    def _end(self) -> bytes:
        tail = b"".join(self._tail)
        if self._omitted:
            start = tail.find(b"\n", 0, _LONGEST_LINE_START) + 1 or min(
                len(tail), _LONGEST_LINE_START
            )
            self._omitted += start
            tail = tail[start:]
        stream = RedactedStream(self._redactor)
        shown = stream.feed(tail) + stream.finish()
        if not self._omitted:
            return shown
        return f"\r\n[... {self._omitted} bytes omitted ...]\r\n".encode() + shown
