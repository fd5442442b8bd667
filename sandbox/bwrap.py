"""
The command line of bubblewrap: pure, from mounts to arguments (spec section 9).

The options travel over a descriptor (`--args`), so that /proc/1/cmdline inside
shows no path; the environment is `Popen`'s (finding F3). No flag is ever dropped
because it failed: a sandbox that cannot be built as designed is not built.
"""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.limits import Limits, gated
from sandbox.mounts import Bind, Mount

_SHOW_MOUNTS = 'mapfile mounts </proc/self/mountinfo && printf %s "${mounts[@]}"'
# What arrives over the leash. Should the server die before, then bwrap is not tied to it,
# goes on, and ends in order at the gate, which waits for the same server.
TIE = b"--die-with-parent\0"


def options(
    mounts: Iterable[Mount], *, directory: str, seccomp_fd: int, status_fd: int
) -> list[str]:
    """Everything that goes through `--args`."""
    found = [
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts"),
        *("--unshare-cgroup-try", "--unshare-net", "--disable-userns"),
        *("--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        # Without it root inside could write what root outside owns below /proc/sys (F1).
        *("--remount-ro", "/proc"),
    ]
    for mount in mounts:
        if isinstance(mount, Bind):
            found += ["--bind" if mount.writable else "--ro-bind", mount.source, mount.dest]
            continue
        found += ["--perms", "0000" if mount.sealed else f"{mount.mode:04o}"]
        if mount.size_bytes:
            found += ["--size", str(mount.size_bytes)]
        found += ["--tmpfs", mount.dest]
        if mount.sealed:
            found += ["--remount-ro", mount.dest]
    return [
        *found,
        *("--seccomp", str(seccomp_fd), "--json-status-fd", str(status_fd)),
        *("--chdir", directory),
    ]


def command_line(
    bwrap: str, *, options_fd: int, leash_fd: int, limits: Limits, command: str
) -> list[str]:
    """
    The argv itself.

    Args:
        bwrap: an absolute path.
        options_fd: where it reads its options.
        leash_fd: where it waits for `TIE` before it starts anything.
        limits: resource limits.
        command: for bash.
    """
    arguments = ["--args", str(options_fd), "--args", str(leash_fd)]
    return [bwrap, *arguments, "--", *gated(command, limits, report=_SHOW_MOUNTS)]
