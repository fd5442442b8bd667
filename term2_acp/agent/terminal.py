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


class LiveTerminal:
    """
    Turns output into events; what is beyond the bounds is counted, not kept.

    Used by the one thread that runs the command.
    """

    def __init__(self, terminal_id: str, emit: Callable[[Event], None], redactor: Redactor) -> None:
        self.terminal_id = terminal_id
        self._redacted = RedactedStream(redactor)
        self._emit = emit
        self._shown = 0
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._omitted = 0

    def output(self, data: bytes) -> bytes:
        """Show bytes, or keep them for the end; returns them without credentials."""
        shown = self._redacted.feed(data)
        self._show(shown)
        return shown

    def finish(self) -> bytes:
        """Show what may have been the beginning of a credential and was none."""
        shown = self._redacted.finish()
        self._show(shown)
        return shown

    def _show(self, data: bytes) -> None:
        head = data[: max(HEAD_BYTES - self._shown, 0)]
        if head:
            self._shown += len(head)
            self._emit(TerminalOutput(self.terminal_id, head))
        rest = data[len(head) :]
        if rest:
            self._tail.append(rest)
            self._tail_bytes += len(rest)
        while self._tail and self._tail_bytes - len(self._tail[0]) >= TAIL_BYTES:
            dropped = len(self._tail.popleft())
            self._tail_bytes -= dropped
            self._omitted += dropped

    def exited(self, exit_code: int | None, signal: str | None) -> None:
        """Show the kept end and mark the terminal as ended."""
        if self._tail:
            mark = f"\r\n[... {self._omitted} bytes omitted ...]\r\n".encode()
            tail = b"".join(self._tail)
            self._emit(TerminalOutput(self.terminal_id, mark + tail if self._omitted else tail))
            self._tail.clear()
        self._emit(TerminalExited(self.terminal_id, exit_code, signal))
