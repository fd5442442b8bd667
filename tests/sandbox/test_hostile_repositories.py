"""Files that block or do not end, where git's own are expected."""

from __future__ import annotations

import os
import resource
import select
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox import Policy, Process
from sandbox.paths import read_file

_DEADLINE_S = 20.0
_HUGE = 1 << 30
# In a workspace, and in the directory `git` that its `.git` file names.
_PLACES = {
    "git": ".git",
    "head": ".git/HEAD",
    "config": ".git/config",
    "worktree config": ".git/config.worktree",
    "commondir": ".git/commondir",
    "gitdir": ".git/gitdir",
    "module config": ".git/modules/m/config",
    "linked head": "git/HEAD",
    "linked config": "git/config",
    "linked commondir": "git/commondir",
    "linked gitdir": "git/gitdir",
    "linked worktree config": "git/config.worktree",
    "git modules": ".gitmodules",
    "ripgrep settings": ".ripgreprc",
    "nested": "packages/a/.git/config",
    "nested file": "packages/a/.envrc",
}


def make_fifo(path: Path) -> None:
    """What never ends an open for reading."""
    os.mkfifo(path)


def make_huge(path: Path) -> None:
    """A gigabyte that takes no space."""
    path.touch()
    os.truncate(path, _HUGE)


@pytest.mark.parametrize("make", [make_fifo, make_huge])
@pytest.mark.parametrize("place", _PLACES.values(), ids=_PLACES)
def test_session_starts_and_a_command_runs(
    tmp_path: Path, place: str, make: Callable[[Path], None]
) -> None:
    """Nothing is waited for and nothing is read without a bound."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    directory = workspace / place.partition("/")[0]
    if directory.name == "git":
        (workspace / ".git").write_text("gitdir: git\n")
    if directory.name in ("git", ".git") and "/" in place:
        for name in ("objects", "refs", "modules/m"):
            (directory / name).mkdir(parents=True)
        (directory / "HEAD").write_text("ref: refs/heads/main\n")
        (directory / "modules/m/HEAD").write_text("ref: refs/heads/main\n")
    path = workspace / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    make(path)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    policy = Policy.for_workspace(str(workspace), state_dir=str(tmp_path / "state"))
    try:
        if shutil.which("bwrap"):
            result = Process(policy, "exit 7").run(timeout_s=_DEADLINE_S, on_output=_unexpected)
            assert (7, ()) == (result.exit_code, result.restored), result
    finally:
        policy.discard()
    assert time.monotonic() - started < _DEADLINE_S
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    assert path.exists()


@pytest.mark.parametrize(
    "place",
    [
        *(".git/HEAD", ".git/config", ".git/config.worktree", ".git/commondir"),
        *("git/HEAD", "git/config", "git/commondir", "common/config", "HEAD", "../HEAD"),
    ],
)
@pytest.mark.parametrize("linked", [False, True], ids=["fifo", "link to a fifo"])
def test_git_is_not_run_where_it_would_wait(tmp_path: Path, place: str, linked: bool) -> None:
    """Whatever it opens on its way; the user's own settings are read all the same."""
    workspace, home = tmp_path / "above/workspace", tmp_path / "home"
    for folder in (workspace, home):
        folder.mkdir(parents=True)
    (home / ".gitconfig").write_text("[user]\nname = Ada\n")
    admin = workspace / ("git" if place.startswith(("git", "common")) else ".git")
    for name in ("objects", "refs"):
        (admin / name).mkdir(parents=True)
    (admin / "HEAD").write_text("ref: refs/heads/main\n")
    if admin.name == "git":
        (workspace / ".git").write_text("gitdir: git\n")
    if place.startswith("common"):
        (workspace / "common").mkdir()
        (admin / "commondir").write_text("../common\n")
    path = workspace / place
    path.unlink(missing_ok=True)
    if linked:
        os.mkfifo(tmp_path / "fifo")
        path.symlink_to(tmp_path / "fifo")
    else:
        os.mkfifo(path)
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
    policy = Policy.for_workspace(
        str(workspace), state_dir=str(tmp_path / "state"), environ=environ
    )
    policy.discard()
    assert "Ada" == policy.environment["GIT_AUTHOR_NAME"]


def test_worktree_with_a_nul_is_none(tmp_path: Path) -> None:
    """A path cannot hold one; the session starts without that git directory."""
    for name in ("objects", "refs"):
        (tmp_path / "workspace/git" / name).mkdir(parents=True)
    (tmp_path / "workspace/.git").write_text("gitdir: git\n")
    (tmp_path / "workspace/git/HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "workspace/git/config").write_text("[core]\nworktree = a\0b\n")
    policy = Policy.for_workspace(str(tmp_path / "workspace"), state_dir=str(tmp_path / "state"))
    policy.discard()
    assert policy.link is None


@pytest.mark.parametrize(
    "script",
    [
        "sleep 600 & echo $! > {pids}; sleep 600",
        "sleep 600 & echo $! > {pids}; trap '' TERM; yes",
        "sleep 600 >/dev/null & echo $! > {pids}",
    ],
    ids=["silent", "endless", "background"],
)
def test_git_that_hangs_is_killed_with_what_it_started(tmp_path: Path, script: str) -> None:
    """The session starts without an identity, soon."""
    pids, git = tmp_path / "pids", tmp_path / "bin/git"
    git.parent.mkdir()
    git.write_text(f"#!/bin/bash\n{script.format(pids=pids)}\n")
    git.chmod(0o755)
    (tmp_path / "workspace").mkdir()
    environ = {"PATH": f"{git.parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    started = time.monotonic()
    policy = Policy.for_workspace(
        str(tmp_path / "workspace"), state_dir=str(tmp_path / "state"), environ=environ
    )
    policy.discard()
    assert time.monotonic() - started < _DEADLINE_S
    assert "GIT_AUTHOR_NAME" not in policy.environment
    assert _ends(int(pids.read_text()))


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """Up to the bound; a FIFO, a link and a folder are refused."""
    (tmp_path / "file").write_text("0123456789")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo")
    assert b"0123" == read_file(str(tmp_path / "file"), 4)
    for path in (tmp_path / "link", tmp_path / "fifo", tmp_path, tmp_path / "none"):
        with pytest.raises(OSError):  # noqa: PT011  each has another number
            read_file(str(path), 4)


def _ends(pid: int) -> bool:
    """Whether it is dead or dies in a moment."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], _DEADLINE_S)[0])
    finally:
        os.close(descriptor)


def _unexpected(piece: bytes) -> None:
    raise AssertionError(piece)
