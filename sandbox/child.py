"""A started bwrap: its descriptors, its status records, and its end."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

import attrs

from sandbox import bwrap, pipes
from sandbox.control_group import ControlGroup
from sandbox.diagnosis import INSTALL
from sandbox.errors import SetupError
from sandbox.supervision import GRACE_S
from sandbox.watchdog import Watchdog

_LARGEST_STATUS = 64 * 1024
_NO_PROGRAM = (errno.ENOENT, errno.EACCES, errno.ENOEXEC)
_TOO_LONG = "a command has at most 128 KiB; write it to a file in the workspace and run that"


@attrs.define
class Child:
    """
    One bwrap process, started by the thread that calls `start`.

    That thread must outlive the child: Linux sends the parent-death signal when
    the thread ends that started it. `kill` may be called from any thread.

    Attributes:
        output: where stdout and stderr arrive, non-blocking.
        exited: pidfd of bwrap itself.
        init: pidfd of the first process inside; when that is gone, all inside are.
        exit_code: of the command, once bwrap reported it.
    """

    output: int
    exited: int
    _status: int
    _go: int | None
    _process: subprocess.Popen[bytes]
    _watchdog: Watchdog
    init: int | None = None
    exit_code: int | None = None
    _reaped: bool = False
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        pass_fds: Sequence[int],
        status: int,
        leash: int,
        watchdog: Watchdog,
        group: ControlGroup | None,
    ) -> Child:
        """
        Start `argv` in a session of its own, with one pipe for all output.

        Args:
            argv: absolute program and arguments.
            environment: the whole environment.
            pass_fds: what bwrap reads and writes besides its standard descriptors.
            status: the memory file that bwrap writes its JSON records to. It is no
                pipe, because bwrap, writing to one whose reader was killed, would die
                half-way and leave a process behind.
            leash: where bwrap waits for `bwrap.TIE` and then for the end.
            watchdog: guards the child's group.
            group: the control group for all that it starts.

        Raises:
            SetupError: it could not be started.
        """
        with contextlib.ExitStack() as kept, contextlib.ExitStack() as passed:
            try:
                status = os.dup(status)
                kept.callback(os.close, status)
                go_read, go = pipes.pair(passed, kept)
                sink, output = pipes.pair(passed, kept, reverse=True)
                os.set_blocking(output, False)
                process = subprocess.Popen(
                    argv,
                    stdin=go_read,
                    stdout=sink,
                    stderr=sink,
                    env=environment,
                    cwd="/",
                    pass_fds=pass_fds,
                    start_new_session=True,
                )
                exited = _open_started(process, watchdog, leash, group)
            except (OSError, ValueError) as error:
                if isinstance(error, OSError) and error.errno == errno.E2BIG:
                    raise SetupError("the command is too long", _TOO_LONG) from error
                is_no_program = isinstance(error, OSError) and error.errno in _NO_PROGRAM
                remedy = f"look at {argv[0]}, or {INSTALL}" if is_no_program else ""
                text = "bubblewrap could not be started"
                raise SetupError.from_os_error(text, error, remedy) from error
            kept.pop_all()
        return cls(output, exited, status, go, process, watchdog)

    def release(self) -> None:
        """Let the command begin."""
        if self._go is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._go, b"go\n")
            os.close(self._go)
            self._go = None

    def kill(self) -> None:
        """Kill everything that was started; never blocks, may be called again and again."""
        with self._lock, contextlib.suppress(ProcessLookupError, PermissionError):
            if self.init is not None:
                signal.pidfd_send_signal(self.init, signal.SIGKILL)
        with self._lock, contextlib.suppress(ProcessLookupError, PermissionError):
            if not self._reaped:
                os.killpg(self._process.pid, signal.SIGKILL)

    def read_status(self) -> None:
        """
        Take in what bwrap has reported so far.

        Raises:
            OSError: the first process inside cannot be watched, as too many files are open.
        """
        for line in os.pread(self._status, _LARGEST_STATUS, 0).split(b"\n")[:-1]:
            record = json.loads(line)
            self.exit_code = record.get("exit-code", self.exit_code)
            if "child-pid" in record and self.init is None:
                with self._lock:
                    self.init = _open_init(record["child-pid"], self._process.pid)

    def reap(self) -> int:
        """Collect bwrap, which has exited, and its last report; its return code."""
        # Without a descriptor for it, the first process inside still dies with bwrap.
        with contextlib.suppress(OSError):
            self.read_status()
        with self._lock:
            if not self._reaped:
                # Killed in the middle of its start it leaves a child that waits for ever.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._watchdog.release(self._process.pid)
                self._reaped = True
            return self._process.wait()

    def end(self) -> None:
        """Kill everything, wait until it is gone, and close all descriptors."""
        self.kill()
        deadline = time.monotonic() + GRACE_S
        if pipes.wait_for(self.exited, deadline):
            self.reap()
            self.kill()
        if self.init is not None:
            pipes.wait_for(self.init, deadline)
        with self._lock:
            descriptors = (self.output, self._status, self.exited, self._go, self.init)
            self._go = self.init = None
        for descriptor in descriptors:
            if descriptor is not None:
                os.close(descriptor)


def _open_started(
    process: subprocess.Popen[bytes], watchdog: Watchdog, leash: int, group: ControlGroup | None
) -> int:
    """A pidfd of `process`, which goes on now; if that cannot be, it is ended first."""
    with contextlib.ExitStack() as failed:
        failed.callback(process.wait)
        failed.callback(watchdog.release, process.pid)
        failed.callback(os.killpg, process.pid, signal.SIGKILL)
        exited = os.pidfd_open(process.pid)
        failed.callback(os.close, exited)
        watchdog.guard(process.pid)
        if group is not None:
            group.add(process.pid)
        with contextlib.suppress(BrokenPipeError):
            os.write(leash, bwrap.TIE)
        failed.pop_all()
    return exited


def _open_init(pid: int, started: int) -> int | None:
    """
    A pidfd of `pid` if that is still the first process inside a sandbox, and not another's.

    Args:
        pid: what bwrap reported.
        started: what we started: bwrap, or a script that runs it, perhaps under another name.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    with contextlib.ExitStack() as unwanted:
        unwanted.callback(os.close, descriptor)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = _status(pid)
            names = (b"bwrap", _status(started)[b"Name"])
            # While bwrap is alive it is the parent, in the session that we made.
            if fields[b"NSpid"].split()[1:] == [b"1"] and (
                fields[b"Name"] in names or os.getsid(int(fields[b"PPid"])) == started
            ):
                unwanted.pop_all()
                return descriptor
    return None


def _status(pid: int) -> dict[bytes, bytes]:
    with open(f"/proc/{pid}/status", "rb") as file:
        fields = (line.partition(b":") for line in file)
        return {name: value.strip() for name, _, value in fields}
