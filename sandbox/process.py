"""Running one command in the sandbox of a session."""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from sandbox import (
    audit,
    bwrap,
    diagnosis,
    hints,
    layout,
    mountinfo,
    mounts,
    programs,
    protected,
    seccomp,
    stubs,
)
from sandbox.child import Child
from sandbox.clock import Clock
from sandbox.errors import SetupError
from sandbox.mounts import Mount
from sandbox.policy import Policy
from sandbox.supervision import Supervision

_ATTEMPTS = 3
_OWN_MOUNTS = "/proc/self/mountinfo"


@attrs.frozen
class Result:
    """
    How a command ended.

    Attributes:
        exit_code: what the command's shell returned (128+n if it died of signal n).
        signal: name of the signal that ended the sandbox, ours or one from outside.
        timed_out: the time ran out; everything was killed.
        killed: `Process.kill` was called; everything was killed.
        duration_s: seconds from start to end.
        failure: why the sandbox could not be built; then nothing of the command ran.
        hint: plain words on why the sandbox was probably the reason of a failure.
        restored: protected paths that were changed all the same, put back where possible.
    """

    exit_code: int | None = None
    signal: str | None = None
    timed_out: bool = False
    killed: bool = False
    duration_s: float = 0.0
    failure: SetupError | None = None
    hint: str | None = None
    restored: tuple[str, ...] = ()

    @property
    def setup_error(self) -> str | None:
        """The text of `failure`: reason and remedy, None if the sandbox could be built."""
        return None if self.failure is None else str(self.failure)


class Process:
    """
    One command, to be run once by `run`; `kill` works at any time, also before.

    Nothing is started by the constructor, so a cancel can be hooked up first:

        process = Process(policy, "make test")
        with cancel.on_cancel(process.kill):
            result = process.run(timeout_s=120, on_output=show)

    Args:
        policy: of the session.
        command: for bash.
        environ: where to look for bwrap, `os.environ` by default.
        keep_fds: descriptors, all above 2, that the command inherits with their numbers;
            they stay the caller's, who closes them after `run`.
    """

    def __init__(
        self,
        policy: Policy,
        command: str,
        *,
        environ: Mapping[str, str] | None = None,
        keep_fds: Sequence[int] = (),
    ) -> None:
        self._policy = policy
        self._command = command
        self._environ = os.environ if environ is None else environ
        self._keep_fds = tuple(keep_fds)
        self._clock = Clock()
        self._lock = threading.Lock()
        self._killed = False
        self._child: Child | None = None

    def kill(self) -> None:
        """Kill everything the command started; from any thread, at once, any number of times."""
        with self._lock:
            self._killed = True
            child = self._child
        if child is not None:
            child.kill()

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """Let none of the command's time pass while a block runs, on any thread."""
        return self._clock.paused()

    def run(self, *, timeout_s: float, on_output: Callable[[bytes], None]) -> Result:
        """
        Run the command with bash in the workspace and wait until all of it is gone.

        Must be called once, on a thread that lives until it returns.

        Args:
            timeout_s: seconds after which everything is killed; time in `on_output`
                and in `paused` does not count.
            on_output: gets stdout and stderr merged, in pieces of at most 64 KiB, on
                the calling thread; may block. If it raises, everything is killed and
                the exception goes on to the caller.
        """
        started = time.monotonic()
        try:
            result = self._run(timeout_s, on_output)
        except SetupError as error:
            result = Result(failure=error)
        with self._lock:
            killed = self._killed
        if killed and result.failure:
            result = Result(signal=signal.Signals.SIGKILL.name)
        return attrs.evolve(result, killed=killed, duration_s=time.monotonic() - started)

    def _run(self, timeout_s: float, on_output: Callable[[bytes], None]) -> Result:
        policy = self._policy
        if sys.platform != "linux":
            raise SetupError(f"no sandbox can be run on {sys.platform} yet, only on Linux")
        program = find_bwrap(policy, self._environ)
        filter_program = seccomp.program()
        candidates = protected.stub_candidates(policy.workspace, policy.link)
        restored: tuple[str, ...] = ()
        with stubs.held(policy.state_dir, candidates, stock=policy.folders.stock) as stand_ins:
            for _ in range(_ATTEMPTS):
                found = protected.survey(policy.workspace, policy.link, policy.nested)
                planned = mounts.arrange(layout.gather(policy, found, stand_ins))
                before = audit.Audit.take(found)
                try:
                    with self._started(program, planned, filter_program) as child:
                        verify = functools.partial(_verify, planned)
                        end = Supervision(child, verify, on_output, self._clock, timeout_s)
                        _serve(end)
                finally:
                    restored += before.restore()
                    before.close()
                # What was to be mounted may have gone away meanwhile: any socket on the
                # machine, a file that is being replaced. Nothing has run, so try again.
                if end.released or end.timed_out or self._killed:
                    break
        guarded = {path for path, _ in found.read_only} | {stub.path for stub in stand_ins}
        guarded |= layout.masked(planned)
        result = _judge(end, policy, frozenset(guarded), killed=self._killed)
        if not restored:
            return result
        return attrs.evolve(result, restored=restored, hint=hints.restoration(restored))

    @contextlib.contextmanager
    def _started(
        self, program: str, planned: tuple[Mount, ...], filter_program: bytes
    ) -> Iterator[Child]:
        policy = self._policy
        with contextlib.ExitStack() as stack:
            status_fd = _memory_file("status", b"", stack)
            filter_fd = _memory_file("filter", filter_program, stack)
            options = bwrap.options(
                planned, directory=policy.workspace, seccomp_fd=filter_fd, status_fd=status_fd
            )
            text = os.fsencode("".join(f"{option}\0" for option in options))
            options_fd = _memory_file("options", text, stack)
            leash_fd, leash = _pipe(stack)
            child = Child.start(
                bwrap.command_line(
                    program,
                    options_fd=options_fd,
                    leash_fd=leash_fd,
                    limits=_within_own_limits(policy.limits),
                    command=self._command,
                ),
                environment=policy.environment,
                pass_fds=(options_fd, leash_fd, filter_fd, status_fd, *self._keep_fds),
                status=status_fd,
                leash=leash,
                watchdog=policy.folders.watchdog,
            )
        try:
            with self._lock:
                self._child = child
                killed = self._killed
            if killed:
                child.kill()
            yield child
        finally:
            with self._lock:
                self._child = None
            child.end()


def find_bwrap(policy: Policy, environ: Mapping[str, str]) -> str:
    """
    The absolute path of bwrap: on PATH, never where a command can write.

    Raises:
        SetupError: there is none.
    """
    program = programs.find("bwrap", environ, never_in=(*policy.writable, policy.state_dir))
    if program is None:
        raise SetupError("bubblewrap (bwrap) is not on PATH", diagnosis.INSTALL)
    return program


def _serve(end: Supervision) -> None:
    try:
        end.run()
    except OSError as error:
        if end.released:
            # The receiver's own.
            raise
        raise SetupError.from_os_error("the sandbox could not be watched", error) from error


def _memory_file(name: str, content: bytes, stack: contextlib.ExitStack) -> int:
    try:
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    except OSError as error:
        raise SetupError.from_os_error("a memory file could not be made", error) from error
    stack.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _pipe(stack: contextlib.ExitStack) -> tuple[int, int]:
    try:
        reader, writer = os.pipe()
    except OSError as error:
        raise SetupError.from_os_error("a pipe could not be made", error) from error
    stack.callback(os.close, reader)
    stack.callback(os.close, writer)
    return reader, writer


def _within_own_limits(wanted: bwrap.Limits) -> bwrap.Limits:
    """Nobody but root may raise a hard limit, so a lower one of our own stays."""

    def bounded(value: int, which: int) -> int:
        hard = resource.getrlimit(which)[1]
        return value if hard == resource.RLIM_INFINITY else min(value, hard)

    return bwrap.Limits(
        processes=bounded(wanted.processes, resource.RLIMIT_NPROC),
        file_bytes=bounded(wanted.file_bytes, resource.RLIMIT_FSIZE),
        open_files=bounded(wanted.open_files, resource.RLIMIT_NOFILE),
    )


def _verify(planned: tuple[Mount, ...], table: bytes) -> str | None:
    with open(_OWN_MOUNTS, "rb") as own:
        host = mountinfo.own_table(own.read())
    try:
        wrong = mountinfo.mismatch(planned, mountinfo.MountTable(table), host)
    except ValueError as error:
        return f"bwrap did not build the sandbox: {error}"
    if wrong is None:
        return None
    return f"{wrong} changed while the sandbox was being built; try again"


def _judge(end: Supervision, policy: Policy, guarded: frozenset[str], *, killed: bool) -> Result:
    if end.timed_out or killed:
        return Result(signal=signal.Signals.SIGKILL.name, timed_out=end.timed_out)
    if not end.released:
        if end.refused:
            return Result(failure=SetupError(end.refused))
        return Result(failure=diagnosis.diagnose(end.message.decode("utf-8", "replace")))
    if end.child.exit_code is not None:
        code = end.child.exit_code
        hint = hints.explain(policy, end.tail, guarded) if code else None
        return Result(exit_code=code, hint=hint)
    if end.return_code is not None and end.return_code >= 0:
        return Result(exit_code=end.return_code)
    # The sandbox was ended from outside, for instance for want of memory.
    return Result(signal=signal.Signals(-(end.return_code or -signal.SIGKILL)).name)
