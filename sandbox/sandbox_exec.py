"""
Running a command under macOS' `sandbox-exec`.

NOT run on a Mac: its logic is tested with a stand-in for `sandbox-exec`, its profile as text.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator

from sandbox import diagnosis, hints, limits, protected, seatbelt
from sandbox.call import Call
from sandbox.errors import SetupError
from sandbox.group_child import GroupChild
from sandbox.result import Result
from sandbox.supervision import Supervision


def run(
    call: Call,
    timeout_s: float,
    on_output: Callable[[bytes], None],
    *,
    program: str = seatbelt.SANDBOX_EXEC,
) -> Result:
    """
    Run `call` under the profile of its policy; see `Process.run`.

    Args:
        call: the command.
        timeout_s: how much time it has.
        on_output: gets its output.
        program: sandbox-exec, by its absolute path.

    Raises:
        SetupError: the sandbox could not be built.
    """
    if not os.access(program, os.X_OK):
        raise SetupError(f"{program} is not there", "use a macOS that has it")
    policy = call.policy
    found = protected.survey(policy.workspace, policy.link, policy.nested)
    read_only = [path for path, _ in found.read_only]
    with _started(call, program, read_only) as child:
        end = Supervision(child, _in_force, on_output, call.clock, timeout_s)
        _serve(end)
    if end.timed_out or call.killed:
        return Result(signal=signal.Signals.SIGKILL.name, timed_out=end.timed_out)
    if end.refused:
        return Result(failure=SetupError(end.refused))
    if not end.released:
        message = end.message.decode("utf-8", "replace")
        return Result(failure=diagnosis.diagnose_seatbelt(message))
    code = child.exit_code
    guarded = frozenset((*read_only, *policy.hidden))
    return Result(exit_code=code, hint=hints.explain(policy, end.tail, guarded) if code else None)


@contextlib.contextmanager
def _started(call: Call, program: str, read_only: list[str]) -> Iterator[GroupChild]:
    policy = call.policy
    tag = f"sandbox-{os.urandom(8).hex()}"
    child = GroupChild.start(
        seatbelt.command_line(
            program,
            seatbelt.profile(policy, tag=tag, read_only=read_only),
            call.command,
            limits.within_own(policy.limits),
        ),
        environment=seatbelt.environment(policy, tag=tag),
        directory=policy.workspace,
        pass_fds=call.keep_fds,
        mark=f"{seatbelt.MARK}={tag}",
        watchdog=policy.folders.watchdog,
    )
    try:
        with call.running(child):
            yield child
    finally:
        child.end()


def _in_force() -> None:
    """There is nothing to judge: the profile is in force before the shell starts."""


def _serve(end: Supervision) -> None:
    try:
        end.run()
    except OSError as error:
        if end.released:
            # The receiver's own.
            raise
        raise SetupError.from_os_error("the sandbox could not be watched", error) from error
