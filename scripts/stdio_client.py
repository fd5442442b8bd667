"""A small ACP v2 client for the scripts beside it: one server, one thread, stdlib only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

PROJECT = Path(__file__).resolve().parent.parent
LINE_IN_ERROR = 200


class ExchangeError(Exception):
    """The server did not do what the protocol or the script expects."""


def server_argv() -> list[str]:
    """The command that starts this tree's server with the offline model."""
    own = PROJECT / ".venv" / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    return [python, "-m", "term2_acp", "acp", "--provider", "offline"]


def scratch_environment(root: Path) -> dict[str, str]:
    """The caller's environment, with the program's state and configuration below `root`."""
    return {
        **os.environ,
        "XDG_STATE_HOME": str(root / "state"),
        "XDG_CONFIG_HOME": str(root / "config"),
    }


class Client:
    """
    A server as a subprocess in its own process group.

    Use it as a context manager, on one thread: a call reads until its answer is
    there, and records the updates and permission requests that come before it.
    At the deadline the group is killed, which ends any wait.

    Args:
        argv: the command of the server.
        environment: its whole environment.
        deadline_s: seconds for everything.
        stderr: where its diagnostics go.
        show: called with `-->` or `<--` and each line.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        deadline_s: float,
        stderr: IO[bytes] | None = None,
        show: Callable[[str, str], None] = lambda _direction, _line: None,
    ) -> None:
        self.updates: list[dict[str, Any]] = []
        self.permissions: list[dict[str, Any]] = []
        self._show = show
        self._deadline_s = deadline_s
        self._expired = threading.Event()
        self._next_id = 1
        self._process = subprocess.Popen(
            list(argv),
            cwd=PROJECT,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
        self._stdin = cast("IO[bytes]", self._process.stdin)
        self._stdout = cast("IO[bytes]", self._process.stdout)
        self._watchdog = threading.Timer(deadline_s, self._expire)
        self._watchdog.name = "watchdog"
        self._watchdog.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._watchdog.cancel()
        self._watchdog.join()
        self._kill()
        self._process.wait()
        self._stdout.close()
        with suppress(BrokenPipeError):
            self._stdin.close()

    def call(self, method: str, params: dict[str, Any]) -> Any:
        """
        Send a request and read up to its answer.

        Raises:
            ExchangeError: an error response, the end of the stream or the deadline.
        """
        request_id = self._next_id
        self._next_id += 1
        self._send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" not in message and message.get("id") == request_id:
                if "error" in message:
                    raise ExchangeError(f"{method} was refused: {message['error']}")
                return message["result"]

    def read_until_idle(self) -> str:
        """
        Read the rest of a turn; its stop reason.

        Raises:
            ExchangeError: the end of the stream or the deadline.
        """
        while not (self.updates and self.updates[-1].get("state") == "idle"):
            self._receive()
        return str(self.updates[-1].get("stopReason"))

    def spoken_text(self) -> str:
        """What the agent said in the updates so far."""
        return "".join(
            update["content"]["text"]
            for update in self.updates
            if update.get("sessionUpdate") == "agent_message_chunk"
        )

    def close(self) -> int:
        """
        Close the server's stdin, read what it still says, and wait; its exit status.

        Raises:
            ExchangeError: the deadline.
        """
        with suppress(BrokenPipeError):
            self._stdin.close()
        for line in self._stdout:
            self._show("<--", line.decode(errors="replace").rstrip("\n"))
        status = self._process.wait()
        if self._expired.is_set():
            raise ExchangeError(self._deadline_text())
        return status

    def _send(self, message: dict[str, Any]) -> None:
        line = json.dumps(message)
        self._show("-->", line)
        # A server that is gone may have said why: reading finds that, or the end.
        with suppress(BrokenPipeError):
            self._stdin.write(line.encode() + b"\n")
            self._stdin.flush()

    def _receive(self) -> dict[str, Any]:
        line = self._stdout.readline()
        if not line:
            raise ExchangeError(self._end_text())
        self._show("<--", line.decode(errors="replace").rstrip("\n"))
        try:
            message = json.loads(line)
        except ValueError as error:
            raise ExchangeError(f"not JSON: {line[:LINE_IN_ERROR]!r}") from error
        if not isinstance(message, dict):
            raise ExchangeError(f"not a JSON-RPC message: {line[:LINE_IN_ERROR]!r}")
        if message.get("method") == "session/update":
            self.updates.append(message["params"]["update"])
        elif message.get("method") == "session/request_permission":
            self.permissions.append(message["params"])
            self._allow_once(message)
        return message

    def _allow_once(self, request: dict[str, Any]) -> None:
        options = request["params"]["options"]
        chosen = [option["optionId"] for option in options if option["kind"] == "allow_once"]
        if not chosen:
            raise ExchangeError(f"no option allows the call once: {options}")
        outcome = {"outcome": "selected", "optionId": chosen[0]}
        self._send({"jsonrpc": "2.0", "id": request["id"], "result": {"outcome": outcome}})

    def _expire(self) -> None:
        self._expired.set()
        self._kill()

    def _kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def _deadline_text(self) -> str:
        return f"the server was killed at the deadline of {self._deadline_s:g} s"

    def _end_text(self) -> str:
        if self._expired.is_set():
            return self._deadline_text()
        return "the server closed its output"
