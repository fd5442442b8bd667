"""How many descriptors a command needs, and what happens when there are no more."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox import Policy, Process, Result

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")
_DEADLINE_S = 30.0
_MOST = 60
_FS_IOC_GETVERSION = 0x80087601


@pytest.fixture
def policy(tmp_path: Path) -> Iterator[Policy]:
    """A session in a fresh repository."""
    workspace = tmp_path / "workspace"
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    policy = Policy.for_workspace(str(workspace), state_dir=str(tmp_path / "state"))
    yield policy
    policy.discard()


def opened() -> int:
    """How many descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))


def counts_inode_uses(folder: str) -> bool:
    """Whether the file system tells a file apart from what gets its inode number later."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        return any(fcntl.ioctl(descriptor, _FS_IOC_GETVERSION, bytes(8)))
    except OSError:
        return False
    finally:
        os.close(descriptor)


@contextmanager
def only(more: int) -> Iterator[None]:
    """Allow at most so many descriptors more than there are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    try:
        # Those below the highest would be free otherwise.
        highest = max(map(int, os.listdir("/proc/self/fd")))
        while (descriptor := os.open("/dev/null", os.O_RDONLY)) < highest:
            taken.append(descriptor)
        os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptor + more, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


@needs_bwrap
def test_running_command_holds_few(policy: Policy) -> None:
    """None for a protected path, where the file system can tell files apart without."""
    if not counts_inode_uses(policy.workspace):
        pytest.skip("this file system does not count how often an inode was used")
    Process(policy, "true").run(timeout_s=_DEADLINE_S, on_output=print)
    before = opened()
    held: list[int] = []
    Process(policy, "echo x").run(
        timeout_s=_DEADLINE_S, on_output=lambda _: held.append(opened() - before)
    )
    # Output, status, two processes, two of the clock, and the journal of the stand-ins.
    assert [7] == held
    assert before == opened()


@needs_bwrap
def test_running_out_is_said_and_nothing_is_left(policy: Policy) -> None:
    """However many there are: the command runs, or the reason is told; it never raises."""
    # From here on the session has its watchdog.
    Process(policy, "true").run(timeout_s=_DEADLINE_S, on_output=print)
    before = opened()
    outcomes = set()
    for more in range(_MOST):
        output: list[bytes] = []
        with only(more):
            result: Result = Process(policy, "echo x").run(
                timeout_s=_DEADLINE_S, on_output=output.append
            )
        if result.setup_error:
            assert result.setup_error.startswith("too many open files: "), result
            assert "ulimit -n" in result.setup_error
            assert [] == output
        else:
            assert (0, [b"x\n"], ()) == (result.exit_code, output, result.restored), result
        outcomes.add(result.exit_code)
        assert before == opened()
    assert {None, 0} == outcomes
    assert 0 == Process(policy, "exit").run(timeout_s=_DEADLINE_S, on_output=print).exit_code
    assert {".git"} == set(os.listdir(policy.workspace))
    assert ["lock"] == os.listdir(os.path.join(policy.state_dir, "stubs"))


@needs_bwrap
def test_command_that_ran_is_no_failed_setup(policy: Policy) -> None:
    """When descriptors run out while it runs, its result is its own."""
    held: list[int] = []

    def take_all(_: bytes) -> None:
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        while len(held) < soft:
            try:
                held.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                break

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        result = Process(policy, "echo x; exit 7").run(timeout_s=_DEADLINE_S, on_output=take_all)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in held:
            os.close(descriptor)
    assert len(held) > 100
    assert (7, None) == (result.exit_code, result.setup_error)


@needs_bwrap
def test_error_of_the_receiver_stays_its_own(policy: Policy) -> None:
    """An `OSError` that it raises is not taken for one of the sandbox."""

    def refuse(_: bytes) -> None:
        raise OSError("the client is gone")

    with pytest.raises(OSError, match="the client is gone"):
        Process(policy, "echo x; sleep 600").run(timeout_s=_DEADLINE_S, on_output=refuse)
