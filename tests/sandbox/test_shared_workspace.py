"""Sessions that run commands in one workspace at the same time, and guard the same paths."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from sandbox import Policy, Process, Result
from sandbox.tracking import Moved, Tracker

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")
_TIMEOUT_S = 30.0
_MAKE_THEM = "mkdir -p .vscode/made .idea/made; echo x >.vscode/tasks.json; echo x >.bashrc"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def policies(workspace: Path, tmp_path: Path) -> Iterator[tuple[Policy, Policy]]:
    """Two sessions in it that have both run something before."""
    state = str(tmp_path / "state")
    first, second = (Policy.for_workspace(str(workspace), state_dir=state) for _ in range(2))
    for policy in (first, second):
        assert 0 == run(policy, "true").exit_code
    yield first, second
    first.discard()
    second.discard()


def run(policy: Policy, command: str, **options: dict[str, str]) -> Result:
    """Run a command that says nothing of interest."""
    process = Process(policy, command, **options)
    return process.run(timeout_s=_TIMEOUT_S, on_output=lambda _: None)


def test_another_command_leaves_the_guards_of_this_one_in_place(
    policies: tuple[Policy, Policy], workspace: Path
) -> None:
    """Neither its start nor its end lets the first one make a protected path."""
    first, second = policies
    go, started = os.pipe(), threading.Event()
    ended: list[Result] = []
    waiting = Process(
        first, f"echo started; read -r _ <&{go[0]}; {_MAKE_THEM}; true", keep_fds=[go[0]]
    )
    thread = threading.Thread(
        target=lambda: ended.append(
            waiting.run(timeout_s=_TIMEOUT_S, on_output=lambda _: started.set())
        ),
        name="first-command",
    )
    thread.start()
    try:
        assert started.wait(_TIMEOUT_S)
        assert () == run(second, "true").restored
    finally:
        os.write(go[1], b"\n")
        thread.join()
        os.close(go[0])
        os.close(go[1])
    assert (0, ()) == (ended[0].exit_code, ended[0].restored)
    assert [] == os.listdir(workspace)


def test_name_that_is_free_only_at_the_second_attempt_is_guarded_all_the_same(
    policies: tuple[Policy, Policy], workspace: Path, tmp_path: Path
) -> None:
    """Another user's stand-in may go just when it was to be mounted: the start is repeated."""
    programs, folder = tmp_path / "programs", workspace / ".vscode"
    programs.mkdir()
    (programs / "bwrap").write_text(
        f"#!/bin/sh\nmkdir {tmp_path}/once 2>/dev/null && rmdir {folder}\n"
        f'exec {shutil.which("bwrap")} "$@"\n'
    )
    (programs / "bwrap").chmod(0o755)
    folder.mkdir()
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    result = run(policies[0], f"{_MAKE_THEM}; true", environ={"PATH": path})
    assert (0, None) == (result.exit_code, result.setup_error)
    assert [] == os.listdir(workspace)


def test_name_that_is_free_before_it_is_looked_at_is_guarded_all_the_same(
    policies: tuple[Policy, Policy], workspace: Path, tmp_path: Path
) -> None:
    """It was there when stand-ins were made, and is gone when the mounts are chosen."""
    programs, folder, gone = tmp_path / "programs", workspace / ".vscode", tmp_path / "gone"
    programs.mkdir()
    os.mkfifo(gone)
    (programs / "bwrap").write_text(
        f"#!/bin/sh\nmkdir {tmp_path}/once 2>/dev/null && rmdir {folder} && echo gone >{gone}\n"
        f'exec {shutil.which("bwrap")} "$@"\n'
    )
    (programs / "bwrap").chmod(0o755)
    folder.mkdir()

    class Late(Tracker):
        """Looks at the workspace when the name is free."""

        def look(self) -> Moved:
            if not (tmp_path / "looked").exists():
                (tmp_path / "looked").write_text(gone.read_text())
            return super().look()

    late = attrs.evolve(policies[0], tracker=Late(str(workspace), ()))
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    result = run(late, f"{_MAKE_THEM}; true", environ={"PATH": path})
    assert (0, None) == (result.exit_code, result.setup_error)
    assert [] == os.listdir(workspace)
