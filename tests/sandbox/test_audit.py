"""Protected paths that the mounts could not keep are put back and reported (F4, F7)."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox import Policy, Process, Result
from sandbox.audit import Audit
from sandbox.protected import survey
from tests.sandbox.machine import Machine

_DEADLINE_S = 20.0


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder with a protected file and a protected folder."""
    folder = tmp_path / "workspace"
    (folder / ".vscode").mkdir(parents=True)
    (folder / ".vscode/settings.json").write_text("{}\n")
    (folder / ".envrc").write_text("mine\n")
    (folder / ".envrc").chmod(0o640)
    return folder


def audited(workspace: Path, change: Callable[[], object]) -> tuple[str, ...]:
    """What an audit around `change` says, by names relative to the workspace."""
    audit = Audit.take(survey(str(workspace), None, ()))
    try:
        change()
        return tuple(os.path.relpath(path, workspace) for path in audit.restore())
    finally:
        audit.close()


def replace(path: Path, text: str) -> None:
    """What git and many editors do: write another file and rename it over."""
    other = path.with_name("other")
    other.write_text(text)
    other.replace(path)


def test_replaced_file_is_put_back(workspace: Path) -> None:
    """Content and mode are the old ones; what was found instead is kept beside it."""
    file = workspace / ".envrc"
    assert (".envrc",) == audited(workspace, lambda: replace(file, "evil\n"))
    assert ("mine\n", 0o640) == (file.read_text(), file.stat().st_mode & 0o7777)
    assert ["evil\n"] == [kept.read_text() for kept in workspace.glob(".envrc.displaced-*")]


@pytest.mark.parametrize("place", ["disk", "memory"])
def test_inode_number_that_is_used_again_is_told_apart(tmp_path: Path, place: str) -> None:
    """By the file system's count or, where it counts nothing, because the number is kept in use."""
    base = str(tmp_path)
    if place == "memory":
        if not os.access("/dev/shm", os.W_OK):
            pytest.skip("there is no file system in memory")
        base = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=base) as folder:
        (Path(folder) / ".envrc").write_text("mine\n")
        (Path(folder) / ".vscode").mkdir()

        def swap() -> None:
            (Path(folder) / ".envrc").unlink()
            (Path(folder) / ".envrc").write_text("evil\n")
            (Path(folder) / ".vscode").rmdir()
            (Path(folder) / ".vscode").mkdir()

        assert {".envrc", ".vscode"} == set(audited(Path(folder), swap))
        assert "mine\n" == (Path(folder) / ".envrc").read_text()


def test_edit_in_place_is_the_users_own(workspace: Path) -> None:
    """While the mount held, only somebody outside can have written to the file."""
    file = workspace / ".envrc"
    assert () == audited(workspace, lambda: file.write_text("theirs\n"))
    assert "theirs\n" == file.read_text()


def test_file_with_two_names_is_compared_by_content(workspace: Path) -> None:
    """Such a file can be changed under its other name."""
    file = workspace / ".envrc"
    os.link(file, workspace / "other-name")
    assert (".envrc",) == audited(
        workspace, lambda: (workspace / "other-name").write_text("evil\n")
    )
    assert "mine\n" == file.read_text()


def test_replaced_folder_is_set_aside(workspace: Path) -> None:
    """A folder in the place of the one that was mounted is not trusted."""
    folder = workspace / ".vscode"

    def swap() -> None:
        folder.rename(workspace / "gone")
        folder.mkdir()
        (folder / "tasks.json").write_text("evil")

    assert (".vscode",) == audited(workspace, swap)
    assert not folder.exists()
    assert 1 == len(list(workspace.glob(".vscode.displaced-*")))


def test_change_in_a_folder_is_the_users_own(workspace: Path) -> None:
    """An editor outside may save settings while a command runs."""
    file = workspace / ".vscode/settings.json"
    assert () == audited(workspace, lambda: replace(file, '{"a": 1}\n'))
    assert '{"a": 1}\n' == file.read_text()


def test_removed_path_stays_removed(workspace: Path) -> None:
    """Only somebody outside can have removed it."""
    assert () == audited(workspace, (workspace / ".envrc").unlink)
    assert not (workspace / ".envrc").exists()


def test_replaced_link_is_put_back(workspace: Path) -> None:
    """A symlink cannot be mounted on, so it is compared afterwards."""
    link = workspace / ".bashrc"
    link.symlink_to("dotfiles/bashrc")

    def swap() -> None:
        link.unlink()
        link.write_text("evil\n")

    assert (".bashrc",) == audited(workspace, swap)
    assert "dotfiles/bashrc" == os.readlink(link)


def test_target_that_appears_is_set_aside(workspace: Path) -> None:
    """A link that led nowhere must lead nowhere afterwards."""
    (workspace / "dotfiles").mkdir()
    (workspace / ".bashrc").symlink_to("dotfiles/bashrc")
    target = workspace / "dotfiles/bashrc"
    assert ("dotfiles/bashrc",) == audited(workspace, lambda: target.write_text("evil\n"))
    assert not (workspace / ".bashrc").exists()


def test_restoring_follows_no_link(workspace: Path, tmp_path: Path) -> None:
    """A folder on the way that became a link is not walked through."""
    workflows = workspace / ".github/workflows"
    workflows.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "workflows").mkdir(parents=True)

    def swap() -> None:
        (workspace / ".github").rename(workspace / "gone")
        (workspace / ".github").symlink_to(elsewhere)

    audited(workspace, swap)
    assert ["workflows"] == [path.name for path in elsewhere.iterdir()]


@pytest.mark.parametrize("target", ["shared", "/etc", "nowhere", "../outside", "file.txt"])
@pytest.mark.parametrize("name", [".vscode", ".bashrc", ".github"])
def test_command_starts_with_a_linked_path(machine: Machine, name: str, target: str) -> None:
    """Wherever the link leads: commands run, and neither link nor target is changed."""
    (machine.workspace / "shared/workflows").mkdir(parents=True)
    (machine.workspace / "shared/workflows/a").write_text("mine")
    (machine.workspace / "file.txt").write_text("mine")
    (machine.workspace / name).symlink_to(target)
    machine.own()
    machine.open_session()
    before = machine.snapshot(machine.workspace, machine.outside)
    ran = machine.run(
        f"echo started; rm -f {name}; mkdir {name}; (echo evil > {name}/workflows/a;"
        f"echo evil > shared/workflows/a; rm -rf shared/workflows/a) 2>/dev/null; true"
    )
    assert "started\n" == ran.text[:8], ran.setup_error
    after = machine.snapshot(machine.workspace, machine.outside)
    shown = {path: value for path, value in after.items() if "displaced" not in path}
    if target == "shared" and name == ".bashrc":
        assert before == shown
    assert before[str(machine.workspace / name)] == shown[str(machine.workspace / name)]
    assert [str(machine.workspace / name)] == ran.restored


@pytest.mark.parametrize("links", [{"a": "b"}, {"a": "./../workspace/x/../b", "x": "y"}])
@pytest.mark.parametrize("name", [".vscode", ".git"])
def test_no_link_of_a_chain_can_be_replaced(
    machine: Machine, name: str, links: dict[str, str]
) -> None:
    """What a protected link leads to by way of others is reached by the same way afterwards."""
    machine.write(machine.workspace / "b/config", "mine\n")
    machine.write(machine.workspace / "y/z", "mine\n")
    for link, target in {**links, name: "a"}.items():
        (machine.workspace / link).symlink_to(target)
    machine.own()
    machine.open_session()
    command = "; ".join(
        f"rm -f {link}; mkdir -p {link}; echo evil > {link}/config" for link in links
    )
    ran = machine.run(command)
    assert {str(machine.workspace / link) for link in links} == set(ran.restored), ran.setup_error
    assert "mine\n" == (machine.workspace / name / "config").read_text()


@pytest.mark.parametrize("links", [{".envrc": ".envrc"}, {".vscode": "a", "a": ".vscode"}])
def test_links_that_lead_in_a_circle_do_not_keep_commands_from_running(
    machine: Machine, links: dict[str, str]
) -> None:
    """They stay as they are."""
    for link, target in links.items():
        (machine.workspace / link).symlink_to(target)
    machine.own()
    machine.open_session()
    ran = machine.run(f"rm {' '.join(links)}; mkdir {' '.join(links)}; echo done")
    assert "done\n" == ran.text, ran.setup_error
    assert {link: os.readlink(machine.workspace / link) for link in links} == links


def test_file_that_lost_its_mount_is_put_back(tmp_path: Path) -> None:
    """F4 for real: `git config` outside undoes the mount, and the command then writes."""
    workspace = tmp_path / "workspace"
    (workspace / ".git/hooks").mkdir(parents=True)
    (workspace / ".git/HEAD").write_text("ref: refs/heads/main\n")
    config = workspace / ".git/config"
    config.write_text("[core]\n")
    policy = Policy.for_workspace(str(workspace), state_dir=str(tmp_path / "state"))
    replaced = threading.Event()

    def take(piece: bytes) -> None:
        if b"ready" in piece:
            replace(config, "[user]\n")
            replaced.set()

    result: Result = Process(
        policy,
        "echo ready; until grep -q user .git/config; do :; done; echo evil >> .git/config",
    ).run(timeout_s=_DEADLINE_S, on_output=take)
    policy.discard()
    assert replaced.is_set()
    assert 0 == result.exit_code, "the mount held, so the test proves nothing"
    assert (str(config),) == result.restored
    assert "[core]\n" == config.read_text()
    assert ["[user]\nevil\n"] == [kept.read_text() for kept in config.parent.glob("*.displaced-*")]


def test_change_of_the_user_before_the_command_began_stays(tmp_path: Path) -> None:
    """
    Any `git config` at the wrong moment: the sandbox is built again, with what is there now.

    Nothing has run that could have made the change.
    """
    config, program = tmp_path / "workspace/.git/config", tmp_path / "programs/bwrap"
    config.parent.mkdir(parents=True)
    config.write_text("[core]\n")
    program.parent.mkdir()
    # The first time it replaces the file when all is built, before that is heard of.
    program.write_text(
        f"#!/bin/bash\nif mkdir {tmp_path}/once 2>/dev/null; then exec > >(read -r -d '' waits; "
        f"echo '[user]' > {config}.new; mv {config}.new {config}; printf '\\0'; exec cat); fi\n"
        f'exec {shutil.which("bwrap")} "$@"\n'
    )
    program.chmod(0o755)
    policy = Policy.for_workspace(str(config.parents[1]), state_dir=str(tmp_path / "state"))
    environ = {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    output: list[bytes] = []
    result = Process(policy, "cat .git/config", environ=environ).run(
        timeout_s=_DEADLINE_S, on_output=output.append
    )
    policy.discard()
    assert (0, (), [b"[user]\n"]) == (result.exit_code, result.restored, output), result
    assert "[user]\n" == config.read_text()
    assert [] == list(config.parent.glob("*.displaced-*"))


def test_stand_in_that_was_removed_outside_is_watched(tmp_path: Path) -> None:
    """F4 for an absent path: what appears in place of the stand-in is set aside."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    policy = Policy.for_workspace(str(workspace), state_dir=str(tmp_path / "state"))

    def take(_: bytes) -> None:
        (workspace / ".envrc").rmdir()

    result = Process(
        policy, "echo ready; while test -d .envrc; do :; done; echo evil > .envrc"
    ).run(timeout_s=_DEADLINE_S, on_output=take)
    policy.discard()
    assert 0 == result.exit_code, "the mount held, so the test proves nothing"
    assert (str(workspace / ".envrc"),) == result.restored
    assert not (workspace / ".envrc").exists()


def test_protected_paths_further_down_are_watched(machine: Machine) -> None:
    """Below the top level the folders around can be moved; the content comes back all the same."""
    path = machine.write(machine.workspace / "packages/a/.envrc", "mine\n")
    folder = machine.write(machine.workspace / "packages/a/.vscode/tasks.json").parent
    machine.open_session()
    ran = machine.run("echo x > packages/a/.envrc; echo x > packages/a/.vscode/tasks.json; exit 1")
    assert ran.text.count("Read-only") == 2
    ran = machine.run(
        "mv packages p2; mkdir -p packages/a; echo evil > packages/a/.envrc; "
        "mkdir packages/a/.vscode; echo evil > packages/a/.vscode/tasks.json"
    )
    assert {str(path), str(folder)} == set(ran.restored)
    assert "mine\n" == path.read_text()
    assert not folder.exists()
