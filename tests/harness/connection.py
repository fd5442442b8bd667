"""
One connection to the real program over pipes, below any method.

Every line that the server writes is judged when it comes (see `record`); a violation
fails the next wait and `close`, so also a test that did not look.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.harness.home import SOURCE, Home
from tests.harness.messages import JsonId, Message, encode, notification
from tests.harness.permissions import Permissions
from tests.harness.process import SERVE, ServerProcess
from tests.harness.record import Expected, Record
from tests.harness.replies import TIMEOUT, Reply


class WireViolation(AssertionError):
    """The server broke the protocol."""


class Connection:
    """
    One connection to one server process.

    Methods may be called from any thread. Those that wait raise `WireViolation` for
    what the server did wrong so far, and `AssertionError` with the last lines of the
    wire when their time is up.
    """

    record_class: type[Record] = Record

    def __init__(
        self,
        home: Home,
        *args: str,
        command: Sequence[str] = SERVE,
        cwd: Path = SOURCE,
        **environment: str,
    ) -> None:
        self.home = home
        self.record = self.record_class()
        self.permissions = Permissions(self)
        # Held around every access to the record; notified after each message.
        self.changed = threading.Condition(threading.RLock())
        self._ids = itertools.count(1)
        self._stdout_ended = False
        self._orderly = True
        self._judged = False
        self.process = ServerProcess(
            home,
            [*command, *args],
            cwd=cwd,
            environment=home.environment(**environment),
            on_line=self._on_line,
            on_end=self._on_end,
            on_stderr=self._on_stderr,
        )

    def send_raw(self, data: bytes) -> None:
        """Write bytes as they are; responses to come are announced by `expect` first."""
        with self.changed:
            self.record.sent(data)
        self.process.write(data)

    def send(self, message: Any) -> None:
        """Write one message as a line."""
        self.send_raw(encode(message))

    def expect(
        self,
        request_id: JsonId,
        method: str = "",
        *,
        session: str | None = None,
        in_batch: bool = False,
    ) -> Reply:
        """Announce that a response will come for what is about to be sent raw."""
        expected = Expected(id=request_id, method=method, session=session, in_batch=in_batch)
        with self.changed:
            self.record.expect(expected)
        return Reply(self, expected)

    def request(
        self, method: str, params: Any = None, *, request_id: JsonId | None = None
    ) -> Reply:
        """Send a request; without `request_id` it gets a new number."""
        reply, message = self.prepare(method, params, request_id=request_id)
        self.send(message)
        return reply

    def prepare(
        self,
        method: str,
        params: Any = None,
        *,
        request_id: JsonId | None = None,
        in_batch: bool = False,
    ) -> tuple[Reply, Message]:
        """Announce a request and give its message, for a test that sends it its own way."""
        number = next(self._ids) if request_id is None else request_id
        message: Message = {"jsonrpc": "2.0", "id": number, "method": method}
        session = None
        if params is not None:
            message["params"] = params
            named = params.get("sessionId") if isinstance(params, dict) else None
            session = named if isinstance(named, str) else None
        return self.expect(number, method, session=session, in_batch=in_batch), message

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.send(notification(method, params))

    def wait_for(self, probe: Callable[[], Any], what: str, timeout: float = TIMEOUT) -> Any:
        """
        Wait until `probe` gives something true; return that.

        It is called after each message and after each piece on standard error.

        Raises:
            WireViolation: the server broke the protocol.
            AssertionError: the time is up, or the server's output ended.
        """
        deadline = time.monotonic() + timeout
        with self.changed:
            while True:
                self._raise_violations()
                if found := probe():
                    return found
                left = deadline - time.monotonic()
                if self._stdout_ended:
                    raise AssertionError(self._report(f"stdout ended before {what}"))
                if left <= 0:
                    raise AssertionError(self._report(f"no {what} within {timeout} s"))
                self.changed.wait(left)

    @property
    def stderr(self) -> str:
        """What the server wrote to standard error so far."""
        return self.process.stderr

    def eof(self) -> None:
        """End the server's standard input."""
        self.record.note("-> end of stdin")
        self.process.close_stdin()

    def kill(self) -> None:
        """Kill the server (SIGKILL)."""
        self._orderly = False
        self.process.popen.kill()

    def break_stdout(self) -> None:
        """Close our end of the server's output."""
        self._orderly = False
        self.process.break_stdout()

    def expect_disorder(self) -> None:
        """Say that the server will not get to answer everything (a second signal)."""
        self._orderly = False

    def wait_exit(self, timeout: float = 10.0) -> int:
        """Wait for the end of the server; its exit status."""
        return self.process.wait_exit(timeout)

    @property
    def healthy(self) -> bool:
        """Whether the connection can be used on."""
        with self.changed:
            return not (
                self.record.violations
                or self._stdout_ended
                or self.process.popen.poll() is not None
            )

    def close(self, timeout: float = 10.0) -> None:
        """
        End the connection, wait for the server and judge how it ended.

        Raises:
            WireViolation: something was wrong, now or at any time before.
        """
        if self._judged:
            return
        self._judged = True
        try:
            self.process.close_stdin()
            status = self.process.wait_exit(timeout)
            with self.changed:
                if self._orderly:
                    self.record.judge_end()
                    if status != 0:
                        self.record.violations.append(f"exit status {status}")
                if "Traceback" in self.stderr:
                    self.record.violations.append("a traceback on stderr")
                self._raise_violations()
        finally:
            self.process.dispose()

    def _on_line(self, line: bytes) -> None:
        with self.changed:
            asked = self.record.received(line)
            for request in asked:
                self.permissions.received(request)
            self.changed.notify_all()

    def _on_end(self, rest: bytes) -> None:
        with self.changed:
            self.record.ended(rest)
            self._stdout_ended = True
            self.changed.notify_all()

    def _on_stderr(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def _raise_violations(self) -> None:
        if self.record.violations:
            raise WireViolation(self._report("; ".join(self.record.violations)))

    def _report(self, headline: str) -> str:
        stderr = "\n".join(self.stderr.splitlines()[-40:])
        return f"{headline}\n--- wire\n{self.record.transcript}\n--- stderr\n{stderr}"
