"""Resource limits of a command, and the shell that sets them before it starts."""

from __future__ import annotations

import resource

import attrs

BASH = "/bin/bash"
_COUNT = attrs.validators.and_(attrs.validators.instance_of(int), attrs.validators.ge(1))


@attrs.frozen
class Limits:
    """
    Resource limits of a command.

    The number of processes binds root only where a control group can be made.

    Raises:
        TypeError: one is no integer.
        ValueError: one is below 1.
    """

    processes: int = attrs.field(default=4096, validator=_COUNT)
    file_bytes: int = attrs.field(default=16 * 1024**3, validator=_COUNT)
    open_files: int = attrs.field(default=4096, validator=_COUNT)


def within_own(wanted: Limits) -> Limits:
    """Nobody but root may raise a hard limit, so a lower one of our own stays."""

    def bounded(value: int, which: int) -> int:
        hard = resource.getrlimit(which)[1]
        return value if hard == resource.RLIM_INFINITY else min(value, hard)

    return Limits(
        processes=bounded(wanted.processes, resource.RLIMIT_NPROC),
        file_bytes=bounded(wanted.file_bytes, resource.RLIMIT_FSIZE),
        open_files=bounded(wanted.open_files, resource.RLIMIT_NOFILE),
    )


def gated(command: str, limits: Limits, *, report: str) -> list[str]:
    """
    The argv of a shell that limits itself, reports and waits before it runs `command`.

    Runs first inside: outside, the limits would count all processes of the user. It
    prints a NUL, what the shell command `report` prints, and another NUL, and begins
    when a line arrives on its standard input. When the server dies before that, `read`
    fails and nothing ran.
    """
    gate = (
        f"ulimit -c 0 && ulimit -f {limits.file_bytes // 1024} && ulimit -n {limits.open_files}"
        f" && ulimit -u {limits.processes} && printf '\\0' && {report} && printf '\\0'"
        f' && read -r go && exec </dev/null && exec {BASH} -c -- "$1"'
    )
    return [BASH, "-c", gate, BASH, command]
