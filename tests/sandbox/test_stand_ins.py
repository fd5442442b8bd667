"""Stand-ins for absent paths: there while a command runs, shared, and gone afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sandbox import SetupError, stubs
from sandbox.protected import stub_candidates, survey
from sandbox.stubs import Stub
from tests.sandbox.machine import REPOSITORY

_HOLD = """
import sys
import threading
from sandbox import stubs
root, state = sys.argv[1:]
with stubs.held(state, [stubs.Stub(root, root + "/.idea", None)]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def state(tmp_path: Path) -> str:
    """A state folder."""
    return str(tmp_path / "state")


def folder(root: Path, name: str) -> Stub:
    """A stand-in for a folder."""
    return Stub(str(root), str(root / name), None)


def file(root: Path, name: str, content: bytes = b"") -> Stub:
    """A stand-in for a file."""
    return Stub(str(root), str(root / name), content)


def test_stand_ins_are_there_and_then_gone(root: Path, state: str) -> None:
    """Folders, folders in folders, and files with their content."""
    wanted = [folder(root, ".github"), folder(root, ".github/w"), file(root, "c", b".\n")]
    with stubs.held(state, wanted) as held:
        assert tuple(wanted) == held
        assert (root / ".github/w").is_dir()
        assert b".\n" == (root / "c").read_bytes()
    assert [] == list(root.iterdir())
    assert ["lock"] == os.listdir(os.path.join(state, "stubs"))


def test_what_is_there_is_left_alone(root: Path, state: str) -> None:
    """Also an empty folder of the user's own."""
    (root / ".idea").mkdir()
    (root / "c").touch()
    (root / "link").symlink_to("nowhere")
    wanted = [folder(root, ".idea"), file(root, "c"), folder(root, "link")]
    with stubs.held(state, wanted) as held:
        assert () == held
    assert {".idea", "c", "link"} == {path.name for path in root.iterdir()}


def test_what_somebody_filled_is_kept(root: Path, state: str) -> None:
    """A stand-in that is used meanwhile belongs to whoever uses it."""
    with stubs.held(state, [folder(root, ".idea"), file(root, "c", b".")]):
        (root / ".idea/workspace.xml").write_text("x")
        (root / "c").write_text("something else")
    assert "x" == (root / ".idea/workspace.xml").read_text()
    assert "something else" == (root / "c").read_text()


def test_last_user_removes(root: Path, state: str) -> None:
    """Two calls in one process share a stand-in."""
    with stubs.held(state, [folder(root, ".idea")]):
        with stubs.held(state, [folder(root, ".idea")]) as inner:
            assert 1 == len(inner)
        assert (root / ".idea").is_dir()
    assert not (root / ".idea").exists()


def test_stand_in_of_another_process_is_kept_until_it_is_dead(root: Path, state: str) -> None:
    """Its journal is locked while it lives; killed, its stand-ins are anybody's to remove."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(root), state],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert b"held\n" == other.stdout.readline()
        with stubs.held(state, [folder(root, ".idea")]):
            pass
        stubs.sweep(state)
        assert (root / ".idea").is_dir()
        other.kill()
        other.wait(20)
        assert (root / ".idea").is_dir()
        stubs.sweep(state)
        assert not (root / ".idea").exists()


def test_sweep_without_a_state_folder_does_nothing(state: str) -> None:
    """There is nothing to clear up at the very first start."""
    stubs.sweep(state)
    assert not os.path.exists(state)


def test_torn_journal_is_cleared_up(root: Path, state: str) -> None:
    """A process that died while writing it had made nothing yet."""
    with stubs.held(state, []):
        pass
    Path(state, "stubs", "torn.json").write_text('[["/')
    with stubs.held(state, [folder(root, ".idea")]):
        assert (root / ".idea").is_dir()
    assert ["lock"] == os.listdir(os.path.join(state, "stubs"))


def test_no_symlink_is_followed(root: Path, state: str, tmp_path: Path) -> None:
    """Neither when a stand-in is made nor when it is removed."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "w").mkdir(parents=True)
    (root / ".github").symlink_to(elsewhere)
    with stubs.held(state, [folder(root, ".github/x")]) as held:
        assert () == held
    (root / ".github").unlink()
    with stubs.held(state, [folder(root, ".github"), folder(root, ".github/w")]):
        (root / ".github/w").rmdir()
        (root / ".github").rmdir()
        (root / ".github").symlink_to(elsewhere)
    assert ["w"] == os.listdir(elsewhere)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_workspace_needs_none(root: Path, state: str) -> None:
    """Where we cannot create a path, a command cannot either."""
    root.chmod(0o500)
    with stubs.held(state, [folder(root, ".idea")]) as held:
        assert () == held
    root.chmod(0o700)


def test_unusable_state_folder_is_a_failed_setup(root: Path, tmp_path: Path) -> None:
    """Without a journal nothing may be made."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(SetupError, match="could not be secured"),
        stubs.held(str(tmp_path / "file"), [folder(root, ".idea")]),
    ):
        pass
    assert [] == list(root.iterdir())


def test_many_modules_are_read_only_as_a_whole(root: Path) -> None:
    """The number of mounts stays bounded, and nothing gets less protected."""
    modules = root / ".git/modules"
    for number in range(17):
        (modules / f"m{number}").mkdir(parents=True)
        (modules / f"m{number}/HEAD").touch()
        (modules / f"m{number}/config").touch()
    found = dict(survey(str(root), None, ()).read_only)
    assert str(modules) in found
    assert 1 == len([path for path in found if path.startswith(str(modules))])


def test_modules_with_slashes_are_found(root: Path) -> None:
    """A submodule's name is its path; modules have modules."""
    for name in ("a/b", "a/b/modules/c"):
        module = root / ".git/modules" / name
        module.mkdir(parents=True)
        (module / "HEAD").touch()
        (module / "config").touch()
    found = [path for path, _ in survey(str(root), None, ()).read_only]
    assert [f"{root}/.git/modules/{name}/config" for name in ("a/b", "a/b/modules/c")] == found


def test_deep_decoys_do_not_hide_a_module(root: Path) -> None:
    """A thousand empty folders make the whole collection read-only."""
    for number in range(300):
        (root / f".git/modules/decoy{number}").mkdir(parents=True)
    found = [path for path, _ in survey(str(root), None, ()).read_only]
    assert [f"{root}/.git/modules"] == found


def test_git_stand_ins_need_a_repository(root: Path) -> None:
    """An empty `.git` may become one: nothing is put into it."""
    (root / ".git").mkdir()
    assert not any("/.git/" in stub.path for stub in stub_candidates(str(root), None))
    (root / ".git/HEAD").touch()
    assert any("/.git/" in stub.path for stub in stub_candidates(str(root), None))


def test_stand_in_that_others_rely_on_is_not_replaced(root: Path, state: str) -> None:
    """Their mount is on that very folder; one of another stock must not take its name."""
    wanted = [folder(root, ".idea"), folder(root, ".vscode")]
    stock = f"{state}-stock"
    with stubs.held(state, wanted, stock=stock):
        pass
    assert 2 == len(os.listdir(stock))
    with stubs.held(state, wanted):
        before = {stub.path: os.stat(stub.path).st_ino for stub in wanted}
        with stubs.held(state, wanted, stock=stock) as held:
            assert tuple(wanted) == held
            assert before == {stub.path: os.stat(stub.path).st_ino for stub in wanted}


def test_who_enters_while_another_leaves_has_all_stand_ins(root: Path, state: str) -> None:
    """What is just being removed is never taken for the user's own."""
    wanted = tuple(folder(root, f".{number}") for number in range(16))
    missing: list[object] = []

    def come_and_go(stock: str | None) -> None:
        for _ in range(100):
            with stubs.held(state, wanted, stock=stock) as held:
                if held != wanted or not all(os.path.isdir(stub.path) for stub in wanted):
                    missing.append(held)

    threads = [
        threading.Thread(target=come_and_go, args=(stock,), name=f"stand-ins-{stock}")
        for stock in (None, f"{state}-stock", None)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == missing
    assert [] == list(root.iterdir())
