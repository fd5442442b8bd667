"""What is taken from the environment and the machine, and what never is."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sandbox import environment, nested, programs, surroundings


def build(**environ: str) -> dict[str, str]:
    """An environment made from the given one."""
    return environment.build(environ, home="/h", tmp="/t", extra={})


def test_only_listed_variables_come_in() -> None:
    """Locale, PATH, tool chains; nothing is let in because of what it is not called."""
    found = build(
        PATH="/bin",
        LANG="de_DE.UTF-8",
        LC_ALL="C",
        JAVA_HOME="/java",
        AWS_SECRET_ACCESS_KEY="x",
        OPENAI_API_KEY="x",
        SSH_AUTH_SOCK="/run/x",
        DBUS_SESSION_BUS_ADDRESS="x",
        HTTPS_PROXY="http://user:pass@proxy",
        LD_PRELOAD="x",
        BASH_ENV="/evil",
        MY_SETTING="x",
    )
    assert found == {
        "PATH": "/bin",
        "LANG": "de_DE.UTF-8",
        "LC_ALL": "C",
        "JAVA_HOME": "/java",
        "TERM": "dumb",
        "HOME": "/h",
        "SHELL": "/bin/bash",
        "TMPDIR": "/t",
    }


def test_home_and_tmp_are_the_private_ones() -> None:
    """Whatever the server's own are; an odd TMPDIR of the host has no effect."""
    found = build(HOME="/real", TMPDIR="/missing", PATH="")
    assert ("/h", "/t") == (found["HOME"], found["TMPDIR"])
    assert "/usr/bin" in found["PATH"]


def test_variables_of_the_caller_win() -> None:
    """They are added last."""
    found = environment.build({"LANG": "C"}, home="/h", tmp="/t", extra={"LANG": "x", "A": "1"})
    assert ("x", "1") == (found["LANG"], found["A"])


def test_program_is_found_on_path_only(tmp_path: Path) -> None:
    """The first executable file in an absolute folder that is not refused."""
    for name in ("refused", "folder", "plain", "good", "later"):
        (tmp_path / name).mkdir()
    (tmp_path / "folder/tool").mkdir()
    for name in ("refused", "plain", "good", "later"):
        (tmp_path / name / "tool").write_text("")
    for name in ("refused", "good", "later"):
        (tmp_path / name / "tool").chmod(0o755)
    names = ("refused", "missing", "folder", "plain", "good", "later")
    path = os.pathsep.join(["", ".", *(str(tmp_path / name) for name in names)])
    found = programs.find("tool", {"PATH": path}, never_in=[str(tmp_path / "refused")])
    assert str(tmp_path / "good/tool") == found
    assert programs.find("tool", {}, never_in=()) is None


@pytest.mark.parametrize("home", ["", "relative", "/", "/nonexistent", "/usr"])
def test_home_that_is_none_is_not_hidden(home: str) -> None:
    """Hiding `/` or a system folder would leave nothing to run."""
    assert home not in surroundings.homes({"HOME": home})


def test_home_is_the_real_folder(tmp_path: Path) -> None:
    """`$HOME` comes first, by its real path."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert str(tmp_path / "real") == surroundings.homes({"HOME": str(tmp_path / "link")})[0]


def test_listening_sockets_are_found(tmp_path: Path) -> None:
    """By their real path, with any name; abstract ones have none."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "link" / "s 1"))
        server.listen()
        assert str(folder / "s 1") in surroundings.unix_sockets()
    assert not any("\0" in path or "@" in path[:1] for path in surroundings.unix_sockets())


@pytest.mark.parametrize("name", ["plain", "s\n1", "a /b", "dir/s"])
def test_socket_with_a_relative_or_odd_name_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As long as its program works in the same folder, and with line ends in the name."""
    (tmp_path / "dir").mkdir()
    (tmp_path / "a ").mkdir()
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as relative, socket.socket(socket.AF_UNIX) as absolute:
        relative.bind(name)
        absolute.bind(f"{tmp_path}/absolute {name.replace('/', '')}")
        found = surroundings.unix_sockets()
        assert {relative.getsockname(), absolute.getsockname()} <= {
            os.path.relpath(path, tmp_path) if path.startswith(f"{tmp_path}/{name}") else path
            for path in found
        }


def test_search_below_the_top_level_is_bounded(tmp_path: Path) -> None:
    """Outermost first, not in what programs install, and at most 64."""
    for name in ("a/b/.vscode", "a/.github/workflows", "node_modules/x/.vscode", "a/.git/hooks"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".vscode").mkdir()
    (tmp_path / "a/.envrc").touch()
    (tmp_path / "a/loop").symlink_to(tmp_path)
    found = {os.path.relpath(path, tmp_path) for path in nested.find(str(tmp_path))}
    assert {"a/b/.vscode", "a/.github/workflows", "a/.git/hooks", "a/.envrc"} == found
    for number in range(100):
        (tmp_path / f"p{number}/.idea").mkdir(parents=True)
    assert 64 == len(nested.find(str(tmp_path)))
