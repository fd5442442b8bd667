"""The shell port on top of the sandbox package: one per session (spec section 9)."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import attrs

from sandbox import Availability, Policy, PolicyError, Process, probe, programs
from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.ports import ShellResult
from term2_acp.errors import remedy

logger = logging.getLogger(__name__)


@attrs.define
class RunningSandboxes:
    """How many sandboxes run now; may be used from any thread."""

    _count: int = attrs.field(default=0, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Count one while the block runs, from before it looks at what it is to guard."""
        with self._lock:
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1

    def any(self) -> bool:
        """Whether there is one."""
        with self._lock:
            return self._count > 0


RUNNING = RunningSandboxes()
"""Those of all sessions of the process, which may share a workspace."""


def check_sandbox() -> Availability:
    """Whether commands can be run on this machine; a sandbox is built once, in some 20 ms."""
    return probe()


def sandbox_program() -> str | None:
    """The program that makes the sandbox, where there is one."""
    name = "sandbox-exec" if sys.platform == "darwin" else "bwrap"
    return programs.find(name, os.environ, never_in=())


class SandboxedShell:
    """
    Runs commands of one session in its sandbox; an `agent.ports.Shell`.

    The policy is made when the session starts and never again from what the
    workspace says later. Without one nothing runs, and the reason is told.
    """

    def __init__(
        self, workspace: str, *, session_id: str, state_dir: str, hidden: Sequence[str]
    ) -> None:
        self._policy: Policy | None = None
        self._reason = ""
        try:
            self._policy = Policy.for_workspace(
                workspace, state_dir=state_dir, session=session_id, hidden=hidden
            )
        except PolicyError as error:
            self._reason = str(error)
        except OSError as error:
            self._reason = (
                f"the session's private folders in {state_dir} cannot be made"
                f" ({error.strerror}); {remedy(error)}"
            )
        if self._reason:
            logger.warning("session %s has no sandbox: %s", session_id, self._reason)

    def run(
        self,
        command: str,
        *,
        timeout_s: float,
        cancel: CancelToken,
        on_output: Callable[[bytes], None],
    ) -> ShellResult:
        """Run a command and wait for it; see `agent.ports.Shell`."""
        return self._prepare(command).run(timeout_s=timeout_s, cancel=cancel, on_output=on_output)

    def any_running(self) -> bool:
        """Whether a sandbox of any session runs now; see `agent.ports.Shell`."""
        return RUNNING.any()

    def python(self, program: str, channel: int) -> SandboxedRun:
        """Prepare a run of Python; see `agent.ports.Shell`."""
        if self._policy is None:
            return self._prepare("")
        # Isolated, without site packages, and with output as it comes.
        words = [self._policy.python, "-I", "-S", "-u", "-c", program, str(channel)]
        return self._prepare(f"exec {shlex.join(words)}", channel)

    def _prepare(self, command: str, *keep_fds: int) -> SandboxedRun:
        if self._policy is None:
            return SandboxedRun(None, self._reason)
        return SandboxedRun(Process(self._policy, command, keep_fds=keep_fds), "")

    def close(self) -> None:
        """Remove the session's private folders; after its turn has ended."""
        if self._policy is not None:
            self._policy.discard()


class SandboxedRun:
    """
    One command to be run; an `agent.ports.PythonRun`.

    Args:
        process: what is to run, None without a sandbox.
        reason: why there is none.
    """

    def __init__(self, process: Process | None, reason: str) -> None:
        self._process = process
        self._reason = reason

    def run(
        self, *, timeout_s: float, cancel: CancelToken, on_output: Callable[[bytes], None]
    ) -> ShellResult:
        """Run it and wait for it; see `agent.ports.PythonRun`."""
        cancel.raise_if_cancelled()
        if self._process is None:
            return ShellResult(sandbox_error=self._reason)
        with RUNNING.one_more(), cancel.on_cancel(self._process.kill):
            result = self._process.run(timeout_s=timeout_s, on_output=on_output)
        cancel.raise_if_cancelled()
        return ShellResult(
            exit_code=result.exit_code,
            signal=result.signal,
            timed_out=result.timed_out,
            duration_s=result.duration_s,
            sandbox_error=result.setup_error,
            hint=result.hint,
        )

    def paused(self) -> AbstractContextManager[None]:
        """Let none of its time pass while a block runs; see `agent.ports.PythonRun`."""
        return nullcontext() if self._process is None else self._process.paused()
