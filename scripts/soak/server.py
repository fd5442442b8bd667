"""A server under soak: its pipes, which may stall, and what it holds of the machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import attrs
from bench.agent import status_kib

from soak.ledger import Ledger

_READ_BYTES = 1 << 16
_KEPT_LINES = 20_000
_SHOWN_BYTES = 300


@attrs.frozen
class Holdings:
    """What a process holds; memory in MiB."""

    threads: int
    descriptors: int
    resident: float
    children: int


class Server:
    """
    One `term2 acp`; any thread may write.

    A thread of its own (`soak-reader`) hands lines to the ledger until the end, unless
    it is stalled.
    """

    def __init__(self, environment: Mapping[str, str], ledger: Ledger, stderr: IO[bytes]) -> None:
        self.ledger = ledger
        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._write_lock = threading.Lock()
        self._next_id = 1
        self._flowing = threading.Event()
        self._flowing.set()
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "term2_acp", "acp"],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
        assert self.popen.stdin is not None  # noqa: S101 (for the type checker)
        assert self.popen.stdout is not None  # noqa: S101
        self._in = self.popen.stdin
        self._out = self.popen.stdout
        self._reader = threading.Thread(target=self._read, name="soak-reader", daemon=True)
        self._reader.start()

    def request(self, method: str, params: dict[str, Any]) -> int:
        """Send a request; its id."""
        with self._write_lock:
            request_id, self._next_id = self._next_id, self._next_id + 1
            self.ledger.sent(request_id, method, params.get("sessionId"))
            message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
            self._write(message)
        return request_id

    def send(self, message: dict[str, Any]) -> None:
        """Send any message."""
        with self._write_lock:
            self._write({"jsonrpc": "2.0", **message})

    def stall(self) -> None:
        """Stop reading."""
        self._flowing.clear()

    def flow(self) -> None:
        """Read again."""
        self._flowing.set()

    @property
    def stalled(self) -> bool:
        """Whether nothing is read at present."""
        return not self._flowing.is_set()

    def close_stdin(self) -> None:
        """End the server's input."""
        with self._write_lock:
            self._in.close()

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        self.popen.send_signal(signal.SIGKILL)

    def wait(self, seconds: float) -> int | None:
        """Its exit status, and all its output read; None if it still lives."""
        try:
            status = self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self.flow()
        self._reader.join(seconds)
        return status

    def dispose(self) -> None:
        """Nothing of it is left."""
        if self.popen.poll() is None:
            self.kill()
        self.wait(10)
        for pipe in (self._in, self._out):
            pipe.close()

    def holdings(self) -> Holdings:
        """What it holds now."""
        folder = Path(f"/proc/{self.popen.pid}")
        children = sum(
            len((task / "children").read_text(encoding="ascii").split())
            for task in (folder / "task").iterdir()
        )
        return Holdings(
            threads=status_kib(self.popen.pid, "Threads"),
            descriptors=len(list((folder / "fd").iterdir())),
            resident=status_kib(self.popen.pid, "VmRSS") / 1024,
            children=children,
        )

    def _write(self, message: dict[str, Any]) -> None:
        line = json.dumps(message)
        self.lines.append(f"{time.monotonic():.3f} --> {line[:_SHOWN_BYTES]}")
        try:
            os.write(self._in.fileno(), line.encode() + b"\n")
        except (BrokenPipeError, ValueError):
            # It is dead or about to end; whoever waits for an answer sees that.
            return

    def _read(self) -> None:
        rest = b""
        while True:
            self._flowing.wait()
            data = os.read(self._out.fileno(), _READ_BYTES)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                shown = line[:_SHOWN_BYTES].decode(errors="replace")
                self.lines.append(f"{time.monotonic():.3f} <-- {shown}")
                try:
                    message = json.loads(line)
                except ValueError:
                    message = {"not JSON": line[:200].decode(errors="replace")}
                self.ledger.receive(message)
        self.ledger.finish()


def left_over(marker: str) -> list[str]:
    """The processes with a marker on their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in command:
                found.append(f"{folder.name}: {command[:120].replace(bytes(1), b' ').decode()}")
    return found
