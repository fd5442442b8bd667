"""Running a command under bubblewrap."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from sandbox import (
    audit,
    bwrap,
    control_group,
    diagnosis,
    hints,
    layout,
    limits,
    mountinfo,
    mounts,
    programs,
    protected,
    seccomp,
    stubs,
)
from sandbox.call import Call
from sandbox.channels import Channels
from sandbox.child import Child
from sandbox.errors import SetupError, is_out_of_descriptors
from sandbox.mountinfo import MountTable
from sandbox.mounts import Mount
from sandbox.policy import Policy
from sandbox.protected import Survey
from sandbox.result import Result
from sandbox.supervision import Supervision
from sandbox.tracking import Moved

_ATTEMPTS = 3
_OWN_MOUNTS = "/proc/self/mountinfo"


def run(call: Call, timeout_s: float, on_output: Callable[[bytes], None]) -> Result:
    """
    Run `call` under bubblewrap; see `Process.run`.

    Raises:
        SetupError: the sandbox could not be built.
    """
    policy = call.policy
    program = find_bwrap(policy, call.environ)
    filter_program = seccomp.program()
    restored: list[str] = []
    for _ in range(_ATTEMPTS):
        # Each time anew: what was there at first may have been another's stand-in.
        candidates = protected.stub_candidates(policy.workspace, policy.link)
        existing = {stub.path for stub in candidates if os.path.lexists(stub.path)}
        with (
            stubs.held(policy.state_dir, candidates, stock=policy.folders.stock) as stand_ins,
            contextlib.ExitStack() as ended,
            # Loads while we look at the workspace.
            _started(call, program, filter_program) as child,
        ):
            found, moved = survey(policy)
            # Too late for a stand-in, too early for a mount: another's, for instance.
            existing.difference_update(stub.path for stub in stand_ins)
            gone = [path for path in existing if not os.path.lexists(path)]
            planned = mounts.arrange(layout.gather(policy, found, stand_ins))
            child.build(bwrap.options(planned, directory=policy.workspace))
            # Before the mounts are verified: what is replaced until then is not as planned.
            before = audit.Audit.take(found)
            ended.callback(before.close)
            verify = functools.partial(_verify, planned, gone, child, _host_mounts())
            end = Supervision(child, verify, on_output, call.clock, timeout_s)
            ended.callback(_restore, policy, before, moved, end, restored)
            _serve(end)
        # What was to be mounted may have gone away meanwhile: any socket on the
        # machine, a file that is being replaced. Nothing has run, so try again.
        if end.released or end.timed_out or call.killed:
            break
    guarded = {path for path, _ in found.read_only} | {stub.path for stub in stand_ins}
    guarded |= layout.masked(planned)
    result = _judge(end, policy, frozenset(guarded), killed=call.killed)
    if not restored:
        return result
    return attrs.evolve(result, restored=tuple(restored), hint=hints.restoration(restored))


def survey(policy: Policy) -> tuple[Survey, Moved]:
    """
    What is protected now, wherever other commands have moved it or are just moving it.

    Raises:
        SetupError: it does not stay in one place.
    """
    missed: frozenset[str] = frozenset()
    for _ in range(_ATTEMPTS):
        moved = policy.tracker.look()
        found = protected.survey(policy.workspace, policy.link, policy.nested, moved)
        missed = moved.existing.difference(path for path, _ in (*found.read_only, *found.links))
        if not missed:
            return found, moved
    raise SetupError(f"{min(missed)} is being moved, so it cannot be protected; try again")


def _restore(
    policy: Policy, before: audit.Audit, moved: Moved, end: Supervision, restored: list[str]
) -> None:
    # Where nothing has run, what is no longer as it was is the user's own work.
    if end.released:
        restored += before.restore(policy.tracker.returned(moved))


@contextlib.contextmanager
def _started(call: Call, program: str, filter_program: bytes) -> Iterator[Child]:
    policy = call.policy
    with contextlib.ExitStack() as after:
        group = control_group.make(policy.limits.processes, policy.group_place)
        if group is not None:
            after.callback(group.remove)
        child = _start(call, program, filter_program, group)
        after.callback(child.end)
        with call.running(child):
            yield child


def _start(
    call: Call, program: str, filter_program: bytes, group: control_group.ControlGroup | None
) -> Child:
    policy = call.policy
    with contextlib.ExitStack() as failed:
        channels = Channels.open(filter_program)
        failed.callback(channels.close)
        child = Child.start(
            bwrap.command_line(
                program,
                leash_fd=channels.leash,
                options_fd=channels.options,
                seccomp_fd=channels.seccomp,
                status_fd=channels.status,
                limits=limits.within_own(policy.limits),
                shell=limits.quickest_shell(),
                command=call.command,
            ),
            environment=policy.environment,
            keep_fds=call.keep_fds,
            channels=channels,
            watchdog=policy.folders.watchdog,
            group=group,
        )
        failed.pop_all()
    return child


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


def _host_mounts() -> MountTable | None:
    """
    Our own mounts; None where there is no /proc, of which bwrap itself complains.

    Raises:
        SetupError: too many files are open.
    """
    try:
        with open(_OWN_MOUNTS, "rb") as own:
            return mountinfo.own_table(own.read())
    except OSError as error:
        if is_out_of_descriptors(error):
            raise SetupError.from_os_error(f"{_OWN_MOUNTS} cannot be read", error) from error
        return None


def _verify(
    planned: tuple[Mount, ...], gone: Sequence[str], child: Child, host: MountTable | None
) -> str | None:
    if host is None:
        return f"{_OWN_MOUNTS} cannot be read"
    try:
        inside = mountinfo.MountTable(child.mounts())
        wrong = min(gone, default=None) or mountinfo.mismatch(planned, inside, host)
        if wrong is not None:
            return f"{wrong} changed while the sandbox was being built; try again"
        child.join()
    except ProcessLookupError as error:
        return f"the sandbox ended before the command could begin: {error}"
    return None


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
