"""A started command that only its process group and its descent hold together (macOS)."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

import attrs

from sandbox import descendants, pipes
from sandbox.errors import SetupError
from sandbox.supervision import GRACE_S
from sandbox.watchdog import Watchdog

# A process that is being killed may start another one; in the end there is none.
_MOST_SWEEPS = 5


@attrs.define
class GroupChild:
    """
    The leader of a process group, and everything that descends from it.

    `kill` may be called from any thread, all else only from the one that called `start`.

    Attributes:
        output: where stdout and stderr arrive, non-blocking.
        exited: becomes readable when the leader has ended; it is not reaped yet.
        init: there is none.
        exit_code: of the leader, once it was reaped.
    """

    output: int
    exited: int
    _go: int | None
    _process: subprocess.Popen[bytes]
    _watchdog: Watchdog
    _mark: str
    _waiter: threading.Thread
    init: int | None = None
    exit_code: int | None = None
    _reaped: bool = False
    _killed: bool = False
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: str,
        pass_fds: Sequence[int],
        mark: str,
        watchdog: Watchdog,
    ) -> GroupChild:
        """
        Start `argv` in a session of its own, with one pipe for all output.

        Args:
            argv: absolute program and arguments; waits on its standard input.
            environment: the whole environment.
            directory: where it starts.
            pass_fds: what it inherits besides its standard descriptors.
            mark: what is in the environment of all that it starts, `NAME=VALUE`.
            watchdog: guards the group.

        Raises:
            SetupError: it could not be started.
        """
        with contextlib.ExitStack() as kept, contextlib.ExitStack() as passed:
            try:
                go_read, go = pipes.pair(passed, kept)
                sink, output = pipes.pair(passed, kept, reverse=True)
                ended, exited = pipes.pair(passed, kept, reverse=True)
                os.set_blocking(output, False)
                process = subprocess.Popen(
                    argv,
                    stdin=go_read,
                    stdout=sink,
                    stderr=sink,
                    env=environment,
                    cwd=directory,
                    pass_fds=pass_fds,
                    start_new_session=True,
                )
                waiter = _start_waiter(process, watchdog, ended)
            except (OSError, ValueError, RuntimeError) as error:
                text = "sandbox-exec could not be started"
                if isinstance(error, RuntimeError):
                    raise SetupError(f"{text}: {error}") from error
                raise SetupError.from_os_error(text, error) from error
            kept.pop_all()
        return cls(output, exited, go, process, watchdog, mark, waiter)

    def release(self) -> None:
        """Let the command begin."""
        if self._go is not None:
            pipes.release(self._go)
            self._go = None

    def read_status(self) -> None:
        """Nothing is reported but the end."""

    def kill(self) -> None:
        """Kill the group; what has left it is found when the leader has ended."""
        with self._lock, contextlib.suppress(ProcessLookupError, PermissionError):
            self._killed = True
            if not self._reaped:
                os.killpg(self._process.pid, signal.SIGKILL)

    def reap(self) -> int:
        """Kill what the leader, which has ended, has left behind, and collect it."""
        if not self._reaped:
            self._sweep()
            with self._lock:
                self._watchdog.release(self._process.pid)
                self._reaped = True
                code = self._process.wait()
            # As a shell reports it, for it is the shell that ended by the signal.
            if code >= 0 or not self._killed:
                self.exit_code = code if code >= 0 else 128 - code
        return self._process.wait()

    def end(self) -> None:
        """Kill everything, wait until it is gone, and close all descriptors."""
        self.kill()
        if pipes.wait_for(self.exited, time.monotonic() + GRACE_S):
            self.reap()
        self._waiter.join(GRACE_S)
        for descriptor in (self.output, self.exited, self._go):
            if descriptor is not None:
                os.close(descriptor)
        self._go = None

    def _sweep(self) -> None:
        """The leader is not reaped: its number is still that of its group and of no other."""
        for _ in range(_MOST_SWEEPS):
            found = descendants.find(self._process.pid, self._mark) - {self._process.pid}
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            for pid in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if not found:
                break


def _start_waiter(
    process: subprocess.Popen[bytes], watchdog: Watchdog, ended: int
) -> threading.Thread:
    """Guard `process`, and start the thread that closes `ended` with it; or end it."""
    with contextlib.ExitStack() as failed:
        failed.callback(process.wait)
        failed.callback(watchdog.release, process.pid)
        failed.callback(os.killpg, process.pid, signal.SIGKILL)
        watchdog.guard(process.pid)
        tell = os.dup(ended)
        failed.callback(os.close, tell)
        waiter = threading.Thread(
            target=_tell_end, args=(process.pid, tell), name=f"sandbox-wait-{process.pid}"
        )
        waiter.daemon = True
        waiter.start()
        failed.pop_all()
    return waiter


def _tell_end(pid: int, tell: int) -> None:
    """Wait for the end of `pid` without reaping it, then close `tell`."""
    try:
        if sys.platform == "darwin":
            queue = select.kqueue()
            event = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
            with contextlib.suppress(ProcessLookupError):
                queue.control([event], 1)
            queue.close()
        else:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    finally:
        os.close(tell)
