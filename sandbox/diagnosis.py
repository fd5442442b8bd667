"""What bwrap's own messages mean, and what a user can do about it."""

from __future__ import annotations

import sys

from sandbox.errors import SetupError

_USER_NAMESPACES = (
    "allow unprivileged user namespaces: sysctl kernel.unprivileged_userns_clone=1 (Debian), "
    "an AppArmor profile for bwrap or sysctl kernel.apparmor_restrict_unprivileged_userns=0 "
    "(Ubuntu 23.10 and later), user.max_user_namespaces above 0 (RHEL); in a chroot there are none"
)
_CONTAINER = (
    "in a container the runtime forbids it: for docker add --security-opt seccomp=unconfined "
    "--security-opt apparmor=unconfined --security-opt systempaths=unconfined"
)
_BWRAP_BY_HAND = "run `bwrap --ro-bind / / /bin/true` to see what bubblewrap needs here"
TRY_BY_HAND = (
    "run `sandbox-exec -p '(version 1)(allow default)' /usr/bin/true` to see whether it works here"
    if sys.platform == "darwin"
    else _BWRAP_BY_HAND
)
"""What a person can do where nothing is known about the fault."""
INSTALL = "install bubblewrap 0.8 or later, so that `bwrap` is on PATH"

_KNOWN = (
    (
        ("in setuid mode",),
        (
            "this bwrap is installed set-user-ID, which bars it from bounded file systems",
            f"take the bit away (chmod u-s) and {_USER_NAMESPACES}",
        ),
    ),
    (
        ("uid map: Read-only", "gid map: Read-only", "Can't read /proc", "Can't open /proc"),
        ("/proc is missing, masked or read-only here (a container?)", _CONTAINER),
    ),
    (
        ("setting up uid map", "setting up gid map", "write to uid_map"),
        ("user namespaces are restricted (AppArmor or the kernel)", _USER_NAMESPACES),
    ),
    (
        ("No permissions to creat", "does not support user namespaces"),
        ("user namespaces are not permitted", _USER_NAMESPACES),
    ),
    (
        ("Creating new namespace failed", "unshare user ns", "max_user_namespaces"),
        (
            "the kernel refuses new namespaces (limit reached, or nested in a sandbox)",
            f"{_USER_NAMESPACES}; {_CONTAINER}",
        ),
    ),
    (
        ("loopback: Failed",),
        ("the private network cannot be set up", f"{_USER_NAMESPACES}; {_CONTAINER}"),
    ),
    (
        ("Can't mount proc", "Can't remount readonly on /newroot/proc", "Failed to mount tmpfs"),
        ("mounting in a namespace is not permitted (a container?)", _CONTAINER),
    ),
    (
        ("Failed to make / slave", "pivot_root", "Can't bind mount", "Can't mount"),
        ("a mount is not permitted or its path is gone", _CONTAINER),
    ),
    (
        ("Unknown option",),
        ("bubblewrap is older than 0.8", INSTALL),
    ),
    (
        ("Exceeded maximum number of arguments",),
        (
            "more paths are to be protected or hidden than bubblewrap can take",
            "hide fewer paths, or end programs that listen on Unix sockets",
        ),
    ),
    (
        ("PR_SET_SECCOMP", "prctl(PR_SET_NO_NEW_PRIVS)"),
        ("the kernel loads no system call filter", "use a kernel with seccomp filters"),
    ),
    (
        ("execvp",),
        ("/bin/bash cannot be run in the sandbox", "install bash as /bin/bash"),
    ),
)


_SEATBELT = (
    (
        ("sandbox_apply",),
        (
            "macOS refuses a sandbox here (inside another one?)",
            "start the server outside of any sandbox",
        ),
    ),
    (
        ("execvp", "No such file"),
        ("/bin/bash cannot be run in the sandbox", "install bash as /bin/bash"),
    ),
)


def diagnose(message: str) -> SetupError:
    """The meaning of what bwrap printed; the message itself stays in the reason."""
    text = " ".join(message.split())[-500:] or "bwrap ended without a message"
    for signs, (reason, remedy) in _KNOWN:
        if any(sign in message for sign in signs):
            return SetupError(f"{reason}: {text}", remedy)
    return SetupError(text, _BWRAP_BY_HAND)


def diagnose_seatbelt(message: str) -> SetupError:
    """The meaning of what sandbox-exec printed; the message itself stays in the reason."""
    text = " ".join(message.split())[-500:] or "sandbox-exec ended without a message"
    for signs, (reason, remedy) in _SEATBELT:
        if any(sign in message for sign in signs):
            return SetupError(f"{reason}: {text}", remedy)
    return SetupError(
        f"the sandbox profile is not accepted by this macOS: {text}",
        "report it, with the version of macOS",
    )
