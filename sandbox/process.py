"""Running one command in the sandbox of a session."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import attrs

from sandbox import bubblewrap, sandbox_exec
from sandbox.call import Call
from sandbox.errors import SetupError
from sandbox.policy import Policy
from sandbox.result import Result

Backend = Callable[[Call, float, Callable[[bytes], None]], Result]
_BACKENDS: Mapping[str, Backend] = {"linux": bubblewrap.run, "darwin": sandbox_exec.run}


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
        backend: what runs it, by default the one of this system.
    """

    def __init__(
        self,
        policy: Policy,
        command: str,
        *,
        environ: Mapping[str, str] | None = None,
        keep_fds: Sequence[int] = (),
        backend: Backend | None = None,
    ) -> None:
        self._call = Call(
            policy, command, os.environ if environ is None else environ, tuple(keep_fds)
        )
        self._backend = backend or _BACKENDS.get(sys.platform)

    def kill(self) -> None:
        """Kill everything the command started; from any thread, at once, any number of times."""
        self._call.kill()

    def paused(self) -> AbstractContextManager[None]:
        """Let none of the command's time pass while a block runs, on any thread."""
        return self._call.clock.paused()

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
            if self._backend is None:
                raise SetupError(
                    f"there is no sandbox for {sys.platform}", "run it on Linux or on macOS"
                )
            result = self._backend(self._call, timeout_s, on_output)
        except SetupError as error:
            result = Result(failure=error)
        killed = self._call.killed
        if killed and result.failure:
            result = Result(signal=signal.Signals.SIGKILL.name)
        return attrs.evolve(result, killed=killed, duration_s=time.monotonic() - started)
