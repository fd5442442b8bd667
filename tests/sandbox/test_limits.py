"""The shell that sets limits: which one it is, and that the command has them."""

from __future__ import annotations

import os
import resource
import subprocess

import pytest

from sandbox.limits import BASH, DASH, Limits, gated, quickest_shell, within_own

SHELLS = [
    pytest.param(shell, id=shell.rpartition("/")[2])
    for shell in (BASH, DASH)
    if os.access(shell, os.X_OK)
]
_DEADLINE_S = 20.0
# The table of its own limits, read without another process.
_SHOW = 'while IFS= read -r line; do echo "$line"; done < /proc/self/limits'


def seen(limits: Limits, shell: str) -> dict[str, list[str]]:
    """The limits that a command finds, soft and hard, by the kernel's names for them."""
    done = subprocess.run(
        gated(_SHOW, limits, shell=shell),
        input=b"go\n",
        capture_output=True,
        timeout=_DEADLINE_S,
        check=True,
        env={},
    )
    assert b"\0" == done.stdout[:1]
    lines = done.stdout[1:].decode().splitlines()
    return {line[:26].strip(): line[26:].split()[:2] for line in lines}


@pytest.mark.parametrize("shell", SHELLS)
def test_command_has_all_limits_from_either_shell(shell: str) -> None:
    """Soft and hard, in bytes and numbers: the shells have units and options of their own."""
    found = seen(within_own(Limits(processes=300, file_bytes=1 << 20, open_files=64)), shell)
    assert ["300", "300"] == found["Max processes"]
    assert [str(1 << 20)] * 2 == found["Max file size"]
    assert ["64", "64"] == found["Max open files"]
    assert ["0", "0"] == found["Max core file size"]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("asked", [2**63 - 1, 2**63, 2**64, 2**70])
def test_size_beyond_all_files_is_no_size_of_nothing(shell: str, asked: int) -> None:
    """No shell computes with such a number, and one of them would make 0 of it."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    if hard != resource.RLIM_INFINITY:
        pytest.skip("here files have a limit, which stays")
    soft = seen(within_own(Limits(file_bytes=asked)), shell)["Max file size"][0]
    assert int(soft) > 2**62


@pytest.mark.parametrize("shell", SHELLS)
def test_few_open_files_are_enough_for_the_shell(shell: str) -> None:
    """It needs hardly more than the three that every command has."""
    assert ["6", "6"] == seen(Limits(open_files=6), shell)["Max open files"]


def test_shell_is_one_that_is_known() -> None:
    """Whatever /bin/sh may be: some pretend to set limits."""
    assert quickest_shell() in (BASH, DASH)
