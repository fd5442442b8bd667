"""Empty folders that are kept for the next call, and what somebody puts into them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import stubs
from sandbox.stock import Stock
from sandbox.stubs import Stub


@pytest.fixture
def place(tmp_path: Path) -> Iterator[int]:
    """A folder to move them to."""
    (tmp_path / "place").mkdir()
    descriptor = os.open(tmp_path / "place", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_folder_comes_back_and_is_used_again(tmp_path: Path, place: int) -> None:
    """The very same one."""
    os.mkdir("a", 0o755, dir_fd=place)
    number = os.stat("a", dir_fd=place).st_ino
    with Stock(str(tmp_path / "stock")) as stock:
        assert stock.put("a", place)
        assert [] == os.listdir(place)
    with Stock(str(tmp_path / "stock")) as stock:
        assert stock.take("b", place)
        assert not stock.take("c", place)
    assert number == os.stat("b", dir_fd=place).st_ino


@pytest.mark.parametrize("spoilt", ["filled", "mode"])
def test_only_what_is_as_it_was_is_taken_back(tmp_path: Path, place: int, spoilt: str) -> None:
    """What somebody has put there, or changed, stays."""
    folder = tmp_path / "place/a"
    folder.mkdir()
    if spoilt == "filled":
        (folder / "mine").touch()
    else:
        folder.chmod(0o777)
    with Stock(str(tmp_path / "stock")) as stock:
        assert not stock.put("a", place)
    assert folder.is_dir()
    assert [] == os.listdir(tmp_path / "stock")


def test_nothing_is_replaced(tmp_path: Path, place: int) -> None:
    """A file, a link or a folder with something in it keeps its place."""
    (tmp_path / "place/file").touch()
    (tmp_path / "place/link").symlink_to("nowhere")
    (tmp_path / "place/folder").mkdir()
    (tmp_path / "place/folder/mine").touch()
    os.mkdir("a", 0o755, dir_fd=place)
    with Stock(str(tmp_path / "stock")) as stock:
        assert stock.put("a", place)
    for name in ("file", "link", "folder"):
        with Stock(str(tmp_path / "stock")) as stock:
            assert not stock.take(name, place)
    assert {"file", "link", "folder"} == set(os.listdir(place))
    assert 1 == len(os.listdir(tmp_path / "stock"))


def test_stand_ins_come_from_the_stock(tmp_path: Path) -> None:
    """The second call makes no folder any more."""
    root, stock = tmp_path / "root", str(tmp_path / "stock")
    root.mkdir()
    wanted = [Stub(str(root), str(root / name), None) for name in (".github", ".github/w", ".a")]
    numbers = []
    for _ in range(2):
        with stubs.held(str(tmp_path / "state"), wanted, stock=stock) as held:
            assert tuple(wanted) == held
            numbers.append({os.stat(stub.path).st_ino for stub in held})
        assert [] == list(root.iterdir())
    assert numbers[0] == numbers[1]
    assert 3 == len(os.listdir(stock))


def test_stand_ins_need_no_stock(tmp_path: Path) -> None:
    """Where there can be none they are made and removed."""
    (tmp_path / "root").mkdir()
    (tmp_path / "stock").write_text("in the way")
    wanted = [Stub(str(tmp_path / "root"), str(tmp_path / "root/.a"), None)]
    with stubs.held(str(tmp_path / "state"), wanted, stock=str(tmp_path / "stock")):
        assert (tmp_path / "root/.a").is_dir()
    assert not (tmp_path / "root/.a").exists()
