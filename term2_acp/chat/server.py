"""The server as a subprocess: started, read, written to, ended and reaped."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, cast

from term2_acp.chat.diagnostics import MAX_LINE, Diagnostics
from term2_acp.chat.faults import ServerFaultError
from term2_acp.chat.inbox import Ended, Inbox, Received

MAX_LINE_BYTES = 64 * 1024 * 1024
_MAX_QUEUED = 1000
_READ_SIZE = 1 << 16
# The server takes 5 s to end at most; it is given a little more.
_ORDERLY_END_S = 7.0
_TERMINATED_END_S = 2.0
_PUMPS_END_S = 2.0


class Server:
    """
    `term2 acp` in a session of its own, so that the terminal's signals are not for it.

    Three threads, ended by `close`: `chat-reader` gives each line of its output as JSON to
    the inbox, `chat-stderr` its diagnostics, `chat-writer` writes what `send` was given.

    Args:
        argv: the command, see `server_argv`.
        inbox: where messages go; closed by `close`.
        diagnostics: where lines of standard error go.
        ended: called on the reader thread when no more will come.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        inbox: Inbox,
        diagnostics: Diagnostics,
        ended: Callable[[], None],
    ) -> None:
        self._inbox = inbox
        self._diagnostics = diagnostics
        self._ended = ended
        self._outgoing: queue.Queue[bytes | None] = queue.Queue(_MAX_QUEUED)
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._stdin = cast("IO[bytes]", self._process.stdin)
        self._stdout = cast("IO[bytes]", self._process.stdout)
        self._stderr = cast("IO[bytes]", self._process.stderr)
        self._threads = {
            name: threading.Thread(target=target, name=name, daemon=True)
            for name, target in (
                ("chat-reader", self._read),
                ("chat-stderr", self._read_diagnostics),
                ("chat-writer", self._write),
            )
        }
        for thread in self._threads.values():
            thread.start()

    def send(self, message: Mapping[str, Any]) -> None:
        """
        Queue a message; never waits.

        Raises:
            ServerFaultError: the server has not read what was sent before.
        """
        line = json.dumps(message, ensure_ascii=True).encode() + b"\n"
        try:
            self._outgoing.put_nowait(line)
        except queue.Full:
            raise ServerFaultError("the server does not read what it is sent") from None

    def end_status(self, timeout_s: float = _PUMPS_END_S) -> int | None:
        """
        How it ended, once its output has ended: negative for a signal.

        None if it still lives after `timeout_s`.
        """
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
            # Its last words may still be on their way.
            self._threads["chat-stderr"].join(timeout_s)
        return self._process.returncode

    def close(self) -> None:
        """End the server: by the end of its input, else by force; reap it and the threads."""
        with suppress(queue.Full):
            self._outgoing.put_nowait(None)
        # A server that ends on its own still has answers to write, which nobody needs.
        self._inbox.close()
        try:
            self._process.wait(_ORDERLY_END_S)
        except subprocess.TimeoutExpired:
            self._end_by_force()
        for thread in self._threads.values():
            thread.join(_PUMPS_END_S)
        for pipe, owner in ((self._stdout, "chat-reader"), (self._stderr, "chat-stderr")):
            # A pipe that a thread is stuck in cannot be closed; it ends with us.
            if not self._threads[owner].is_alive():
                pipe.close()

    def _end_by_force(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_TERMINATED_END_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _write(self) -> None:
        with suppress(BrokenPipeError):
            while (line := self._outgoing.get()) is not None:
                self._stdin.write(line)
                self._stdin.flush()
        with suppress(BrokenPipeError):
            self._stdin.close()

    def _read(self) -> None:
        fault = None
        while fault is None and (line := self._stdout.readline(MAX_LINE_BYTES)):
            if line.isspace():
                continue
            try:
                self._inbox.put(Received(json.loads(line), len(line)))
            except (ValueError, RecursionError):
                fault = f"the server wrote a line that is not JSON: {line[:80]!r}"
        self._inbox.put(Ended(fault))
        self._ended()
        # What comes after a fault is not understood, but the server must not wait for us.
        while self._stdout.read(_READ_SIZE):
            pass

    def _read_diagnostics(self) -> None:
        while line := self._stderr.readline(4 * MAX_LINE):
            self._diagnostics.add(line.decode("utf-8", "replace").rstrip("\n"))


def server_argv(flags: Mapping[str, str]) -> Sequence[str]:
    """
    The command of the server.

    -P keeps the folder that the user stands in off the module path: it may hold files that
    are named like modules.
    """
    options = [f"{name}={value}" for name, value in flags.items()]
    return [sys.executable, "-P", "-m", "term2_acp", "acp", *options]
