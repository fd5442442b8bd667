"""The server under test as a subprocess: its pipes, its standard error, its end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.harness.home import Home

SERVE = (sys.executable, "-m", "term2_acp", "acp")
READ_SIZE = 1 << 16


class ServerProcess:
    """
    A program that speaks lines on its standard output.

    Two threads of its own read standard output and standard error until their end
    (`term2-test-stdout`, `term2-test-stderr`); `on_line` is called on the former with
    each line without its newline, `on_end` once with what came after the last newline;
    on the latter `on_stderr` is called after each piece.
    """

    def __init__(
        self,
        home: Home,
        command: Sequence[str],
        *,
        cwd: Path,
        environment: dict[str, str],
        on_line: Callable[[bytes], None],
        on_end: Callable[[bytes], None],
        on_stderr: Callable[[], None] = lambda: None,
    ) -> None:
        self.home = home
        self._on_line = on_line
        self._on_end = on_end
        self._on_stderr = on_stderr
        self._changed = threading.Condition()
        self._stderr = bytearray()
        self._paused = False
        self._stderr_paused = False
        self._stdout_broken = False
        self._wake_read, self._wake_write = os.pipe()
        self.popen = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment,
            bufsize=0,
        )
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        assert self.popen.stderr is not None
        self._stdin = self.popen.stdin
        self._stdout = self.popen.stdout
        self._stderr_pipe = self.popen.stderr
        os.set_blocking(self._stdin.fileno(), False)
        self._write_lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._read_stdout, name="term2-test-stdout", daemon=True),
            threading.Thread(target=self._read_stderr, name="term2-test-stderr", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self.popen.pid

    @property
    def stdin_fileno(self) -> int:
        """Our end of the server's standard input, to be inherited by a child."""
        return self._stdin.fileno()

    def write(self, data: bytes, timeout: float = 60.0) -> None:
        """
        Write to the server's standard input.

        Raises:
            TimeoutError: the server did not read it all within `timeout` seconds.
            BrokenPipeError: the server closed it.
        """
        deadline = time.monotonic() + timeout
        with self._write_lock, selectors.DefaultSelector() as selector:
            selector.register(self._stdin, selectors.EVENT_WRITE)
            rest = memoryview(data)
            while rest:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError(f"the server left {len(rest)} bytes of its input unread")
                with contextlib.suppress(BlockingIOError):
                    rest = rest[os.write(self._stdin.fileno(), rest) :]

    def close_stdin(self) -> None:
        """End the server's standard input."""
        with self._write_lock:
            self._stdin.close()

    def pause_reading(self) -> None:
        """Stop reading standard output, as an editor that hangs (one read may be under way)."""
        with self._changed:
            self._paused = True

    def resume_reading(self) -> None:
        """Read standard output again."""
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def pause_stderr(self) -> None:
        """Stop reading standard error (one read may be under way)."""
        with self._changed:
            self._stderr_paused = True

    def resume_stderr(self) -> None:
        """Read standard error again."""
        with self._changed:
            self._stderr_paused = False
            self._changed.notify_all()

    def break_stdout(self) -> None:
        """Close our end of the server's standard output, as an editor that died."""
        with self._changed:
            self._stdout_broken = True
            self._paused = False
            self._changed.notify_all()
        os.write(self._wake_write, b"x")
        self._threads[0].join(10)

    @property
    def stderr(self) -> str:
        """What the server wrote to standard error so far."""
        with self._changed:
            return self._stderr.decode(errors="backslashreplace")

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the server alone."""
        self.popen.send_signal(number)

    def wait_exit(self, timeout: float = 10.0) -> int:
        """
        Wait for the end of the server and of its output; its exit status.

        Raises:
            subprocess.TimeoutExpired: it lives after `timeout` seconds.
        """
        status = self.popen.wait(timeout)
        for thread in self._threads:
            thread.join(10)
        return status

    def dispose(self) -> None:
        """End the server at once if it still lives, and free everything."""
        with contextlib.suppress(OSError):
            self.close_stdin()
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        self.resume_reading()
        self.resume_stderr()
        os.write(self._wake_write, b"x")
        for thread in self._threads:
            thread.join(10)
        for pipe in (self._stdout, self._stderr_pipe):
            pipe.close()
        for handle in (self._wake_read, self._wake_write):
            os.close(handle)

    def _read_stdout(self) -> None:
        pending = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: not self._paused)
                if not any(key.fileobj is self._stdout for key, _ in selector.select()):
                    break
                data = os.read(self._stdout.fileno(), READ_SIZE)
                if not data:
                    break
                self._split(pending, data)
        if self._stdout_broken:
            self._stdout.close()
        self._on_end(bytes(pending))

    def _split(self, pending: bytearray, data: bytes) -> None:
        head, *rest = data.split(b"\n")
        pending += head
        for piece in rest:
            line = bytes(pending)
            pending[:] = piece
            self._on_line(line)

    def _read_stderr(self) -> None:
        while data := os.read(self._stderr_pipe.fileno(), READ_SIZE):
            with self._changed:
                self._stderr += data
            self._on_stderr()
            with self._changed:
                self._changed.wait_for(lambda: not self._stderr_paused)
