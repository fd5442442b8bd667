"""How a command runs and ends: output, exit, time, kill, and what is left of it."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import Policy, Process, Result
from tests.sandbox.machine import Machine

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")
_DEADLINE_S = 20.0
# Runs bwrap, but the first time kills what waits in the sandbox before that is heard of.
_DIES_ONCE = """#!{python}
import os, select, signal, subprocess, sys
argv = ["{bwrap}", *sys.argv[1:]]
try:
    os.mkdir(os.path.join(os.path.dirname(sys.argv[0]), "died"))
except FileExistsError:
    os.execv(argv[0], argv)
reader, writer = os.pipe()
bwrap = subprocess.Popen(argv, stdout=writer, stderr=writer, close_fds=False)
os.read(reader, 1)
with open(f"/proc/{{bwrap.pid}}/task/{{bwrap.pid}}/children") as children:
    init = int(children.read())
exited = os.pidfd_open(init)
os.kill(bwrap.pid, signal.SIGSTOP)
os.kill(init, signal.SIGKILL)
select.select([exited], [], [])
os.write(1, bytes(1))
signal.pause()
"""


@pytest.fixture
def policy(tmp_path: Path) -> Iterator[Policy]:
    """A session in an empty workspace, in this very process."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    policy = Policy.for_workspace(str(workspace), state_dir=str(tmp_path / "state"))
    yield policy
    policy.discard()


def run(policy: Policy, command: str, timeout_s: float = 30) -> tuple[Result, bytes]:
    """Run a command and collect what it says."""
    output: list[bytes] = []
    result = Process(policy, command).run(timeout_s=timeout_s, on_output=output.append)
    return result, b"".join(output)


def test_output_streams_are_merged_in_order(policy: Policy) -> None:
    """Standard output and standard error arrive as one, in the order of writing."""
    result, output = run(policy, "echo a; echo b >&2; echo c")
    assert (0, b"a\nb\nc\n") == (result.exit_code, output)


def test_output_comes_as_it_is_written(policy: Policy) -> None:
    """The first line is delivered while the command still runs."""
    pieces: list[bytes] = []
    process = Process(policy, "echo first; sleep 600")

    def take(piece: bytes) -> None:
        pieces.append(piece)
        process.kill()

    result = process.run(timeout_s=_DEADLINE_S, on_output=take)
    assert [b"first\n"] == pieces
    assert result.killed
    assert not result.timed_out


def test_output_is_delivered_on_the_calling_thread(policy: Policy) -> None:
    """No thread of the sandbox's own ever calls."""
    callers: list[int] = []
    before = threading.active_count()
    Process(policy, "echo x").run(
        timeout_s=_DEADLINE_S, on_output=lambda _: callers.append(threading.get_ident())
    )
    assert [threading.get_ident()] == callers
    assert before == threading.active_count()


@pytest.mark.parametrize(
    ("command", "exit_code"),
    [("true", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill $$", 143), ("no-such-program", 127)],
)
def test_exit_code_is_the_shells(policy: Policy, command: str, exit_code: int) -> None:
    """Signals show as 128+n; a command that ran is never a failure of the sandbox."""
    result, _ = run(policy, command)
    assert (exit_code, None, None) == (result.exit_code, result.signal, result.setup_error)


def test_bash_runs_the_command(policy: Policy) -> None:
    """Arrays, process substitution and heredocs work."""
    _, output = run(policy, "a=(1 2); cat <(echo ${a[1]}) - <<END\nhere\nEND")
    assert b"2\nhere\n" == output


def test_standard_input_is_empty(policy: Policy) -> None:
    """A command that reads does not wait."""
    result, output = run(policy, "cat; read x; echo $?")
    assert (0, b"1\n") == (result.exit_code, output)


def test_works_in_the_workspace(policy: Policy) -> None:
    """The working directory is the workspace, and what is written there is on the host."""
    _, output = run(policy, "pwd; echo hi > new.txt; mkdir -p a/b; touch a/b/c")
    assert f"{policy.workspace}\n".encode() == output
    assert "hi\n" == (Path(policy.workspace) / "new.txt").read_text()
    assert (Path(policy.workspace) / "a/b/c").exists()


def test_tmp_is_private_and_lasts_for_the_session(policy: Policy) -> None:
    """Two calls share it, the host's does not change, and TMPDIR names it."""
    name = f"keep-{os.urandom(8).hex()}"
    run(policy, f"f=$(mktemp); echo z > $f; cp $f /tmp/{name}")
    _, output = run(policy, f"cat /tmp/{name} /var/tmp/{name}; echo $TMPDIR; ls -d $TMPDIR")
    assert b"z\nz\n/tmp\n/tmp\n" == output
    assert not Path("/tmp", name).exists()


def test_home_is_private_and_lasts_for_the_session(policy: Policy) -> None:
    """What a command leaves in its home is seen by the next one and not by the user."""
    run(policy, "echo z > ~/.left")
    assert b"z\n" == run(policy, "cat ~/.left")[1]
    assert not (Path.home() / ".left").exists()


def test_discard_removes_what_the_session_left(policy: Policy, tmp_path: Path) -> None:
    """The private folders go, also when a command took its own rights away."""
    other = Policy.for_workspace(policy.workspace, state_dir=policy.state_dir, session="other")
    run(other, "mkdir -p ~/a/b /tmp/c; chmod 0 ~/a")
    other.discard()
    assert not (tmp_path / "state/sessions/other").exists()


def test_time_out_kills_and_keeps_what_was_printed(policy: Policy) -> None:
    """A command that runs out of time is over at once."""
    result, output = run(policy, "echo partial; sleep 600", timeout_s=1.5)
    assert b"partial\n" == output
    assert (True, None, "SIGKILL") == (result.timed_out, result.exit_code, result.signal)
    assert result.duration_s < _DEADLINE_S


_HIDING = {
    "ignores TERM": "trap '' TERM INT HUP; sleep 600 & echo x; sleep 600",
    "own session": "setsid sleep 600 & echo x; sleep 600",
    "stopped": "sleep 600 & kill -STOP $!; echo x; kill -STOP $$",
    "nohup": "nohup sleep 600 >/dev/null & echo x; sleep 600",
    "daemon": "python3 -c 'import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:\n"
    '  print("x", flush=True); time.sleep(600)\n\' & sleep 600',
}


@pytest.mark.parametrize("command", _HIDING.values(), ids=_HIDING)
def test_kill_reaches_the_whole_tree(policy: Policy, command: str) -> None:
    """No process of the command lives on, however it hides."""
    seen: list[str] = []
    process = Process(policy, command)

    def take(_: bytes) -> None:
        seen.extend(_working_in(policy.workspace))
        process.kill()

    result = process.run(timeout_s=_DEADLINE_S, on_output=take)
    assert (True, False) == (result.killed, result.timed_out)
    assert len(seen) >= 2
    assert [] == _working_in(policy.workspace)


def test_time_out_kills_the_whole_tree(policy: Policy) -> None:
    """As a kill does."""
    seen: list[str] = []
    command = "trap '' TERM; setsid nohup sleep 600 & sleep 600 & kill -STOP $!; echo x; sleep 600"
    result = Process(policy, command).run(
        timeout_s=2, on_output=lambda _: seen.extend(_working_in(policy.workspace))
    )
    assert result.timed_out
    assert len(seen) >= 3
    assert [] == _working_in(policy.workspace)


@pytest.mark.parametrize(
    "command",
    [
        "sleep 600 & echo hi",
        "setsid sleep 600 & echo hi",
        "nohup sleep 600 & (sleep 600 &) ; echo hi",
    ],
)
def test_background_child_does_not_hold_the_call(policy: Policy, command: str) -> None:
    """The call ends with its shell; what it left in the background is dead by then."""
    result, output = run(policy, command, timeout_s=300)
    assert 0 == result.exit_code
    assert b"hi\n" in output
    assert result.duration_s < _DEADLINE_S
    assert [] == _working_in(policy.workspace)


def test_kill_from_another_thread(policy: Policy) -> None:
    """It ends a running command at once, and killing again does no harm."""
    begun = threading.Event()
    process = Process(policy, "echo begun; trap '' TERM; sleep 600")
    results: list[Result] = []
    thread = threading.Thread(
        target=lambda: results.append(process.run(timeout_s=300, on_output=lambda _: begun.set())),
        name="test-run",
    )
    thread.start()
    assert begun.wait(_DEADLINE_S)
    before = time.monotonic()
    process.kill()
    process.kill()
    assert time.monotonic() - before < 1
    thread.join(_DEADLINE_S)
    assert not thread.is_alive()
    process.kill()
    assert (True, False, "SIGKILL", None) == (
        results[0].killed,
        results[0].timed_out,
        results[0].signal,
        results[0].setup_error,
    )
    _nothing_runs_in(policy)


def test_kill_before_the_start_runs_nothing(policy: Policy) -> None:
    """A cancel that comes first is not lost."""
    process = Process(policy, "touch ran")
    process.kill()
    result = process.run(timeout_s=30, on_output=_unexpected)
    assert result.killed
    assert not (Path(policy.workspace) / "ran").exists()


def test_kill_at_any_moment_leaves_nothing(policy: Policy) -> None:
    """Also while the sandbox is being built: the call returns and nothing runs on."""
    for step in range(12):
        process = Process(policy, "sleep 600")
        timer = threading.Timer(step * 0.002, process.kill)
        timer.start()
        result = process.run(timeout_s=300, on_output=_unexpected)
        timer.join()
        assert result.killed, result
        assert result.setup_error is None
    _nothing_runs_in(policy)
    assert [] == list(Path(policy.workspace).iterdir())


def test_sandbox_that_dies_while_it_waits_is_built_again(policy: Policy, tmp_path: Path) -> None:
    """As when the machine is short of memory: nothing has run, and it says no raw error."""
    program = tmp_path / "bin/bwrap"
    program.parent.mkdir()
    program.write_text(_DIES_ONCE.format(python=sys.executable, bwrap=shutil.which("bwrap")))
    program.chmod(0o755)
    environ = {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    output: list[bytes] = []
    result = Process(policy, "echo x", environ=environ).run(
        timeout_s=_DEADLINE_S, on_output=output.append
    )
    assert (0, None, [b"x\n"]) == (result.exit_code, result.setup_error, output)
    assert (program.parent / "died").is_dir()


def test_kill_while_the_receiver_blocks(policy: Policy) -> None:
    """Back-pressure does not hold a kill up: everything is dead before the receiver goes on."""
    process = Process(policy, "echo x; sleep 600 & sleep 600")
    blocked, go_on = threading.Event(), threading.Event()

    def take(_: bytes) -> None:
        blocked.set()
        assert go_on.wait(_DEADLINE_S)

    thread = threading.Thread(
        target=process.run, kwargs={"timeout_s": 300, "on_output": take}, name="test-run"
    )
    thread.start()
    try:
        assert blocked.wait(_DEADLINE_S)
        process.kill()
        _nothing_runs_in(policy)
    finally:
        go_on.set()
        thread.join(_DEADLINE_S)
    assert not thread.is_alive()


def test_output_in_small_pieces_comes_gathered(policy: Policy) -> None:
    """A progress bar is no event for each of its drawings: at most one in ten milliseconds."""
    pieces: list[bytes] = []
    result = Process(policy, "for i in {1..20000}; do printf '\\r%s' $i; done; exit 5").run(
        timeout_s=60, on_output=pieces.append
    )
    assert 5 == result.exit_code
    assert b"".join(b"\r%d" % number for number in range(1, 20001)) == b"".join(pieces)
    # Of those that fill what is read at once there may be more.
    assert len(pieces) <= 100 * result.duration_s + len(b"".join(pieces)) / 4096 + 2


def test_clock_stands_still_while_the_receiver_blocks(policy: Policy) -> None:
    """A receiver that waits for something longer does not use up the command's time."""
    slower: list[Result] = []
    result = Process(policy, "echo x; sleep 0.3; exit 7").run(
        timeout_s=2, on_output=lambda _: slower.append(run(policy, "sleep 2.5")[0])
    )
    assert [0] == [other.exit_code for other in slower]
    assert (7, False) == (result.exit_code, result.timed_out)


def test_exception_of_the_receiver_kills_and_goes_on(policy: Policy) -> None:
    """Whoever cannot take output any more gets its own exception and no leftovers."""

    def refuse(_: bytes) -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        Process(policy, "echo x; sleep 600").run(timeout_s=300, on_output=refuse)
    _nothing_runs_in(policy)
    assert [] == list(Path(policy.workspace).iterdir())


def test_flood_of_output_is_passed_on_in_bounded_pieces(policy: Policy) -> None:
    """100 MB arrive completely; no piece is large and memory does not grow with them."""
    sizes = {"total": 0, "largest": 0}

    def take(piece: bytes) -> None:
        sizes["total"] += len(piece)
        sizes["largest"] = max(sizes["largest"], len(piece))

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = Process(policy, "head -c 100000000 /dev/zero").run(timeout_s=60, on_output=take)
    assert (0, 100_000_000) == (result.exit_code, sizes["total"])
    assert sizes["largest"] <= 64 * 1024
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_endless_output_runs_out_of_time(policy: Policy) -> None:
    """A flood cannot starve the clock."""
    result = Process(policy, "yes").run(timeout_s=0.5, on_output=lambda _: None)
    assert result.timed_out
    assert result.duration_s < _DEADLINE_S


def test_no_descriptor_is_left_open(policy: Policy) -> None:
    """After a normal end, a time-out, a kill and a command that cannot be started."""
    run(policy, "true")
    before = len(os.listdir("/proc/self/fd"))
    run(policy, "true")
    run(policy, "sleep 600", timeout_s=0.2)
    run(policy, "x" * 200_000)
    process = Process(policy, "true")
    process.kill()
    process.run(timeout_s=1, on_output=_unexpected)
    assert before == len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("x" * 200_000, "too long. To fix it: a command has at most 128 KiB"),
        ("echo \0", "could not be started"),
        ("echo \ud800", "could not be started"),
    ],
)
def test_command_that_cannot_be_passed_on_is_said(policy: Policy, command: str, words: str) -> None:
    """Too long, a NUL, no Unicode: nothing runs and the reason is told."""
    result = Process(policy, command).run(timeout_s=30, on_output=_unexpected)
    assert result.exit_code is None
    assert result.setup_error
    assert words in result.setup_error


def test_lines_of_bwrap_are_not_taken_for_its_own(policy: Policy) -> None:
    """A command may print what looks like a message of bwrap, and NULs."""
    result, output = run(policy, "printf '\\0bwrap: no\\0'; exit 1")
    assert (1, None, b"\0bwrap: no\0") == (result.exit_code, result.setup_error, output)


def test_commands_of_one_session_run_side_by_side(policy: Policy) -> None:
    """Both see the stand-ins for protected paths; the last one removes them."""
    inner: list[Result] = []

    def start_another(_: bytes) -> None:
        inner.append(run(policy, "test -d .vscode")[0])

    outer = Process(policy, "echo x; sleep 0.2; test -d .vscode").run(
        timeout_s=30, on_output=start_another
    )
    assert (0, 0) == (outer.exit_code, inner[0].exit_code)
    assert [] == list(Path(policy.workspace).iterdir())


def test_limits_hold(machine: Machine) -> None:
    """Size of a file, open files, core dumps."""
    machine.open_session(limits={"file_bytes": 1 << 20, "open_files": 64})
    ran = machine.run("head -c 3000000 /dev/zero > big; ulimit -n; ulimit -c; stat -c %s big")
    assert ["64", "0", str(1 << 20)] == ran.text.split()[-3:]


def _unexpected(piece: bytes) -> None:
    raise AssertionError(piece)


def _nothing_runs_in(policy: Policy) -> None:
    """
    Every process with that workspace as its directory ends in a moment.

    Looked for again until there is none: one that is just being killed may have started
    another after we listed them.
    """
    deadline = time.monotonic() + _DEADLINE_S
    while working := _working_in(policy.workspace):
        for pid in working:
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(int(pid))
                ended = select.select([descriptor], [], [], max(0, deadline - time.monotonic()))[0]
                os.close(descriptor)
                assert ended, f"process {pid} lives on"


def _working_in(folder: str) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd") == folder and int(pid) != os.getpid():
                found.append(pid)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("command", ["--version", "-x", "+x true"])
def test_command_is_never_an_option_of_the_shell(policy: Policy, command: str) -> None:
    """One that begins like an option is a command that does not exist."""
    result, output = run(policy, command)
    assert (127, True) == (result.exit_code, b"command not found" in output)
