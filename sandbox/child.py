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
from sandbox.init import Init, open_init
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
        exit_code: of the command, once bwrap reported it.
    """

    output: int
    exited: int
    _status: int
    _options: int | None
    _leash: int | None
    _go: int | None
    _process: subprocess.Popen[bytes]
    _watchdog: Watchdog
    _group: ControlGroup | None
    exit_code: int | None = None
    _init: Init | None = None
    _reaped: bool = False
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    @property
    def init(self) -> int | None:
        """Pidfd of the first process inside; when that is gone, all inside are."""
        found = self._init
        return None if found is None else found.exited

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        pass_fds: Sequence[int],
        status: int,
        options: int,
        leash: int,
        watchdog: Watchdog,
        group: ControlGroup | None,
    ) -> Child:
        """
        Start `argv` in a session of its own, with one pipe for all output; it waits for `build`.

        Args:
            argv: absolute program and arguments.
            environment: the whole environment.
            pass_fds: what bwrap reads and writes besides its standard descriptors.
            status: the memory file that bwrap writes its JSON records to. It is no
                pipe, because bwrap, writing to one whose reader was killed, would die
                half-way and leave a process behind.
            options: the memory file, still empty, that bwrap reads after the leash.
            leash: where bwrap waits for `bwrap.TIE` and then for the end.
            watchdog: guards the child's group.
            group: the control group that the command is to be in.

        Raises:
            SetupError: it could not be started.
        """
        with contextlib.ExitStack() as kept, contextlib.ExitStack() as passed:
            try:
                status = _copy(status, kept)
                options = _copy(options, kept)
                leash = _copy(leash, kept)
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
                exited = _open_started(process, watchdog)
            except (OSError, ValueError) as error:
                if isinstance(error, OSError) and error.errno == errno.E2BIG:
                    raise SetupError("the command is too long", _TOO_LONG) from error
                is_no_program = isinstance(error, OSError) and error.errno in _NO_PROGRAM
                remedy = f"look at {argv[0]}, or {INSTALL}" if is_no_program else ""
                text = "bubblewrap could not be started"
                raise SetupError.from_os_error(text, error, remedy) from error
            kept.pop_all()
        return cls(output, exited, status, options, leash, go, process, watchdog, group)

    def build(self, options: bytes) -> None:
        """
        Let bwrap build the sandbox that `options` describe; once.

        Raises:
            SetupError: it cannot be told, or cannot be put into its control group.
        """
        self._tell(options)
        if self._group is not None:
            # The kernel may take ten milliseconds for the first that joins, and has the time
            # while the sandbox is built. Those who follow join at once.
            try:
                with contextlib.suppress(ProcessLookupError):
                    self._group.add(self._process.pid)
            except OSError as error:
                raise _no_group(error) from error

    def _tell(self, options: bytes) -> None:
        memory, leash = self._options, self._leash
        self._options = self._leash = None
        if memory is None or leash is None:
            return
        try:
            with open(memory, "wb") as file, open(leash, "wb", buffering=0) as tie:
                file.write(options)
                file.seek(0)
                with contextlib.suppress(BrokenPipeError):
                    tie.write(bwrap.TIE)
        except OSError as error:
            raise SetupError.from_os_error("bubblewrap could not be told", error) from error

    def join(self) -> None:
        """
        Put all that is inside, which waits, into the control group, if it is to be in one.

        Raises:
            ProcessLookupError: the sandbox has ended.
            SetupError: that cannot be done.
        """
        if self._group is None:
            return
        if self._init is None:
            raise ProcessLookupError("the sandbox has no first process")
        # They may have been started before bwrap was in the group. More there are not:
        # the gate starts nothing.
        try:
            for pid in self._init.family():
                self._group.add(pid)
        except ProcessLookupError:
            raise
        except OSError as error:
            raise _no_group(error) from error

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
            if self._init is not None:
                signal.pidfd_send_signal(self._init.exited, signal.SIGKILL)
        with self._lock, contextlib.suppress(ProcessLookupError, PermissionError):
            if not self._reaped:
                os.killpg(self._process.pid, signal.SIGKILL)

    def mounts(self) -> bytes:
        """
        The mount table inside.

        Raises:
            ProcessLookupError: there is no first process, or none any more.
            OSError: it cannot be read.
        """
        if self._init is None:
            raise ProcessLookupError("the sandbox has no first process")
        return self._init.mounts()

    def read_status(self) -> None:
        """
        Take in what bwrap has reported so far.

        Raises:
            OSError: the first process inside cannot be watched, as too many files are open.
        """
        for line in os.pread(self._status, _LARGEST_STATUS, 0).split(b"\n")[:-1]:
            record = json.loads(line)
            self.exit_code = record.get("exit-code", self.exit_code)
            if "child-pid" in record and self._init is None:
                with self._lock:
                    self._init = open_init(record["child-pid"], self._process.pid)

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
            descriptors = (
                *(self.output, self._status, self.exited),
                *(self._options, self._leash, self._go, self.init),
            )
            self._options = self._leash = self._go = self._init = None
        for descriptor in descriptors:
            if descriptor is not None:
                os.close(descriptor)


def _open_started(process: subprocess.Popen[bytes], watchdog: Watchdog) -> int:
    """A pidfd of `process`, which is guarded now; if that cannot be, it is ended first."""
    with contextlib.ExitStack() as failed:
        failed.callback(process.wait)
        failed.callback(watchdog.release, process.pid)
        failed.callback(os.killpg, process.pid, signal.SIGKILL)
        exited = os.pidfd_open(process.pid)
        failed.callback(os.close, exited)
        watchdog.guard(process.pid)
        failed.pop_all()
    return exited


def _copy(descriptor: int, kept: contextlib.ExitStack) -> int:
    copied = os.dup(descriptor)
    kept.callback(os.close, copied)
    return copied


def _no_group(error: OSError) -> SetupError:
    return SetupError.from_os_error("the process limit could not be set", error)
