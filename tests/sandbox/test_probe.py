"""Whether a sandbox can be built: an honest yes, or the reason and a remedy, and nothing runs."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
from pathlib import Path

import pytest

from sandbox import Policy, Process, probe
from sandbox.diagnosis import diagnose
from tests.sandbox.machine import Machine

_REAL = shutil.which("bwrap") or "/usr/bin/bwrap"
# Of a `bwrap` that does something when it was told what to build, and builds that then.
_ONCE_TOLD = '[ "$(tr -d \\\\0 <&"$2")" = --die-with-parent ] || exit 9; shift 2'
_GO_ON = f'exec {_REAL} --die-with-parent "$@"'


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder to be first on PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    return folder


def fake_bwrap(folder: Path, script: str) -> Path:
    """A `bwrap` that does something else."""
    program = folder / "bwrap"
    program.write_text(f"#!/bin/bash\n{script}\n")
    program.chmod(0o755)
    return program


def environ(*folders: Path | str) -> dict[str, str]:
    """This environment with another PATH."""
    return {**os.environ, "PATH": os.pathsep.join(map(str, folders))}


def test_sandbox_is_available_here(machine: Machine) -> None:
    """As root and as an unprivileged user, with every flag."""
    found = machine.remote.ask(do="probe")
    assert (True, "", "") == (found["ok"], found["reason"], found["remedy"])


def test_missing_bwrap_is_said(programs: Path) -> None:
    """No other place than PATH is tried, and the remedy says what to install."""
    found = probe(environ(programs))
    assert not found.ok
    assert "not on PATH" in found.reason
    assert "install bubblewrap" in found.remedy


def test_nothing_runs_without_bwrap(programs: Path, tmp_path: Path) -> None:
    """Never unsandboxed: the command fails with the reason."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    policy = Policy.for_workspace(str(workspace), state_dir=str(tmp_path / "state"))
    result = Process(policy, "touch ran", environ=environ(programs)).run(
        timeout_s=30, on_output=_unexpected
    )
    policy.discard()
    assert result.setup_error
    assert "not on PATH" in result.setup_error
    assert "install bubblewrap" in result.setup_error
    assert [] == list(workspace.iterdir())


def test_bwrap_in_the_workspace_is_never_taken(tmp_path: Path) -> None:
    """Neither directly nor through a link; the next one on PATH is."""
    workspace = tmp_path / "workspace"
    links = tmp_path / "links"
    (workspace / "bin").mkdir(parents=True)
    links.mkdir()
    trap = fake_bwrap(workspace / "bin", f"touch {tmp_path}/trapped")
    (links / "bwrap").symlink_to(trap)
    policy = Policy.for_workspace(str(workspace), state_dir=str(tmp_path / "state"))
    path = environ(workspace / "bin", links, ".", "", os.path.dirname(_REAL))
    result = Process(policy, "true", environ=path).run(timeout_s=30, on_output=_unexpected)
    policy.discard()
    assert 0 == result.exit_code
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize(
    ("message", "reason", "remedy"),
    [
        ("setting up uid map: Permission denied", "restricted", "apparmor"),
        ("setting up uid map: Operation not permitted", "restricted", "sysctl"),
        (
            (
                "No permissions to creating new namespace, likely because the kernel does not "
                "allow non-privileged user namespaces."
            ),
            "not permitted",
            "unprivileged_userns_clone",
        ),
        ("No permissions to create a new namespace", "not permitted", "sysctl"),
        ("Creating new namespace failed: Operation not permitted", "refuses", "container"),
        ("loopback: Failed RTM_NEWADDR: Operation not permitted", "private network", "container"),
        ("Can't mount proc on /newroot/proc: Operation not permitted", "mount", "systempaths"),
        ("Unknown option --disable-userns", "older than 0.8", "install bubblewrap"),
        ("Exceeded maximum number of arguments 9000", "more paths are to be", "hide fewer"),
        ("execvp /bin/bash: No such file or directory", "/bin/bash", "install bash"),
        ("something new", "something new", "bwrap --ro-bind"),
        ("", "without a message", "bwrap --ro-bind"),
    ],
)
def test_refusal_of_bwrap_is_explained(
    programs: Path, message: str, reason: str, remedy: str
) -> None:
    """Its message is kept and comes with a meaning and a remedy; its text is no output."""
    fake_bwrap(programs, f'[ -n "{message}" ] && echo "bwrap: {message}" >&2; exit 1')
    found = probe(environ(programs, *os.environ["PATH"].split(":")))
    assert not found.ok
    assert reason in found.reason
    assert message in found.reason
    assert remedy.lower() in found.remedy.lower()
    assert reason in diagnose(f"bwrap: {message}" if message else "").reason


def test_a_bwrap_that_never_ends_is_told_in_words(programs: Path) -> None:
    """What was waited for, how long, and what a person can try; no value of ours."""
    fake_bwrap(programs, "exec sleep 60")
    found = probe(environ(programs, *os.environ["PATH"].split(":")), timeout_s=0.5)
    assert "/bin/true did not end in it within 0.5 s" == found.reason
    assert "bwrap --ro-bind" in found.remedy


def test_a_bwrap_that_is_no_program_is_named(programs: Path) -> None:
    """The file to look at, and what to install."""
    program = fake_bwrap(programs, "")
    program.write_text("no program")
    found = probe(environ(programs, *os.environ["PATH"].split(":")))
    assert "could not be started" in found.reason
    assert str(program) in found.remedy
    assert "install bubblewrap" in found.remedy


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("exit 0", id="does nothing"),
        pytest.param('shift 9; exec "$@"', id="runs unsandboxed"),
        pytest.param("kill -9 $$", id="dies"),
        pytest.param("printf '\\0junk\\0'; exit 0", id="reports junk"),
        pytest.param("printf '\\0'; read x && touch ran", id="reports no process"),
        pytest.param(
            """printf '{"child-pid": %s}\\n' $$ >&"$8"; printf '\\0'; read x && touch ran""",
            id="reports another process",
        ),
    ],
)
def test_bwrap_that_builds_no_sandbox_is_found_out(
    programs: Path, tmp_path: Path, script: str
) -> None:
    """The command is not let go unless the mounts are there."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    fake_bwrap(programs, f"cd {workspace}; {script}")
    policy = Policy.for_workspace(str(workspace), state_dir=str(tmp_path / "state"))
    path = environ(programs, *os.environ["PATH"].split(":"))
    result = Process(policy, f"touch {workspace}/ran", environ=path).run(
        timeout_s=30, on_output=_unexpected
    )
    policy.discard()
    assert result.exit_code is None
    assert result.setup_error or result.signal
    assert [] == list(workspace.iterdir())


@pytest.mark.parametrize("name", ["sub", ".github", "workspace"])
def test_swap_while_the_sandbox_is_built_is_found_out(
    programs: Path, tmp_path: Path, name: str
) -> None:
    """A folder that has become a symlink binds nothing else: that sandbox is thrown away."""
    base = Path("/var/lib" if os.access("/var/lib", os.W_OK) else tmp_path) / f"swap-{os.getpid()}"
    workspace, outside = base / "workspace", base / "outside"
    try:
        for folder in ("sub/.vscode", ".github/workflows"):
            (workspace / folder).mkdir(parents=True)
        for folder in (".vscode", "workflows"):
            (outside / folder).mkdir(parents=True)
        path = workspace if name == "workspace" else workspace / name
        target = os.path.relpath(outside, path.parent)
        fake_bwrap(
            programs,
            f"echo x >> {base}/starts; cd {path.parent}; {_ONCE_TOLD}\n"
            f"[ -L {name} ] || {{ mv {name} was && ln -s {target} {name}; }}\n"
            f"{_GO_ON}",
        )
        policy = Policy.for_workspace(str(workspace), state_dir=str(tmp_path / "state"))
        Process(
            policy,
            f"touch {outside}/ran {outside}/workflows/ran",
            environ=environ(programs, *os.environ["PATH"].split(":")),
        ).run(timeout_s=30, on_output=lambda _: None)
        policy.discard()
        assert [] == [found for found in outside.rglob("*") if found.is_file()]
        # The first was refused. A second one sees the link for what it is; where that is the
        # workspace it is never told what to build, and ended perhaps before it could count.
        starts = len((base / "starts").read_text().split())
        assert starts in ((1, 2) if name == "workspace" else (2,))
    finally:
        shutil.rmtree(base)


def test_socket_that_goes_away_meanwhile_does_no_harm(programs: Path, tmp_path: Path) -> None:
    """Sockets come and go on any machine; the sandbox is built again without the mask."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(workspace / "sock"))
        server.listen()
        fake_bwrap(programs, f"{_ONCE_TOLD}; rm -f {workspace}/sock; {_GO_ON}")
        policy = Policy.for_workspace(str(workspace), state_dir=str(tmp_path / "state"))
        path = environ(programs, *os.environ["PATH"].split(":"))
        result = Process(policy, "exit 7", environ=path).run(timeout_s=30, on_output=_unexpected)
        policy.discard()
    assert (7, None) == (result.exit_code, result.setup_error)


@pytest.mark.skipif(not os.path.exists(_REAL), reason="bwrap is not installed")
@pytest.mark.parametrize("how", ["exec {}", "{}"])
def test_nothing_outlives_the_call_where_bwrap_is_a_script(
    programs: Path, tmp_path: Path, how: str
) -> None:
    """As some systems have it: `bwrap` runs the program, which has another name."""
    (tmp_path / "workspace").mkdir()
    program = shutil.copy(_REAL, programs / ".bwrap-wrapped")
    fake_bwrap(programs, how.format(program) + ' "$@"')
    policy = Policy.for_workspace(str(tmp_path / "workspace"), state_dir=str(tmp_path / "state"))
    mark = f"600.{os.getpid()}"
    command = f"for i in {{1..300}}; do setsid sleep {mark} & done; exit 3"
    path = environ(programs, *os.environ["PATH"].split(":"))
    for _ in range(2):
        result = Process(policy, command, environ=path).run(timeout_s=60, on_output=_unexpected)
        assert (3, []) == (result.exit_code, _running(mark))
    policy.discard()


def _running(mark: str) -> list[str]:
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            arguments = Path("/proc", pid, "cmdline").read_text(errors="replace")
            if mark in arguments:
                found.append(arguments)
    return found


def test_shortage_of_descriptors_is_said(tmp_path: Path) -> None:
    """Nothing runs, nothing leaks, and the reason is told."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    policy = Policy.for_workspace(str(workspace), state_dir=str(tmp_path / "state"))
    Process(policy, "true").run(timeout_s=30, on_output=_unexpected)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = os.listdir("/proc/self/fd")
    highest = max(map(int, before))
    try:
        for spare in range(1, 40, 2):
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + spare, limits[1]))
            result = Process(policy, "true").run(timeout_s=30, on_output=_unexpected)
            assert result.setup_error or 0 == result.exit_code
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    policy.discard()
    assert len(before) > len(os.listdir("/proc/self/fd"))  # the lease of the session is gone
    assert [] == list(workspace.iterdir())


def _unexpected(piece: bytes) -> None:
    raise AssertionError(piece)
