"""An agent under measurement: a subprocess that is written to and read from without ceremony."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

READ_BYTES = 1 << 20
IDLE = b'"idle"'


class AgentError(Exception):
    """The agent did not do what the protocol expects."""


class Agent:
    """
    Starts an agent; use it as a context manager, on one thread.

    Args:
        version: the protocol version to ask for.
        deadline_s: the agent is killed after so many seconds, which ends any wait.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        version: int = 2,
        deadline_s: float = 600.0,
    ) -> None:
        self._version = version
        self._next_id = 1
        self._rest = b""
        self._lines: list[bytes] = []
        self._started = time.perf_counter()
        self._process = subprocess.Popen(
            list(argv),
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdin is not None  # noqa: S101 (for the type checker)
        assert self._process.stdout is not None  # noqa: S101
        self._in = self._process.stdin.fileno()
        self._out = self._process.stdout.fileno()
        self._watchdog = threading.Timer(deadline_s, self._kill)
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
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def initialize(self) -> float:
        """Negotiate; the seconds since the process was spawned."""
        params: dict[str, Any] = {"protocolVersion": self._version}
        if self._version == 1:
            params["clientCapabilities"] = {}
        else:
            params["info"] = {"name": "bench", "version": "1"}
        self.call("initialize", params)
        return self.seconds()

    def seconds(self) -> float:
        """Seconds since the process was spawned."""
        return time.perf_counter() - self._started

    def new_session(self, cwd: Path) -> str:
        """A new session's id."""
        params = {"cwd": str(cwd), "mcpServers": []}
        return str(self.call("session/new", params)["sessionId"])

    def call(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request and read up to its answer, past everything else."""
        request_id = self.send(method, params)
        while True:
            message = json.loads(self.read_line())
            if message.get("id") == request_id and "method" not in message:
                if "error" in message:
                    raise AgentError(f"{method} was refused: {message['error']}")
                return message["result"]

    def send(self, method: str, params: dict[str, Any]) -> int:
        """Send a request; its id."""
        request_id, self._next_id = self._next_id, self._next_id + 1
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        self.write(message)
        return request_id

    def write(self, message: dict[str, Any]) -> None:
        """Send any message."""
        rest = memoryview(json.dumps(message).encode() + b"\n")
        while rest:
            rest = rest[os.write(self._in, rest) :]

    def send_prompt(self, session_id: str, text: str) -> int:
        """Send a prompt; its id."""
        prompt = [{"type": "text", "text": text}]
        return self.send("session/prompt", {"sessionId": session_id, "prompt": prompt})

    def run_prompt(self, session_id: str, text: str) -> bytes:
        """
        Send a prompt and give everything that was said up to idle.

        Lines are looked at as bytes, so that the reader costs little.
        """
        self.send_prompt(session_id, text)
        taken: list[bytes] = []
        tail = b""
        while IDLE not in tail:
            data = self._read()
            taken.append(data)
            # The word may be cut in two by the reads.
            tail = tail[-len(IDLE) :] + data
        said = b"".join(taken)
        if b'"end_turn"' not in said:
            raise AgentError(f"the turn ended otherwise: {said[-400:]!r}")
        return said

    def read_line(self) -> bytes:
        """The next line."""
        while not self._lines:
            *self._lines, self._rest = (self._rest + self._read()).split(b"\n")
        return self._lines.pop(0)

    def read_until(self, is_last: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """Messages up to the one that `is_last` says is it."""
        messages: list[dict[str, Any]] = []
        while not messages or not is_last(messages[-1]):
            messages.append(json.loads(self.read_line()))
        return messages

    def close_stdin(self) -> None:
        """End the agent's input."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def send_signal(self, number: signal.Signals) -> None:
        """Send the agent alone a signal."""
        self._process.send_signal(number)

    def wait(self, seconds: float) -> int | None:
        """The agent's exit status; None if it lives after so long."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def cpu_seconds(self) -> float:
        """Processor time that the agent itself has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2]
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) / cast("int", os.sysconf("SC_CLK_TCK"))

    def resident_mib(self) -> float:
        """Memory that the agent itself uses."""
        return status_kib(self.pid, "VmRSS") / 1024

    def _read(self) -> bytes:
        data = os.read(self._out, READ_BYTES)
        if not data:
            raise AgentError("the agent closed its output")
        return data

    def _kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)


def status_kib(pid: int, field: str) -> int:
    """A size from the status of a process, in KiB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise AgentError(f"process {pid} tells no {field}")
