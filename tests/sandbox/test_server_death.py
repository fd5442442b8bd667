"""What happens to commands, stand-ins and private folders when the server is killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox import Policy, Process, sweep
from tests.sandbox.machine import REPOSITORY, Machine

_DEADLINE_S = 20.0


def working_in(folder: Path) -> dict[int, int]:
    """The processes with that working directory, with a pidfd for each."""
    found = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            if os.readlink(f"/proc/{pid}/cwd") == str(folder):
                found[pid] = os.pidfd_open(pid)
        except OSError:
            continue
    return found


def assert_ends(processes: dict[int, int]) -> None:
    """Each of them is gone in a moment."""
    deadline = time.monotonic() + _DEADLINE_S
    try:
        for pid, descriptor in processes.items():
            left = max(0, deadline - time.monotonic())
            assert select.select([descriptor], [], [], left)[0], f"process {pid} lives on"
    finally:
        for descriptor in processes.values():
            os.close(descriptor)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_child_survives_the_server(expendable: Machine, how: signal.Signals) -> None:
    """Not even one that hides in a session of its own and ignores signals."""
    machine = expendable
    machine.open_session()
    machine.begin(
        "trap '' TERM HUP; setsid nohup sleep 600 >/dev/null 2>&1 & "
        "cd /proc/self; cd -; echo begun; sleep 600",
        announce=True,
    )
    while "begun" not in machine.remote.receive()["piece"]:
        pass
    running = working_in(machine.workspace)
    assert len(running) >= 2
    machine.remote.popen.send_signal(how)
    machine.remote.popen.wait(_DEADLINE_S)
    assert_ends(running)


def test_next_start_clears_up(expendable: Machine) -> None:
    """Stand-ins and private folders of a killed server go when the next session starts."""
    machine = expendable
    machine.open_session()
    machine.begin("echo begun; sleep 600", announce=True)
    machine.remote.receive()
    assert (machine.workspace / ".vscode").is_dir()
    machine.remote.popen.kill()
    machine.remote.popen.wait(_DEADLINE_S)
    assert (machine.workspace / ".vscode").is_dir()
    (machine.workspace / ".vscode/settings.json").write_text("the user's own")
    machine.restart()
    machine.open_session(session="next")
    assert {".vscode"} == {path.name for path in machine.workspace.iterdir()}
    assert 1 == len(os.listdir(machine.state / "sessions"))


def test_sweep_leaves_the_living_alone(tmp_path: Path) -> None:
    """Another process' session and running call keep what they use."""
    workspace, state = tmp_path / "workspace", str(tmp_path / "state")
    workspace.mkdir()
    policy = Policy.for_workspace(str(workspace), state_dir=state)
    code = "import sandbox, sys; sandbox.sweep(sys.argv[1])"

    def sweep_elsewhere(_: bytes) -> None:
        subprocess.run([sys.executable, "-c", code, state], cwd=REPOSITORY, check=True)
        sweep(state)

    result = Process(policy, "echo begun; test -d .vscode && test -d ~ && touch /tmp/x").run(
        timeout_s=30, on_output=sweep_elsewhere
    )
    assert 0 == result.exit_code
    assert Path(policy.folders.tmp, "x").exists()
    policy.discard()


def test_server_killed_during_the_start_runs_nothing(expendable: Machine) -> None:
    """A command whose server dies before the sandbox is verified does not begin."""
    machine = expendable
    for step in range(8):
        machine.open_session(session=f"s{step}")
        machine.begin("sleep 1; touch ran", session=f"s{step}")
        # Not an event to wait for: each round hits another moment of the start.
        select.select([], [], [], step * 0.003)
        machine.remote.popen.kill()
        machine.remote.popen.wait(_DEADLINE_S)
        assert_ends(working_in(machine.workspace))
        machine.restart()
    assert not (machine.workspace / "ran").exists()


def test_half_built_sandbox_goes_with_the_server(expendable: Machine) -> None:
    """It and its first child die also when neither is tied to anything yet."""
    machine = expendable
    begun = machine.base / "begun"
    os.mkfifo(begun)
    # As bwrap is when it has started its child, and neither has gone on.
    program = machine.write(
        "bin/bwrap",
        f"#!/bin/bash\ncd {machine.workspace}\nread -r -d '' tie <&$2\nsleep 600 &\n"
        f"echo $tie > {begun}\nexec sleep 600\n",
        0o755,
    )
    machine.open_session()
    machine.begin("true", environ={"PATH": f"{program.parent}:{machine.environ['PATH']}"})
    assert "--die-with-parent\n" == begun.read_text()
    running = working_in(machine.workspace)
    assert len(running) == 2
    machine.remote.popen.kill()
    machine.remote.popen.wait(_DEADLINE_S)
    assert_ends(running)


def test_half_built_sandbox_goes_with_bwrap(machine: Machine) -> None:
    """A bwrap that is killed after it has started its first child leaves none."""
    program = machine.write(
        "bin/bwrap",
        f"#!/bin/bash\ncd {machine.workspace}\nsleep 600 &\necho $! > ../child\nkill -9 $$\n",
        0o755,
    )
    machine.open_session()
    machine.begin("true", environ={"PATH": f"{program.parent}:{machine.environ['PATH']}"})
    assert machine.remote.receive()["exit_code"] is None
    assert_ends(working_in(machine.workspace))
