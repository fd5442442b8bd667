"""Resource limits of a command, and the shell that sets them before it starts."""

from __future__ import annotations

import resource

import attrs

BASH = "/bin/bash"
SH = "/bin/sh"
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


def gated(command: str, limits: Limits, *, shell: str) -> list[str]:
    """
    The argv of a shell that limits itself, reports and waits before bash runs `command`.

    Runs first inside: outside, the limits would count all processes of the user. It
    prints a NUL, and begins when a line arrives on its standard input. When the server dies
    before that, `read` fails and nothing ran.

    Args:
        command: for bash.
        limits: what it sets.
        shell: `BASH` or `SH`; where that is a small one it starts in half the time.
    """
    # Bash counts files in its own unit, unless it stands in for sh. Small shells have another
    # name for the number of processes.
    blocks = limits.file_bytes // (1024 if shell == BASH else 512)
    processes = f"{{ ulimit -u {limits.processes} || ulimit -p {limits.processes}; }} 2>/dev/null"
    gate = (
        f"ulimit -c 0 && ulimit -f {blocks} && ulimit -n {limits.open_files} && {processes}"
        f" && printf '\\0' && read -r go && exec </dev/null && exec {BASH} -c -- \"$1\""
    )
    return [shell, "-c", gate, BASH, command]
