"""
The command line of bubblewrap: pure, from mounts to arguments (spec section 9).

What has a path in it travels over a descriptor (`--args`), so that /proc/1/cmdline inside
shows none; the environment is `Popen`'s (finding F3). No flag is ever dropped
because it failed: a sandbox that cannot be built as designed is not built.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from sandbox.limits import Limits, gated
from sandbox.mounts import Bind, Mount

# What arrives over the leash. Should the server die before, then bwrap is not tied to it, and
# ends for want of options, or in order at the gate, which waits for the same server.
TIE = b"--die-with-parent\0"


def options(mounts: Iterable[Mount], *, directory: str) -> bytes:
    """What describes the sandbox, as bwrap reads it over a descriptor."""
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
    found += ["--chdir", directory]
    return os.fsencode("".join(f"{option}\0" for option in found))


def command_line(
    bwrap: str,
    *,
    leash_fd: int,
    options_fd: int,
    seccomp_fd: int,
    status_fd: int,
    limits: Limits,
    shell: str,
    command: str,
) -> list[str]:
    """
    The argv itself.

    Args:
        bwrap: an absolute path.
        leash_fd: where it waits for `TIE`, before all else.
        options_fd: where it reads its `options` then.
        seccomp_fd: where it reads the filter.
        status_fd: where it writes its records.
        limits: resource limits.
        shell: what sets them, `limits.DASH` or `limits.BASH`.
        command: for bash.
    """
    descriptors = [
        *("--args", str(leash_fd), "--args", str(options_fd)),
        *("--seccomp", str(seccomp_fd), "--json-status-fd", str(status_fd)),
    ]
    return [bwrap, *descriptors, "--", *gated(command, limits, shell=shell)]
