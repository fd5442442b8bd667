"""What the system call filter answers, by interpreting it; needs no kernel."""

from __future__ import annotations

import struct

import pytest

from sandbox import SetupError, seccomp

_ALLOW, _KILL, _EPERM, _ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
_X86_64, _AARCH64, _I386 = 0xC000003E, 0xC00000B7, 0x40000003
_TIOCSTI = 0x5412
_CREATE = 0o100


def verdict(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """What the kernel would return for one call."""
    data = struct.pack("<IIQ6Q", number, audit, 0, *(*arguments, *(6 - len(arguments)) * (0,)))
    code = list(struct.iter_unpack("=HBBI", program))
    accumulator, place = 0, 0
    while True:
        operation, on_true, on_false, value = code[place]
        place += 1
        if operation == 0x06:
            return int(value)
        if operation == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
            continue
        holds = {
            0x15: accumulator == value,
            0x35: accumulator >= value,
            0x45: accumulator & value != 0,
        }[operation]
        place += on_true if holds else on_false


@pytest.mark.parametrize(
    ("number", "arguments", "expected"),
    [
        pytest.param(0, (), _ALLOW, id="read"),
        pytest.param(59, (), _ALLOW, id="execve"),
        pytest.param(101, (), _ALLOW, id="ptrace"),
        pytest.param(101, (16, 7), _ALLOW, id="ptrace attaches"),
        pytest.param(101, (16, 1), _EPERM, id="ptrace attaches to the first process"),
        pytest.param(438, (), _EPERM, id="pidfd_getfd"),
        pytest.param(425, (), _EPERM, id="io_uring_setup"),
        pytest.param(250, (), _EPERM, id="keyctl"),
        pytest.param(321, (), _EPERM, id="bpf"),
        pytest.param(165, (), _EPERM, id="mount"),
        pytest.param(443, (), _EPERM, id="quotactl_fd"),
        pytest.param(467, (), _EPERM, id="open_tree_attr"),
        pytest.param(435, (), _ENOSYS, id="clone3"),
        pytest.param(437, (), _ENOSYS, id="openat2"),
        pytest.param(0x40000000, (), _ENOSYS, id="x32 read"),
        pytest.param(56, (0x11,), _ALLOW, id="fork"),
        pytest.param(56, (0x10000011,), _EPERM, id="clone NEWUSER"),
        pytest.param(56, (0x00020011,), _EPERM, id="clone NEWNS"),
        pytest.param(56, (0x003D0F00,), _ALLOW, id="thread"),
        pytest.param(41, (1, 1), _ALLOW, id="unix socket"),
        pytest.param(41, (2, 1), _ALLOW, id="internet socket"),
        pytest.param(41, (16, 3), _ALLOW, id="netlink socket"),
        pytest.param(41, (40, 1), _EPERM, id="vsock"),
        pytest.param(41, (38, 5), _EPERM, id="alg"),
        pytest.param(41, (17, 3), _EPERM, id="packet"),
        pytest.param(41, (1 << 32 | 40, 1), _EPERM, id="vsock with high bits"),
        pytest.param(16, (0, 0x5401), _ALLOW, id="TCGETS"),
        pytest.param(16, (0, _TIOCSTI), _EPERM, id="TIOCSTI"),
        pytest.param(16, (0, 1 << 32 | _TIOCSTI), _EPERM, id="TIOCSTI with high bits"),
        pytest.param(16, (0, 0x541C), _EPERM, id="TIOCLINUX"),
        pytest.param(90, (0, 0o755), _ALLOW, id="chmod 755"),
        pytest.param(90, (0, 0o4755), _EPERM, id="chmod 4755"),
        pytest.param(90, (0, 0o2775), _ALLOW, id="chmod 2775, shared repositories"),
        pytest.param(91, (3, 0o4755), _EPERM, id="fchmod 4755"),
        pytest.param(268, (3, 0, 0o4755), _EPERM, id="fchmodat 4755"),
        pytest.param(452, (3, 0, 0o4755), _EPERM, id="fchmodat2 4755"),
        pytest.param(257, (3, 0, _CREATE, 0o4755), _EPERM, id="openat creates 4755"),
        pytest.param(257, (3, 0, 0, 0o4755), _ALLOW, id="openat with any rest in the register"),
        pytest.param(257, (3, 0, _CREATE, 0o644), _ALLOW, id="openat creates 644"),
        pytest.param(2, (0, _CREATE, 0o4755), _EPERM, id="open creates 4755"),
        pytest.param(85, (0, 0o4755), _EPERM, id="creat 4755"),
        pytest.param(133, (0, 0o104755), _EPERM, id="mknod 4755"),
        pytest.param(83, (0, 0o4755), _ALLOW, id="mkdir drops the bit itself"),
    ],
)
def test_x86_64(number: int, arguments: tuple[int, ...], expected: int) -> None:
    """Numbers and argument positions of x86_64."""
    assert expected == verdict(seccomp.program("x86_64"), _X86_64, number, *arguments)


@pytest.mark.parametrize(
    ("number", "arguments", "expected"),
    [
        pytest.param(117, (16, 1), _EPERM, id="ptrace attaches to the first process"),
        pytest.param(63, (), _ALLOW, id="read"),
        pytest.param(117, (), _ALLOW, id="ptrace"),
        pytest.param(425, (), _EPERM, id="io_uring_setup"),
        pytest.param(219, (), _EPERM, id="keyctl"),
        pytest.param(40, (), _EPERM, id="mount"),
        pytest.param(97, (), _EPERM, id="unshare"),
        pytest.param(435, (), _ENOSYS, id="clone3"),
        pytest.param(220, (0x11,), _ALLOW, id="fork"),
        pytest.param(220, (0x10000011,), _EPERM, id="clone NEWUSER"),
        pytest.param(198, (1, 1), _ALLOW, id="unix socket"),
        pytest.param(198, (40, 1), _EPERM, id="vsock"),
        pytest.param(29, (0, _TIOCSTI), _EPERM, id="TIOCSTI"),
        pytest.param(52, (3, 0o4755), _EPERM, id="fchmod 4755"),
        pytest.param(53, (3, 0, 0o4755), _EPERM, id="fchmodat 4755"),
        pytest.param(56, (3, 0, _CREATE, 0o4755), _EPERM, id="openat creates 4755"),
        pytest.param(56, (3, 0, 0, 0o4755), _ALLOW, id="openat with any rest"),
        pytest.param(33, (3, 0, 0o104755), _EPERM, id="mknodat 4755"),
    ],
)
def test_aarch64(number: int, arguments: tuple[int, ...], expected: int) -> None:
    """Numbers and argument positions of aarch64."""
    assert expected == verdict(seccomp.program("aarch64"), _AARCH64, number, *arguments)


@pytest.mark.parametrize(
    ("machine", "audit"), [("x86_64", _I386), ("x86_64", _AARCH64), ("arm64", _X86_64)]
)
def test_foreign_architecture_is_killed(machine: str, audit: int) -> None:
    """Its numbers mean other calls."""
    assert _KILL == verdict(seccomp.program(machine), audit, 0)


def test_unknown_machine_has_no_sandbox() -> None:
    """No filter means that nothing may run, and the text says which machines there are."""
    with pytest.raises(SetupError, match="riscv64.*aarch64.*x86_64"):
        seccomp.program("riscv64")


def test_reloading_leaves_no_call_out() -> None:
    """After each argument check the number is judged again: every single check still works."""
    program = seccomp.program("x86_64")
    for number in range(470):
        assert verdict(program, _X86_64, number) in (_ALLOW, _EPERM, _ENOSYS)
    assert len(program) // 8 < 256
