"""
The system call filter: what no build needs and what breaks out, refused.

Classic BPF, built with `struct`; the default is to allow. bwrap loads it right
before the command starts, so that everything the command starts inherits it.
"""

from __future__ import annotations

import functools
import platform
import struct

import attrs

from sandbox.errors import SetupError

_LOAD, _JUMP_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_JUMP_GREATER_EQUAL = 0x35
_NR, _ARCH = 0, 4
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_X32 = 0x40000000

# CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}
_CLONE_NAMESPACES = 0x7E020000
_SET_UID = 0o4000
_CREATES = 0o20000100  # O_CREAT, __O_TMPFILE
_TTY_INJECTION = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
# AF_KEY, AF_PACKET, AF_BLUETOOTH, AF_ALG, AF_VSOCK, AF_XDP
_FAMILIES = (15, 17, 31, 38, 40, 44)

# The same number on every architecture (all that came after the generic table).
_REFUSED_EVERYWHERE = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "open_tree_attr": 467,
}
_MISSING_EVERYWHERE = {"clone3": 435, "openat2": 437}


@attrs.frozen
class _Architecture:
    """
    The numbers of one architecture.

    `modes` maps a call to the position of its mode argument; `creating` does so for
    the calls whose mode counts only with O_CREAT in the argument before it.
    """

    audit: int
    refused: tuple[int, ...]
    modes: dict[int, int]
    creating: dict[int, int]
    clone: int
    ioctl: int
    socket: int
    ptrace: int
    has_x32: bool = False


_X86_64 = _Architecture(
    audit=0xC000003E,
    refused=(
        # keyctl add_key request_key bpf perf_event_open userfaultfd open_by_handle_at
        *(250, 248, 249, 321, 298, 323, 304),
        # init_module finit_module delete_module create_module kexec_load kexec_file_load
        *(175, 313, 176, 174, 246, 320),
        # reboot swapon swapoff acct quotactl quotactl_fd iopl ioperm syslog
        *(169, 167, 168, 163, 179, 443, 172, 173, 103),
        # settimeofday clock_settime adjtimex clock_adjtime
        *(164, 227, 159, 305),
        # mount umount2 pivot_root chroot unshare setns process_vm_readv process_vm_writev
        *(165, 166, 155, 161, 272, 308, 310, 311),
    ),
    # chmod fchmod fchmodat fchmodat2 creat mknod mknodat; mkdir drops the bit by itself
    modes={90: 1, 91: 1, 268: 2, 452: 2, 85: 1, 133: 1, 259: 2},
    # open openat
    creating={2: 2, 257: 3},
    clone=56,
    ioctl=16,
    socket=41,
    ptrace=101,
    has_x32=True,
)
_AARCH64 = _Architecture(
    audit=0xC00000B7,
    refused=(
        # keyctl add_key request_key bpf perf_event_open userfaultfd open_by_handle_at
        *(219, 217, 218, 280, 241, 282, 265),
        # init_module finit_module delete_module kexec_load kexec_file_load
        *(105, 273, 106, 104, 294),
        # reboot swapon swapoff acct quotactl quotactl_fd syslog
        *(142, 224, 225, 89, 60, 443, 116),
        # settimeofday clock_settime adjtimex clock_adjtime
        *(170, 112, 171, 266),
        # mount umount2 pivot_root chroot unshare setns process_vm_readv process_vm_writev
        *(40, 39, 41, 51, 97, 268, 270, 271),
    ),
    # fchmod fchmodat fchmodat2 mknodat
    modes={52: 1, 53: 2, 452: 2, 33: 2},
    # openat
    creating={56: 3},
    clone=220,
    ioctl=29,
    socket=198,
    ptrace=117,
)
_ARCHITECTURES = {"x86_64": _X86_64, "amd64": _X86_64, "aarch64": _AARCH64, "arm64": _AARCH64}


@functools.cache
def program(machine: str | None = None) -> bytes:
    """
    The filter for `machine` (`platform.machine()`), as `struct sock_filter[]`.

    Raises:
        SetupError: no filter is known for that machine; then nothing may run.
    """
    name = machine or platform.machine()
    architecture = _ARCHITECTURES.get(name.lower())
    if architecture is None:
        known = ", ".join(sorted(_ARCHITECTURES))
        raise SetupError(f"no system call filter is known for {name!r} (known: {known})")
    return b"".join(_assemble(architecture))


def _assemble(machine: _Architecture) -> list[bytes]:
    code = [
        _instruction(_LOAD, value=_ARCH),
        _instruction(_JUMP_EQUAL, 1, 0, machine.audit),
        _instruction(_RETURN, value=_KILL),
        _instruction(_LOAD, value=_NR),
    ]
    if machine.has_x32:
        code += [
            _instruction(_JUMP_GREATER_EQUAL, 0, 1, _X32),
            _instruction(_RETURN, value=_ERRNO | _ENOSYS),
        ]
    # glibc and the language runtimes fall back when these two are unknown, and
    # their arguments lie in memory, where no filter sees them.
    code += _refuse_calls(tuple(_MISSING_EVERYWHERE.values()), _ENOSYS)
    code += _refuse_calls(machine.refused + tuple(_REFUSED_EVERYWHERE.values()), _EPERM)
    code += _refuse_argument(machine.clone, 0, _JUMP_SET, (_CLONE_NAMESPACES,))
    code += _refuse_argument(machine.ioctl, 1, _JUMP_EQUAL, _TTY_INJECTION)
    code += _refuse_argument(machine.socket, 0, _JUMP_EQUAL, _FAMILIES)
    # The first process inside is bwrap's: stopped, it would not report the end.
    code += _refuse_argument(machine.ptrace, 1, _JUMP_EQUAL, (1,))
    for call, position in machine.modes.items():
        # A set-user-ID file in the workspace would outlive the sandbox (finding F8).
        code += _refuse_argument(call, position, _JUMP_SET, (_SET_UID,))
    for call, position in machine.creating.items():
        # Without O_CREAT the register of the mode may hold anything.
        body = _refuse_argument(call, position, _JUMP_SET, (_SET_UID,))
        code += [
            _instruction(_JUMP_EQUAL, 0, len(body) + 3, call),
            _instruction(_LOAD, value=_argument(position - 1)),
            _instruction(_JUMP_SET, 0, len(body) + 1, _CREATES),
            _instruction(_LOAD, value=_NR),
            *body,
            _instruction(_LOAD, value=_NR),
        ]
    return [*code, _instruction(_RETURN, value=_ALLOW)]


def _refuse_calls(numbers: tuple[int, ...], errno: int) -> list[bytes]:
    checks = [
        _instruction(_JUMP_EQUAL, len(numbers) - index, 0, number)
        for index, number in enumerate(numbers)
    ]
    # Past the last check one jump leads over the refusal.
    skip = _instruction(_JUMP_GREATER_EQUAL, 1, 1, 0)
    return [*checks, skip, _instruction(_RETURN, value=_ERRNO | errno)]


def _refuse_argument(call: int, position: int, test: int, values: tuple[int, ...]) -> list[bytes]:
    """Refuse `call` when the low 32 bits of an argument match: the kernel reads no more."""
    count = len(values)
    tests = [
        _instruction(test, count - 1 - index, 1 if index == count - 1 else 0, value)
        for index, value in enumerate(values)
    ]
    return [
        _instruction(_JUMP_EQUAL, 0, count + 3, call),
        _instruction(_LOAD, value=_argument(position)),
        *tests,
        _instruction(_RETURN, value=_ERRNO | _EPERM),
        _instruction(_LOAD, value=_NR),
    ]


def _argument(position: int) -> int:
    """The offset of an argument's low half in `struct seccomp_data` (little endian)."""
    return 16 + 8 * position


def _instruction(code: int, on_true: int = 0, on_false: int = 0, value: int = 0) -> bytes:
    return struct.pack("=HBBI", code, on_true, on_false, value)
