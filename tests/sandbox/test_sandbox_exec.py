"""
The runner for macOS with a stand-in for `sandbox-exec`: no Mac has run it.

The stand-in checks its arguments as the real one would and then runs the command with no
sandbox at all, so what is tested is argv, output, time, kill and what is left, not isolation.
"""

from __future__ import annotations

import functools
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from sandbox import Policy, Process, Result, sandbox_exec
from sandbox.descendants import choose
from sandbox.limits import BASH, Limits, gated
from tests.sandbox.machine import REPOSITORY

_DEADLINE_S = 20.0
_STAND_IN = r"""#!/bin/bash
fail() { echo "sandbox-exec: $1" >&2; exit 65; }
[ "$1" = -p ] || fail "usage"
profile=$2; shift 2
names=" "
while [ "$1" = -D ]; do
  [[ $2 == *=/* ]] || fail "$2 is no definition"
  names+="${2%%=*} "; shift 2
done
[[ $profile == "(version 1)"* ]] || fail "no version"
for name in $(grep -o '(param "[^"]*")' <<<"$profile" | cut -d'"' -f2); do
  [[ $names == *" $name "* ]] || fail "missing parameter $name"
done
printf '%s' "$profile" > "${0%/*}/profile"
exec "$@"
"""
# What Python lacks there, and what tells it apart.
_AS_ON_A_MAC = """
import subprocess, sys, tempfile, pwd, tomllib, logging, json, select, signal, os
for name in ("O_PATH", "memfd_create", "MFD_CLOEXEC", "pidfd_open", "eventfd", "pipe2"):
    delattr(os, name)
del signal.pidfd_send_signal
sys.platform = "darwin"
# The way to wait for a process without reaping it is another one there, too.
class Queue:
    def control(self, changes, most):
        os.waitid(os.P_PID, changes[0][0], os.WEXITED | os.WNOWAIT)
    def close(self): pass
select.kqueue, select.kevent = Queue, lambda *fields: fields
select.KQ_FILTER_PROC = select.KQ_EV_ADD = select.KQ_NOTE_EXIT = 0
import sandbox
from sandbox import sandbox_exec, seatbelt
workspace, state, program = sys.argv[1:]
policy = sandbox.Policy.for_workspace(workspace, state_dir=state)
sys.stdout.write(str(sandbox.Process(policy, "true").run(timeout_s=9, on_output=print).setup_error))
import functools
backend = functools.partial(sandbox_exec.run, program=program)
process = sandbox.Process(policy, "echo; echo out; exit 7", backend=backend)
result = process.run(timeout_s=30, on_output=lambda piece: sys.stdout.write(piece.decode()))
policy.discard()
print(result.exit_code, result.setup_error, os.listdir(workspace), os.listdir(state + "/sessions"))
"""

Run = Callable[..., tuple[Result, bytes]]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The stand-in."""
    path = tmp_path / "bin/sandbox-exec"
    path.parent.mkdir()
    path.write_text(_STAND_IN)
    path.chmod(0o755)
    return path


@pytest.fixture
def policy(tmp_path: Path) -> Iterator[Policy]:
    """A session in an empty workspace."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    policy = Policy.for_workspace(str(workspace), state_dir=str(tmp_path / "state"))
    yield policy
    policy.discard()


def prepare(policy: Policy, program: Path, command: str, *keep_fds: int) -> Process:
    """A command that the stand-in will run."""
    backend = functools.partial(sandbox_exec.run, program=str(program))
    return Process(policy, command, backend=backend, keep_fds=keep_fds)


@pytest.fixture
def run(policy: Policy, program: Path) -> Run:
    """Runs a command with the stand-in."""

    def run_one(command: str, timeout_s: float = _DEADLINE_S) -> tuple[Result, bytes]:
        output: list[bytes] = []
        result = prepare(policy, program, command).run(timeout_s=timeout_s, on_output=output.append)
        return result, b"".join(output)

    return run_one


def test_command_runs_under_the_profile(run: Run, policy: Policy, program: Path) -> None:
    """In the workspace, with both streams merged, and nothing on its standard input."""
    result, output = run("pwd; cat; echo err >&2; exit 3")
    assert (3, None) == (result.exit_code, result.setup_error)
    assert f"{policy.workspace}\nerr\n".encode() == output
    assert (program.parent / "profile").read_text().startswith("(version 1)\n(deny default")


def test_environment_is_the_policys(run: Run, policy: Policy) -> None:
    """With home and temporary folder where they really are, and the mark."""
    _, output = run('echo "$HOME $TMPDIR"; env | grep -c ^SANDBOX_CALL=sandbox-; env | wc -l')
    lines = output.decode().split("\n")
    assert f"{policy.folders.home} {policy.folders.tmp}" == lines[0]
    assert "1" == lines[1]
    # Bash adds PWD, SHLVL and _, and once more OLDPWD.
    assert int(lines[2]) <= len(policy.environment) + 1 + 4


@pytest.mark.parametrize(
    ("command", "exit_code"), [("true", 0), ("kill -9 $$", 137), ("kill $$", 143), ("nope", 127)]
)
def test_exit_code_is_the_shells(run: Run, command: str, exit_code: int) -> None:
    """Signals show as 128+n, as on Linux."""
    result, _ = run(command)
    assert (exit_code, None, None) == (result.exit_code, result.signal, result.setup_error)


def test_limits_are_set_before_the_command(policy: Policy, program: Path) -> None:
    """By the shell that waits inside."""
    limited = attrs.evolve(policy, limits=Limits(processes=77, file_bytes=2048, open_files=55))
    output: list[bytes] = []
    prepare(limited, program, "ulimit -c; ulimit -f; ulimit -n; ulimit -u").run(
        timeout_s=_DEADLINE_S, on_output=output.append
    )
    assert b"0\n2\n55\n77\n" == b"".join(output)


def test_descriptor_is_inherited_only_if_named(policy: Policy, program: Path) -> None:
    """With its number; that of the run_code channel, for instance."""
    reader, writer = os.pipe()
    prepare(policy, program, f"echo hi >&{writer}", writer).run(
        timeout_s=_DEADLINE_S, on_output=print
    )
    assert b"hi\n" == os.read(reader, 9)
    result = prepare(policy, program, f"echo hi >&{writer}").run(
        timeout_s=_DEADLINE_S, on_output=lambda _: None
    )
    assert 1 == result.exit_code
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize(
    ("script", "reason", "remedy"),
    [
        ("exit 65", "without a message", "report it"),
        ("echo 'sandbox-exec: unbound variable: foo' >&2; exit 65", "unbound variable", "report"),
        (
            "echo 'sandbox-exec: sandbox_apply: Operation not permitted' >&2; exit 71",
            "inside another one",
            "outside of any sandbox",
        ),
        ("echo 'execvp() of bash failed: No such file' >&2; exit 71", "/bin/bash", "install bash"),
        ("printf '\\0table\\0'; sleep 600", "did not start the shell", "report"),
        ("kill -9 $$", "without a message", "report"),
    ],
)
def test_refusal_is_explained_and_nothing_runs(
    policy: Policy, program: Path, script: str, reason: str, remedy: str
) -> None:
    """Its message is a reason and no output."""
    program.write_text(f"#!/bin/bash\n{script}\n")
    result = prepare(policy, program, "touch ran").run(timeout_s=_DEADLINE_S, on_output=_unexpected)
    assert result.exit_code is None
    assert result.setup_error
    assert reason in result.setup_error
    assert remedy in result.setup_error or reason.startswith("did not start")
    assert [] == os.listdir(policy.workspace)


def test_missing_program_is_said(policy: Policy, program: Path) -> None:
    """As it is for whoever has no macOS."""
    program.unlink()
    result = prepare(policy, program, "touch ran").run(timeout_s=_DEADLINE_S, on_output=_unexpected)
    assert result.setup_error
    assert "is not there" in result.setup_error
    assert [] == os.listdir(policy.workspace)


_HIDING = {
    "ignores TERM": "trap '' TERM INT HUP; sleep 600 & echo x; sleep 600",
    "own session": "setsid sleep 600 & echo x; sleep 600",
    "stopped": "sleep 600 & kill -STOP $!; echo x; kill -STOP $$",
    "daemon": "python3 -c 'import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:\n"
    '  print("x", flush=True); time.sleep(600)\n\' & sleep 600',
}


@pytest.mark.parametrize("how", ["kill", "time-out"])
@pytest.mark.parametrize("command", _HIDING.values(), ids=_HIDING)
def test_whole_tree_is_killed(policy: Policy, program: Path, command: str, how: str) -> None:
    """Also what has left the group: it is known by its mark."""
    seen: dict[int, int] = {}
    process = prepare(policy, program, command)

    def take(_: bytes) -> None:
        seen.update(_working_in(policy.workspace))
        if how == "kill":
            process.kill()

    result = process.run(timeout_s=2 if how == "time-out" else _DEADLINE_S, on_output=take)
    assert (how == "kill", how == "time-out") == (result.killed, result.timed_out)
    assert "SIGKILL" == result.signal
    assert len(seen) >= 2
    _end(seen)


@pytest.mark.parametrize("command", ["sleep 600 & echo hi", "setsid sleep 600 & echo hi"])
def test_background_child_does_not_outlive_the_call(run: Run, policy: Policy, command: str) -> None:
    """Nor does it hold the call up."""
    result, output = run(command)
    assert (0, b"hi\n") == (result.exit_code, output)
    _end(_working_in(policy.workspace))


def test_no_child_survives_the_server(policy: Policy, program: Path) -> None:
    """The watchdog kills the group and what descends from it."""
    code = (
        "import functools, os, sys; from sandbox import Policy, Process, sandbox_exec\n"
        "policy = Policy.for_workspace(sys.argv[1], state_dir=sys.argv[2])\n"
        "object.__setattr__(policy.folders.watchdog, '_sweeps', True)\n"
        "backend = functools.partial(sandbox_exec.run, program=sys.argv[3])\n"
        "process = Process(policy, 'setsid sleep 600 & echo begun; sleep 600', backend=backend)\n"
        "process.run(timeout_s=600, on_output=lambda piece: os.write(1, piece))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, policy.workspace, policy.state_dir, str(program)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdout is not None
        assert b"begun\n" == server.stdout.readline()
        running = _working_in(policy.workspace)
        server.kill()
    assert len(running) >= 2
    _end(running)


def test_server_killed_before_the_release_runs_nothing(policy: Policy, program: Path) -> None:
    """The shell inside sees the end of its standard input."""
    reader, writer = os.pipe()
    os.set_inheritable(reader, True)
    argv = [str(program), "-p", "(version 1)"]
    argv += gated("touch ran", Limits(), shell=BASH)
    with subprocess.Popen(
        argv, stdin=reader, cwd=policy.workspace, stdout=subprocess.DEVNULL
    ) as it:
        os.close(reader)
        os.close(writer)
        assert 0 != it.wait(_DEADLINE_S)
    assert [] == os.listdir(policy.workspace)


def test_kill_at_any_moment_leaves_nothing(policy: Policy, program: Path) -> None:
    """Also before the start and while the shell inside is starting."""
    for step in range(8):
        process = prepare(policy, program, "sleep 600")
        timer = threading.Timer(step * 0.003, process.kill)
        timer.start()
        result = process.run(timeout_s=300, on_output=_unexpected)
        timer.join()
        assert result.killed, result
        assert result.setup_error is None
    _end(_working_in(policy.workspace))


def test_nothing_is_left_open(run: Run) -> None:
    """Neither descriptors nor threads, after a normal end, a time-out and a failure."""
    run("true")
    before = len(os.listdir("/proc/self/fd"))
    threads = threading.active_count()
    run("true")
    run("sleep 600", timeout_s=0.3)
    run("x" * 200_000)
    assert before == len(os.listdir("/proc/self/fd"))
    assert threads == threading.active_count()


def test_exception_of_the_receiver_kills_and_goes_on(policy: Policy, program: Path) -> None:
    """As on Linux."""

    def refuse(_: bytes) -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        prepare(policy, program, "echo x; sleep 600").run(timeout_s=300, on_output=refuse)
    _end(_working_in(policy.workspace))


def test_no_name_is_used_that_a_mac_lacks(tmp_path: Path, program: Path) -> None:
    """The package can be imported there, says that sandbox-exec is missing, and runs with it."""
    (tmp_path / "workspace").mkdir()
    done = subprocess.run(
        [
            *(sys.executable, "-c", _AS_ON_A_MAC),
            *(str(tmp_path / "workspace"), str(tmp_path / "state"), str(program)),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=_DEADLINE_S,
    )
    assert "" == done.stderr
    missing, *lines = done.stdout.splitlines()
    assert missing.startswith("/usr/bin/sandbox-exec is not there")
    assert ["out", "7 None [] []"] == lines


@pytest.mark.parametrize(
    ("listing", "chosen"),
    [
        pytest.param("1 0 1 init\n5 1 5 bash\n6 5 5 sleep\n", {5, 6}, id="group"),
        pytest.param("5 1 5 bash\n6 5 6 a\n7 6 7 b\n8 7 7 c\n", {5, 6, 7, 8}, id="descendants"),
        pytest.param("9 1 9 daemon A=1 M=x B=2\n10 9 10 d\n", {9, 10}, id="mark"),
        pytest.param("9 1 9 grep M=xy\n11 1 11 yM=x\n", set(), id="like the mark"),
        pytest.param("junk\n\n5\na b c d\n12 1 12\n", set(), id="no processes"),
    ],
)
def test_processes_are_chosen_by_group_descent_and_mark(listing: str, chosen: set[int]) -> None:
    """And no others."""
    assert chosen == choose(listing, 5, "M=x")


def _unexpected(piece: bytes) -> None:
    raise AssertionError(piece)


def _working_in(folder: str) -> dict[int, int]:
    """The processes with that working directory, with a pidfd for each."""
    found = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            if os.readlink(f"/proc/{pid}/cwd") == folder and pid != os.getpid():
                found[pid] = os.pidfd_open(pid)
        except OSError:
            continue
    return found


def _end(processes: dict[int, int]) -> None:
    """Each of them is gone in a moment."""
    deadline = time.monotonic() + _DEADLINE_S
    for pid, descriptor in processes.items():
        left = max(0, deadline - time.monotonic())
        ended = select.select([descriptor], [], [], left)[0]
        os.close(descriptor)
        assert ended, f"process {pid} lives on"
