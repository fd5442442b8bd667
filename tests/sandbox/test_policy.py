"""Workspaces, homes, tools and the running Python, wherever they are."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from sandbox import Policy, PolicyError, Process
from sandbox.limits import Limits
from tests.sandbox.machine import REPOSITORY, Machine

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")


def test_private_folders_are_the_users_alone(tmp_path: Path) -> None:
    """The state folder and the session's folder have mode 0700."""
    (tmp_path / "workspace").mkdir()
    policy = Policy.for_workspace(
        str(tmp_path / "workspace"), state_dir=str(tmp_path / "a/state"), session="s-1"
    )
    for folder in (policy.state_dir, policy.folders.path, policy.folders.home):
        assert 0o700 == stat.S_IMODE(os.stat(folder).st_mode)
    assert str(tmp_path / "a/state/sessions/s-1") == policy.folders.path
    policy.discard()


@needs_bwrap
@pytest.mark.parametrize("umask", [0o000, 0o077], ids=oct)
def test_umask_does_not_matter(tmp_path: Path, umask: int) -> None:
    """All of our files have mode 0600 and all of our folders 0700, but what is /tmp inside."""
    (tmp_path / "workspace").mkdir()
    before = os.umask(umask)
    try:
        policy = Policy.for_workspace(
            str(tmp_path / "workspace"), state_dir=str(tmp_path / "a/state"), session="s"
        )
        seen: list[Path] = []
        result = Process(policy, "echo x").run(
            timeout_s=30, on_output=lambda _: seen.extend((tmp_path / "a/state").rglob("*"))
        )
    finally:
        os.umask(before)
    assert 0 == result.exit_code, result
    names = {path.name for path in seen}
    assert {"lock", "git-ignore", "home", "stubs", "sessions", "s"} < names
    assert any(name.endswith(".json") for name in names)
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in seen if path.name.count(".") == 0
    }
    tmp = modes.pop("tmp")
    assert 0o1777 == tmp
    policy.discard()
    assert {} == {
        name: oct(mode)
        for name, mode in modes.items()
        if mode != (0o600 if name in ("lock", "git-ignore", "ignore") else 0o700)
    }


@pytest.mark.parametrize(
    ("workspace", "words"),
    [
        ("/", "root"),
        ("/proc/self", "kernel folder"),
        ("/sys/fs", "kernel folder"),
        ("{base}/missing", "no existing folder"),
        ("{base}/file", "no existing folder"),
        ("{base}/home", "must not be or hold the home"),
        ("{base}", "must not be or hold the home"),
        ("{base}/state", "lies in the hidden folder"),
        ("{base}/state/sessions", "lies in the hidden folder"),
        ("{base}/config/x", "lies in the hidden folder"),
        ("{base}/link-to-home", "must not be or hold the home"),
    ],
)
def test_dangerous_workspace_is_refused(tmp_path: Path, workspace: str, words: str) -> None:
    """The reason names the folder; symlinks are judged by where they lead."""
    for name in ("home", "state/sessions", "config/x"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "link-to-home").symlink_to("home")
    with pytest.raises(PolicyError, match=words):
        Policy.for_workspace(
            workspace.format(base=tmp_path),
            state_dir=str(tmp_path / "state"),
            hidden=[str(tmp_path / "config")],
            environ={**os.environ, "HOME": str(tmp_path / "home")},
        )
    assert [] == list((tmp_path / "state/sessions").iterdir())


@pytest.mark.parametrize("session", ["../evil", "a/b", ".", "", "x" * 200, "a\n"])
def test_session_must_be_a_file_name(tmp_path: Path, session: str) -> None:
    """It becomes a folder below the state folder; an empty one means a random name."""
    (tmp_path / "workspace").mkdir()

    def make() -> Policy:
        return Policy.for_workspace(
            str(tmp_path / "workspace"), state_dir=str(tmp_path / "state"), session=session
        )

    if session:
        with pytest.raises(PolicyError, match="file name"):
            make()
    else:
        policy = make()
        assert 16 == len(os.path.basename(policy.folders.path))
        policy.discard()


@pytest.mark.parametrize("name", ["", "A=B", "A\0"])
def test_variable_that_cannot_be_is_named(tmp_path: Path, name: str) -> None:
    """When the policy is made, not when a command starts."""
    with pytest.raises(PolicyError, match="extra_environment"):
        Policy.for_workspace(
            str(tmp_path), state_dir=str(tmp_path / "state"), extra_environment={name: "x"}
        )


@pytest.mark.parametrize("value", [0, -1, "many", 1.5])
@pytest.mark.parametrize("name", ["processes", "file_bytes", "open_files"])
def test_limit_that_cannot_be_is_named(name: str, value: object) -> None:
    """No command has to be started to find out."""
    with pytest.raises((TypeError, ValueError), match=name):
        Limits(**{name: value})  # type: ignore[arg-type]


def test_discarding_again_does_nothing(tmp_path: Path) -> None:
    """Neither to a descriptor with the old number nor to a session that has the name now."""
    (tmp_path / "workspace").mkdir()

    def make() -> Policy:
        return Policy.for_workspace(
            str(tmp_path / "workspace"), state_dir=str(tmp_path / "state"), session="s"
        )

    first, second = make(), make()
    first.discard()
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(4)]
    first.discard()
    assert Path(second.folders.tmp).is_dir()
    for descriptor in opened:
        os.close(descriptor)
    second.discard()
    assert not Path(second.folders.path).exists()


def test_limits_can_be_given(tmp_path: Path) -> None:
    """The caller decides; the default is generous."""
    (tmp_path / "workspace").mkdir()
    policy = Policy.for_workspace(
        str(tmp_path / "workspace"), state_dir=str(tmp_path / "state"), limits=Limits(1, 2, 3)
    )
    assert Limits(1, 2, 3) == policy.limits
    policy.discard()


@pytest.mark.parametrize("place", ["home", "outside", "link", "tmp", "odd name \n ü'\"$"])
def test_workspace_may_be_anywhere(machine: Machine, place: str) -> None:
    """Below the home, in /tmp, behind a symlink, with any name: writable, and nothing else."""
    folders = {
        "home": machine.home / "projects/ws",
        "outside": machine.outside / "ws",
        "link": machine.base / "real",
        "tmp": Path(f"/tmp/sandbox-test-ws-{os.getpid()}"),
    }
    workspace = folders.get(place, machine.base / place)
    workspace.mkdir(parents=True)
    try:
        machine.own()
        os.chown(workspace, machine.uid, -1)
        named = workspace
        if place == "link":
            named = machine.base / "link"
            named.symlink_to(workspace)
        machine.open_session(named)
        ran = machine.run("pwd; echo hi > made; ls -a ..; echo x > ../evil; true")
        assert f"{workspace}\n" == ran.text[: len(str(workspace)) + 1], ran.setup_error
        assert "hi\n" == (workspace / "made").read_text()
        assert not (workspace.parent / "evil").exists()
        if place == "home":
            assert [] == [path.name for path in machine.home.iterdir() if path.name == "evil"]
    finally:
        shutil.rmtree(workspace)


@pytest.mark.parametrize(
    "home", ["", "relative", "/", "/nonexistent", "/usr", "{base}/file", "/tmp"]
)
def test_odd_home_does_not_keep_commands_from_running(machine: Machine, home: str) -> None:
    """Whatever `$HOME` says; the account's own home is hidden all the same."""
    machine.write(machine.base / "file")
    machine.open_session(environ={"HOME": home.format(base=machine.base)})
    ran = machine.run("cd ~ && echo z > z && cat z && test -d /usr/bin")
    assert (0, "z\n") == (ran.exit_code, ran.text)


def test_state_folder_in_the_workspace_is_out_of_reach(machine: Machine) -> None:
    """An unusual place, but a safe one."""
    machine.state = machine.workspace / "state"
    machine.open_session()
    ran = machine.run("ls state; rm -rf state; touch state/x; echo z > /tmp/z && cat /tmp/z")
    assert "z" == ran.text.split()[-1]
    assert (machine.state / "sessions").is_dir()


def test_tools_of_the_home_run(machine: Machine) -> None:
    """Also when a tool folder is a symlink; none of them can be written."""
    machine.write(machine.home / ".local/bin/tool", "#!/bin/sh\necho tool\n", 0o755)
    machine.write(machine.home / "dotfiles/nvm/node", "#!/bin/sh\necho node\n", 0o755)
    (machine.home / ".nvm").symlink_to("dotfiles/nvm")
    machine.open_session()
    ran = machine.run("~/.local/bin/tool; ~/.nvm/node; ls -A ~; touch ~/.nvm/x || true")
    assert ran.text.startswith("tool\nnode\n")
    assert "dotfiles" not in ran.text
    assert "Read-only" in ran.text


def test_command_cannot_spoil_the_mount_points_of_the_next(machine: Machine) -> None:
    """What it leaves in its private home is out of the way when something is mounted there."""
    machine.write(machine.home / ".cargo/bin/tool", "#!/bin/sh\necho tool\n", 0o755)
    workspace = machine.home / "projects/ws"
    workspace.mkdir(parents=True)
    machine.own()
    machine.open_session(workspace)
    machine.run("cd ~; mv .cargo c; ln -s /etc .cargo; mv projects p; echo x > projects")
    machine.run("cd ~; mv .config c2; mkdir .config; ln -s /etc .config/git; true")
    machine.run("cd ~; rm .config/git; mkdir -p .config/git/ignore/x; true")
    ran = machine.run("pwd; ~/.cargo/bin/tool")
    assert f"{workspace}\ntool\n" == ran.text, ran.setup_error


@needs_bwrap
def test_running_python_runs_inside(tmp_path: Path) -> None:
    """Under `Policy.python`, with its standard library and its installed packages."""
    (tmp_path / "workspace").mkdir()
    policy = Policy.for_workspace(str(tmp_path / "workspace"), state_dir=str(tmp_path / "state"))
    output: list[bytes] = []
    installed = Path(attrs.__file__).is_relative_to(sys.prefix)
    names = "attrs, json, sys" if installed else "json, sys"
    Process(policy, f"{policy.python} -c 'import {names}; print(sys.version)'").run(
        timeout_s=30, on_output=output.append
    )
    policy.discard()
    assert f"{sys.version}\n" == b"".join(output).decode()


@needs_bwrap
@pytest.mark.parametrize("place", ["tmp", "home", "workspace", "home itself"])
def test_python_of_a_virtual_environment_runs_inside(tmp_path: Path, place: str) -> None:
    """Wherever it was made; where its prefix is the home itself, the home stays hidden."""
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    for folder in (home, workspace):
        folder.mkdir()
    (home / "secret").write_text("made-up-secret")
    prefix = {
        "tmp": tmp_path / "venv",
        "home": home / "venv",
        "workspace": workspace / ".venv",
        "home itself": home,
    }[place]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    packages = str(Path(shutil.__file__).parent)
    site = next(path for path in sys.path if (Path(path) / "attrs").is_dir())
    code = (
        "import sandbox, sys; p = sandbox.Policy.for_workspace(sys.argv[1], state_dir=sys.argv[2]);"
        'sandbox.Process(p, f\'{p.python} -c "import sys; print(sys.prefix)"; cat ~/secret;'
        "touch {sys.prefix}/bin/evil').run(timeout_s=30,"
        " on_output=lambda b: sys.stdout.write(b.decode())); p.discard()"
    )
    done = subprocess.run(
        [str(prefix / "bin/python"), "-c", code, str(workspace), str(tmp_path / "state")],
        env={
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{REPOSITORY}:{site}",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(prefix) == done.stdout.splitlines()[0], (done, packages)
    assert "made-up-secret" not in done.stdout
    assert not (prefix / "bin/evil").exists()


def test_git_identity_comes_in(machine: Machine) -> None:
    """Although the home with the user's git configuration is hidden."""
    machine.write(machine.home / ".gitconfig", "[user]\nname = Ada L\nemail = ada@example.org\n")
    machine.open_session()
    ran = machine.run("echo $GIT_AUTHOR_NAME $GIT_COMMITTER_EMAIL")
    assert "Ada L ada@example.org\n" == ran.text
    machine.open_session(session="t", environ={"GIT_AUTHOR_NAME": "Eve"})
    ran = machine.run("echo $GIT_AUTHOR_NAME $GIT_COMMITTER_NAME", session="t")
    assert "Eve Ada L\n" == ran.text


def test_renamed_workspace_is_noticed(machine: Machine) -> None:
    """Nothing runs in a folder that is no longer the session's."""
    machine.open_session()
    machine.workspace.rename(machine.base / "moved")
    machine.workspace.symlink_to(machine.outside)
    ran = machine.run("touch ran")
    assert ran.setup_error is not None
    assert "no longer the folder" in ran.setup_error
    assert [] == list(machine.outside.iterdir())


def test_protected_names_need_no_exact_match_of_kind(machine: Machine) -> None:
    """A file where a folder is expected, and the other way round, is as protected."""
    (machine.workspace / ".bashrc").mkdir()
    machine.write(machine.workspace / ".vscode", "a file\n")
    machine.write(machine.workspace / ".github", "a file\n")
    machine.open_session()
    ran = machine.run("touch .bashrc/x; echo x > .vscode; echo x > .github; rm -f .github; exit 1")
    assert 3 == ran.text.count("Read-only")
    assert "a file\n" == (machine.workspace / ".github").read_text()


def test_env_file_is_an_ordinary_file(machine: Machine) -> None:
    """`.env` is writable and not hidden."""
    machine.write(machine.workspace / ".env", "A=1\n")
    machine.open_session()
    ran = machine.run("cat .env; echo B=2 >> .env; echo C=3 > .env.local")
    assert (0, "A=1\n") == (ran.exit_code, ran.text)
    assert "A=1\nB=2\n" == (machine.workspace / ".env").read_text()


def test_number_of_mounts_does_not_grow_with_the_workspace(machine: Machine) -> None:
    """Many nested repositories and settings: a bounded number of mounts, and it starts."""
    for number in range(150):
        for name in (".vscode", ".git/hooks"):
            (machine.workspace / f"p{number}" / name).mkdir(parents=True)
    machine.own()
    machine.open_session()
    ran = machine.run("wc -l < /proc/self/mountinfo")
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        own = len(table.readlines())
    assert int(ran.text) < own + 150
