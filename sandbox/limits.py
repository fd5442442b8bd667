"""Resource limits of a command, and the shell that sets them before it starts."""

from __future__ import annotations

import os
import resource

import attrs

BASH = "/bin/bash"
DASH = "/bin/dash"
# No shell can tell a larger one, nor can a file be larger.
_LARGEST_FILE = 2**63 - 1
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
        file_bytes=min(bounded(wanted.file_bytes, resource.RLIMIT_FSIZE), _LARGEST_FILE),
        open_files=bounded(wanted.open_files, resource.RLIMIT_NOFILE),
    )


def quickest_shell() -> str:
    """
    The shell for `gated` on Linux: dash, which starts in half the time, or else bash.

    Not whatever is /bin/sh: there are some whose `ulimit` succeeds and sets nothing.
    """
    return DASH if os.access(DASH, os.X_OK) else BASH


def gated(command: str, limits: Limits, *, shell: str) -> list[str]:
    """
    The argv of a shell that limits itself, reports and waits before bash runs `command`.

    Runs first inside: outside, the limits would count all processes of the user. It
    prints a NUL, and begins when a line arrives on its standard input. When the server dies
    before that, `read` fails and nothing ran.

    Args:
        command: for bash.
        limits: what it sets.
        shell: `BASH` or `DASH`.
    """
    # They count files in units of their own, and name the number of processes differently.
    block, processes = (512, "-p") if shell == DASH else (1024, "-u")
    gate = (
        f"ulimit -c 0 && ulimit -f {limits.file_bytes // block}"
        f" && ulimit {processes} {limits.processes} && printf '\\0' && read -r go"
        # In this order: a shell that redirects needs more files itself than it may leave.
        f' && exec </dev/null && ulimit -n {limits.open_files} && exec {BASH} -c -- "$1"'
    )
    return [shell, "-c", gate, BASH, command]
