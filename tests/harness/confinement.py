"""
Commands that start the server where something is missing: disk space, locks, root's powers.

Each is a prefix of `command` of a `Client`; they change the process that becomes the
server, so that its pid and its signals are its own.
"""

from __future__ import annotations

import platform
import shutil
import struct
import subprocess
import sys

from tests.harness.process import SERVE

_ENOLCK = 37
# The numbers of flock and fcntl.
_CALLS = {"x86_64": (73, 72), "aarch64": (32, 25)}
# F_GETLK, F_SETLK, F_SETLKW and those of open file descriptions.
_LOCKING = (5, 6, 7, 36, 37, 38)
_PRELUDE = "import ctypes, os, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n"
_EXEC = "os.execv(sys.argv[1], sys.argv[1:])\n"
# Without CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH root is held to modes like anybody.
_BOUND = "for capability in (1, 2):\n    libc.prctl(24, capability, 0, 0, 0)\n"
_FILTER = """
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
code = bytes.fromhex("{code}")
program = Program(len(code) // 8, code)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0
"""


def held_to_modes() -> tuple[str, ...]:
    """A server for which the modes of files count, also when root runs the tests."""
    return (sys.executable, "-c", _PRELUDE + _BOUND + _EXEC, *SERVE)


def without_locks() -> tuple[str, ...]:
    """A server whose file systems have no locks: each attempt says ENOLCK, as NFS may."""
    code = _no_locks(*_CALLS[platform.machine()]).hex()
    return (sys.executable, "-c", _PRELUDE + _FILTER.format(code=code) + _EXEC, *SERVE)


def _no_locks(flock: int, fcntl: int) -> bytes:
    """Classic BPF: flock, and fcntl with a command that locks, fail with ENOLCK."""
    load, equal, give = 0x20, 0x15, 0x06
    refuse = len(_LOCKING) + 5
    program = [(load, 0, 0, 0), (equal, refuse - 2, 0, flock), (equal, 0, refuse - 4, fcntl)]
    # The lower half of the second argument.
    program.append((load, 0, 0, 24))
    program += [(equal, refuse - 5 - number, 0, command) for number, command in enumerate(_LOCKING)]
    program += [(give, 0, 0, 0x7FFF0000), (give, 0, 0, 0x00050000 | _ENOLCK)]
    return b"".join(struct.pack("HBBI", *step) for step in program)


def can_mount() -> bool:
    """Whether a small disk can be made here."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    done = subprocess.run([unshare, "-rm", "true"], capture_output=True, check=False)
    return done.returncode == 0


def on_a_disk(options: str) -> tuple[str, ...]:
    """A server whose state is on a file system of its own, with options of tmpfs."""
    script = f'mount -t tmpfs -o {options} none "$XDG_STATE_HOME" && exec "$@"'
    return ("unshare", "-rm", "sh", "-c", script, "sh", *SERVE)
