"""A started bwrap: what is done with it from outside, and its end."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

import attrs

from sandbox import pipes
from sandbox.channels import Channels
from sandbox.control_group import ControlGroup
from sandbox.diagnosis import INSTALL
from sandbox.errors import SetupError
from sandbox.init import Init, open_init
from sandbox.supervision import GRACE_S
from sandbox.watchdog import Watchdog

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
    _channels: Channels
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
        keep_fds: Sequence[int],
        channels: Channels,
        watchdog: Watchdog,
        group: ControlGroup | None,
    ) -> Child:
        """
        Start `argv` in a session of its own, with one pipe for all output; it waits for `build`.

        Args:
            argv: absolute program and arguments.
            environment: the whole environment.
            keep_fds: what the command inherits besides its standard descriptors.
            channels: what bwrap inherits; the child's from now on, if it can be started.
            watchdog: guards the child's group.
            group: the control group that the command is to be in.

        Raises:
            SetupError: it could not be started.
        """
        with contextlib.ExitStack() as kept, contextlib.ExitStack() as passed:
            try:
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
                    pass_fds=(*channels.passed, *keep_fds),
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
        return cls(output, exited, channels, go, process, watchdog, group)

    def build(self, options: bytes) -> None:
        """
        Let bwrap build the sandbox that `options` describe; once.

        Raises:
            SetupError: it cannot be told, or cannot be put into its control group.
        """
        self._channels.tell(options)
        if self._group is not None:
            # The kernel may take ten milliseconds for the first that joins, and has the time
            # while the sandbox is built. Those who follow join at once.
            try:
                with contextlib.suppress(ProcessLookupError):
                    self._group.add(self._process.pid)
            except OSError as error:
                raise _no_group(error) from error

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
            pipes.release(self._go)
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
        report = self._channels.report()
        self.exit_code = report.exit_code
        if report.child_pid is not None and self._init is None:
            with self._lock:
                self._init = open_init(report.child_pid, self._process.pid)

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
            descriptors = (self.output, self.exited, self._go, self.init)
            self._go = self._init = None
        self._channels.close()
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


def _no_group(error: OSError) -> SetupError:
    return SetupError.from_os_error("the process limit could not be set", error)
