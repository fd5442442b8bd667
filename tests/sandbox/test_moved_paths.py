"""What is protected or hidden stays so when a command moves the folder around it."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from sandbox import Policy
from sandbox.bubblewrap import survey
from sandbox.errors import SetupError
from tests.sandbox.machine import Machine


def test_moved_folder_is_protected_where_it_is_now(machine: Machine) -> None:
    """A later command finds what is in it read-only there, and may move it back."""
    file = machine.write(machine.workspace / "a/b/.envrc", "mine\n")
    task = machine.write(machine.workspace / "a/b/.vscode/tasks.json", "mine\n")
    machine.repository(machine.workspace / "a/lib")
    before = machine.snapshot(machine.workspace / "a")
    machine.open_session()
    assert 0 == machine.run("mv a/b a/c && mv a z").exit_code
    ran = machine.run(
        "cd z; echo x > c/.envrc; echo x > c/.vscode/tasks.json; "
        "echo x > lib/.git/hooks/pre-commit; echo x > lib/.git/config; "
        "mv c b; cd ..; mv z a; exit 1"
    )
    assert ran.text.count("Read-only") == 4, ran.text
    assert [] == ran.restored
    assert before == machine.snapshot(machine.workspace / "a")
    assert ("mine\n", "mine\n") == (file.read_text(), task.read_text())


def test_nothing_takes_the_place_of_what_was_moved(machine: Machine) -> None:
    """Not in a later command either: what is put there is set aside and told."""
    machine.write(machine.workspace / "a/.envrc", "mine\n")
    machine.open_session()
    assert 0 == machine.run("mv a b").exit_code
    ran = machine.run("mkdir a && echo evil > a/.envrc")
    assert [str(machine.workspace / "a/.envrc")] == ran.restored
    assert not (machine.workspace / "a/.envrc").exists()


def test_another_session_protects_what_was_moved_too(machine: Machine) -> None:
    """Each knows it by the folder itself, also when that is moved while its command runs."""
    machine.write(machine.workspace / "a/.envrc", "mine\n")
    machine.open_session(session="one")
    machine.open_session(session="two")
    assert 0 == machine.run("mv a b", session="one").exit_code
    ran = machine.run("echo evil > b/.envrc", session="two")
    assert "Read-only" in ran.text
    assert "mine\n" == (machine.workspace / "b/.envrc").read_text()


def test_folder_that_is_gone_is_no_trouble(machine: Machine) -> None:
    """What somebody removed outside may be made again, by anybody."""
    path = machine.write(machine.workspace / "a/.envrc", "mine\n")
    machine.open_session()
    path.unlink()
    path.parent.rmdir()
    ran = machine.run("mkdir a && echo new > a/.envrc")
    assert (0, []) == (ran.exit_code, ran.restored)
    assert "new\n" == path.read_text()


def test_hidden_paths_stay_hidden(machine: Machine) -> None:
    """The folders around them cannot be renamed: the next command would see them there."""
    folder = machine.write(machine.workspace / "a/b/hidden/key", "made-up-secret\n").parent
    file = machine.write(machine.workspace / "c/key", "made-up-secret\n")
    machine.open_session(hidden=[folder, file])
    ran = machine.run("mv a a2; mv a/b a/b2; mv c c2; touch a/b/ours c/ours")
    assert ran.text.count("busy") == 3, ran.text
    ran = machine.run("cat a/b/hidden/key c/key; grep -r made-up .")
    assert "made-up-secret" not in ran.text
    assert (folder.parent / "ours").exists()


def test_folder_that_is_just_being_moved_is_never_missed(tmp_path: Path) -> None:
    """What is protected in it is found where it is, or no command starts."""
    (tmp_path / "workspace/a/.vscode").mkdir(parents=True)
    workspace = tmp_path / "workspace"
    policy = Policy.for_workspace(str(workspace), state_dir=str(tmp_path / "state"))
    stopped = threading.Event()

    def move() -> None:
        while not stopped.is_set():
            (workspace / "a").rename(workspace / "b")
            (workspace / "b").rename(workspace / "a")

    mover = threading.Thread(target=move, name="mover")
    mover.start()
    try:
        for _ in range(500):
            with contextlib.suppress(SetupError):
                found, _ = survey(policy)
                places = {path for path, _ in found.read_only}
                assert places & {str(workspace / "a/.vscode"), str(workspace / "b/.vscode")}
    finally:
        stopped.set()
        mover.join()
        policy.discard()
