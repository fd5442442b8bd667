"""Private folders go, whatever a command left in them, and nothing else does."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import Policy, sweep
from sandbox.removal import remove_tree
from tests.sandbox.machine import Machine

_LEVELS = 3000
_DEEP = f"""cd ~ && python3 -c '
import os
for _ in range({_LEVELS}): os.mkdir("a"); os.chdir("a")
open("x", "w")'"""


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """A folder, with a neighbour that must stay."""
    folder = tmp_path / "tree"
    folder.mkdir()
    (tmp_path / "neighbour").write_text("mine\n")
    yield folder
    assert "mine\n" == (tmp_path / "neighbour").read_text()


def dig(folder: Path, levels: int, mode: int = 0o755) -> None:
    """Make folders in folders, each with a file and the mode."""
    top = descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("a", dir_fd=descriptor)
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=descriptor))
        deeper = os.open("a", os.O_RDONLY, dir_fd=descriptor)
        if descriptor != top:
            os.fchmod(descriptor, mode)
            os.close(descriptor)
        descriptor = deeper
    os.fchmod(descriptor, mode)
    os.close(descriptor)
    os.close(top)


@pytest.mark.parametrize("mode", [0o755, 0o500, 0o000])
def test_depth_does_not_matter(tree: Path, mode: int) -> None:
    """Deeper than a path can be long, than descriptors and than a stack; also without rights."""
    dig(tree, _LEVELS, mode)
    assert remove_tree(str(tree)) is None
    assert not tree.exists()


def test_rights_do_not_matter(tree: Path) -> None:
    """Folders that cannot be read, entered or written, beside and in each other."""
    for number, mode in enumerate((0o000, 0o100, 0o200, 0o300, 0o400, 0o500, 0o600)):
        folder = tree / str(number)
        (folder / "in/it").mkdir(parents=True)
        (folder / "in/it/file").touch(0o000)
        (folder / "in/it").chmod(mode)
        (folder / "in").chmod(mode)
        folder.chmod(mode)
    tree.chmod(0o000)
    assert remove_tree(str(tree)) is None
    assert not tree.exists()


def test_no_link_is_followed(tree: Path, tmp_path: Path) -> None:
    """What links lead to keeps its content and its mode."""
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "file").write_text("mine\n")
    (outside / "folder").chmod(0o500)
    (tree / "in").mkdir()
    for place in (tree, tree / "in"):
        (place / "to-folder").symlink_to(outside / "folder")
        (place / "to-file").symlink_to(outside / "file")
        (place / "to-parent").symlink_to("..")
        (place / "to-nothing").symlink_to("nothing")
        os.link(outside / "file", place / "same-file")
    assert remove_tree(str(tree)) is None
    assert not tree.exists()
    assert "mine\n" == (outside / "file").read_text()
    assert 0o500 == stat.S_IMODE((outside / "folder").stat().st_mode)


def test_linked_top_is_not_followed(tree: Path, tmp_path: Path) -> None:
    """The error is returned, and what the link leads to stays."""
    (tree / "file").touch()
    link = tmp_path / "link"
    link.symlink_to(tree)
    assert isinstance(remove_tree(str(link)), OSError)
    assert ["file"] == os.listdir(tree)


def test_any_kind_of_file_is_removed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FIFOs and sockets are not opened, and a great many files are no problem."""
    (tree / "in").mkdir()
    monkeypatch.chdir(tree)
    for place in (".", "in"):
        os.mkfifo(f"{place}/fifo", 0o600)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"{place}/socket")
        for number in range(2000):
            Path(place, str(number)).touch()
    monkeypatch.chdir("/")
    assert remove_tree(str(tree)) is None
    assert not tree.exists()


def test_rest_goes_although_something_stays(tree: Path, tmp_path: Path) -> None:
    """An error does not end the removal; it is returned."""
    if os.geteuid() == 0:
        pytest.skip("nothing is out of root's reach")
    (tree / "file").touch()
    tmp_path.chmod(0o500)
    assert isinstance(remove_tree(str(tree)), PermissionError)
    tmp_path.chmod(0o700)
    assert [] == os.listdir(tree)


def test_missing_folder_is_an_error_that_is_returned(tmp_path: Path) -> None:
    """Also when even its parent is missing."""
    assert isinstance(remove_tree(str(tmp_path / "no")), FileNotFoundError)
    assert isinstance(remove_tree(str(tmp_path / "no/no")), FileNotFoundError)


def test_deep_home_of_a_session_is_discarded(machine: Machine) -> None:
    """A command that digs in its private home does not keep the session from closing."""
    machine.open_session()
    assert 0 == machine.run(_DEEP).exit_code
    machine.remote.ask(do="forget", sessions=machine.base.name)
    assert [] == os.listdir(machine.state / "sessions")


def test_deep_home_of_a_dead_server_is_swept(expendable: Machine) -> None:
    """The next session starts, and what the dead one left is gone."""
    machine = expendable
    machine.open_session()
    assert 0 == machine.run(_DEEP).exit_code
    machine.remote.popen.kill()
    machine.remote.popen.wait(20)
    machine.restart()
    assert "python" in machine.open_session(session="next")
    assert 1 == len(os.listdir(machine.state / "sessions"))


def test_discarding_and_sweeping_never_raise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is gone already, or is no folder, is passed over; what fails is logged."""
    (tmp_path / "workspace").mkdir()
    state = tmp_path / "state"
    policy = Policy.for_workspace(str(tmp_path / "workspace"), state_dir=str(state))
    shutil.rmtree(state)
    policy.discard()
    assert [] == caplog.records
    state.mkdir()
    for name in ("sessions", "stubs"):
        (state / name).touch()
    sweep(str(state))
    assert any("cannot be looked for" in record.getMessage() for record in caplog.records)
    (state / "sessions").unlink()
    (state / "stubs").unlink()
    (state / "stubs/lock").mkdir(parents=True)
    sweep(str(state))
    assert any("left behind" in record.getMessage() for record in caplog.records)
