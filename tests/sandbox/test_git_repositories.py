"""Git inside: it works as outside, and cannot be made to run something outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sandbox.machine import Machine

_WORK = (
    "set -e; git status --short; echo two >> file.txt; git add -A; git commit -qm second; "
    "git checkout -qb topic; git stash list; git branch -q other; git branch -qd other; "
    "git log --format=%an:%ae -1; git gc -q; git status --short"
)


_KINDS = (
    "plain",
    "worktree",
    "worktree in the home",
    "submodule",
    "bare worktree",
    "inside bare",
    "nested",
)


@pytest.fixture(params=_KINDS)
def checkout(machine: Machine, request: pytest.FixtureRequest) -> Path:
    """A working copy of each kind, with `file.txt` committed."""
    kind = request.param
    place = machine.home / "src" if kind.endswith("home") else machine.base
    origin = machine.repository(place / "origin")
    if kind == "plain":
        return machine.repository()
    if kind.startswith("worktree"):
        machine.git("worktree", "add", "-q", "-b", "side", str(place / "wt"), folder=origin)
        return place / "wt"
    if kind == "submodule":
        super_project = machine.repository()
        machine.git("submodule", "add", "-q", str(origin), "sub")
        machine.git("commit", "-qm", "with sub")
        return super_project / "sub"
    if kind == "nested":
        # A submodule, worked on from its super-project.
        machine.repository()
        machine.git("submodule", "add", "-q", str(origin), "sub")
        machine.git("commit", "-qm", "with sub")
        return machine.workspace
    bare = machine.base / "bare.git"
    machine.git("clone", "-q", "--bare", str(origin), str(bare), folder=machine.base)
    target = bare / "main" if kind == "inside bare" else machine.base / "from-bare"
    machine.git("worktree", "add", "-q", "-b", "side", str(target), folder=bare)
    return target


def test_git_works(machine: Machine, checkout: Path, request: pytest.FixtureRequest) -> None:
    """Status, add, commit, branch, clean-up; commits carry the user's name."""
    machine.open_session(checkout)
    work = _WORK
    if checkout.parent.name == "bare.git":
        # Only what a commit needs is writable there: the folder holds other worktrees too.
        work = work.replace("git branch -qd other; ", "").replace("git gc -q; ", "")
    ran = machine.run(work)
    assert ran.exit_code == 0, ran.text
    assert "Ada:ada@example.org" in ran.text
    assert "second" in machine.git("log", "--format=%s", folder=checkout)
    assert machine.git("status", "--short", folder=checkout) == ""
    machine.git("fsck", folder=checkout)


def test_git_works_in_a_submodule_of_the_workspace(machine: Machine) -> None:
    """A commit in a submodule can be made from a session in the super-project."""
    origin = machine.repository(machine.base / "origin")
    machine.repository()
    machine.git("submodule", "add", "-q", str(origin), "sub")
    machine.git("commit", "-qm", "with sub")
    machine.open_session()
    ran = machine.run(f"cd sub && {_WORK} && cd .. && git commit -qam up")
    assert ran.exit_code == 0, ran.text
    assert "second" in machine.git("log", "--format=%s", folder=machine.workspace / "sub")


def test_hooks_and_config_stay_as_they_are(machine: Machine, checkout: Path) -> None:
    """Wherever git keeps them for that kind of working copy."""
    shared = machine.git("rev-parse", "--git-common-dir", folder=checkout).strip()
    own = machine.git("rev-parse", "--git-dir", folder=checkout).strip()
    folders = {(checkout / own).resolve(), (checkout / shared).resolve()}
    before = {
        path: path.read_bytes() if path.is_file() else None
        for folder in folders
        for path in (folder / "config", *(folder / "hooks").glob("*"))
    }
    machine.open_session(checkout)
    commands = []
    for folder in folders:
        commands += [
            f"git config core.fsmonitor evil; echo evil >> {folder}/config",
            f"echo evil > {folder}/hooks/pre-commit; rm -rf {folder}/hooks",
            f"echo evil > {folder}/config.worktree; echo /evil > {folder}/commondir",
            f"rm -f {folder}/config {folder}/commondir {folder}/gitdir",
            f"mv {folder} {folder}.2; mv {folder}/config {folder}/c2",
            f"mv {folder}/hooks {folder}/h2",
        ]
    machine.run("; ".join(commands))
    assert before == {
        path: path.read_bytes() if path.is_file() else None
        for folder in folders
        for path in (folder / "config", *(folder / "hooks").glob("*"))
    }
    assert not (checkout / own / "config.worktree").exists()
    assert "evil" not in machine.git("config", "--list", folder=checkout)


def test_hooks_of_a_submodule_stay_from_the_super_project(machine: Machine) -> None:
    """`.git/modules/sub` has hooks and a config of its own."""
    origin = machine.repository(machine.base / "origin")
    machine.repository()
    machine.git("submodule", "add", "-q", str(origin), "sub")
    module = machine.workspace / ".git/modules/sub"
    before = machine.snapshot(module / "hooks", module / "config")
    machine.open_session()
    machine.run(
        "cd .git/modules; echo x >> sub/config; echo x > sub/hooks/post-commit; mv sub s2; "
        "cp -r sub s3; rm -rf sub; mv s3 sub; cd ..; mv modules m2; "
        "echo /evil > modules/sub/commondir"
    )
    assert before == machine.snapshot(module / "hooks", module / "config")
    assert not (module / "commondir").exists()


def test_worktree_pointers_stay_from_the_main_checkout(machine: Machine) -> None:
    """Another worktree must not be led to a config of the command's making."""
    machine.repository()
    machine.git("worktree", "add", "-q", "-b", "side", str(machine.base / "wt"))
    admin = machine.workspace / ".git/worktrees/wt"
    before = machine.snapshot(admin)
    machine.open_session()
    machine.run("cd .git/worktrees; echo /evil > wt/commondir; rm -f wt/gitdir; mv wt w2")
    after = machine.snapshot(admin)
    assert {p: after[p] for p in before if "dir" in Path(p).name} == {
        p: before[p] for p in before if "dir" in Path(p).name
    }


def test_git_file_cannot_be_replaced(machine: Machine) -> None:
    """The `.git` file of a worktree decides what host git reads."""
    origin = machine.repository(machine.base / "origin")
    worktree = machine.base / "wt"
    machine.git("worktree", "add", "-q", "-b", "side", str(worktree), folder=origin)
    before = (worktree / ".git").read_text()
    machine.open_session(worktree)
    ran = machine.run("echo 'gitdir: /evil' > .git; rm -f .git; mv .git x; exit 1")
    assert before == (worktree / ".git").read_text(), ran.text


@pytest.mark.parametrize("part", ["", "worktrees/side", "modules/sub"])
def test_forged_git_file_opens_nothing(machine: Machine, part: str) -> None:
    """A `.git` file that names what belongs to another working copy leaves that read-only."""
    machine.need_visible_outside()
    origin = machine.repository(machine.outside / "origin")
    repository = machine.repository(machine.outside / "repo")
    machine.git("worktree", "add", "-q", str(machine.outside / "side"), folder=repository)
    machine.git("submodule", "add", "-q", str(origin), "sub", folder=repository)
    target = repository / ".git" / part
    machine.write(machine.workspace / ".git", f"gitdir: {target}\n")
    machine.open_session()
    before = machine.snapshot(machine.outside)
    ran = machine.run(
        f"echo x > {target}/HEAD; echo x > {target}/x; echo x > {repository}/.git/objects/x; exit 1"
    )
    assert ran.text.count("Read-only") == 3, ran.text
    assert before == machine.snapshot(machine.outside)


def test_forged_common_directory_opens_nothing(machine: Machine) -> None:
    """A worktree's own directory is writable inside, so its `commondir` proves nothing."""
    machine.need_visible_outside()
    victim = machine.repository(machine.outside / "victim") / ".git"
    fake = machine.outside / "fake"
    machine.write(fake / "gitdir", f"{machine.workspace}/.git\n")
    machine.write(fake / "commondir", f"{victim}\n")
    machine.write(fake / "HEAD", "ref: refs/heads/main\n")
    machine.write(machine.workspace / ".git", f"gitdir: {fake}\n")
    machine.open_session()
    ran = machine.run(f"echo x > {victim}/objects/x; echo x > {fake}/x; exit 1")
    assert ran.text.count("Read-only") == 2, ran.text


def test_git_link_that_points_outside_leaves_commands_running(machine: Machine) -> None:
    """`.git` as a symlink: commands start, and the link itself cannot be changed for good."""
    machine.need_visible_outside()
    machine.repository(machine.outside / "repo")
    (machine.workspace / ".git").symlink_to(machine.outside / "repo" / ".git")
    machine.open_session()
    ran = machine.run(
        "git log --oneline | wc -l; rm -f .git; mkdir -p .git/hooks; echo evil > .git/hooks/h"
    )
    assert ran.exit_code == 0
    assert ran.text.startswith("1\n")
    assert str(machine.outside / "repo" / ".git") == os.readlink(machine.workspace / ".git")
    assert [str(machine.workspace / ".git")] == ran.restored


def test_git_link_inside_the_workspace(machine: Machine) -> None:
    """`.git` as a symlink to a folder beside it: git works, hooks and config stay."""
    machine.repository()
    (machine.workspace / ".git").rename(machine.workspace / "store")
    (machine.workspace / ".git").symlink_to("store")
    machine.own()
    machine.open_session()
    ran = machine.run(
        "echo x >> file.txt && git commit -qam second; echo x >> store/config; exit 1"
    )
    assert "Read-only" in ran.text
    assert "second" in machine.git("log", "--format=%s")
    assert [] == ran.restored


def test_new_repository_can_be_made(machine: Machine) -> None:
    """A workspace without one can get one from inside."""
    machine.open_session()
    ran = machine.run(
        "git init -q && touch a && git add a && git -c user.name=a -c user.email=b "
        "commit -qm first && git log --oneline | wc -l"
    )
    assert (0, "1\n") == (ran.exit_code, ran.text)
    ran = machine.run("echo x >> .git/config; echo x > .git/hooks/pre-commit; exit 1")
    assert ran.text.count("Read-only") == 2


def test_repository_below_the_workspace_keeps_its_hooks(machine: Machine) -> None:
    """One that was there when the session started is protected at any depth."""
    nested = machine.repository(machine.workspace / "vendor/lib")
    before = machine.snapshot(nested / ".git/hooks", nested / ".git/config")
    machine.open_session()
    ran = machine.run(
        "cd vendor/lib; echo x >> .git/config; echo x > .git/hooks/pre-commit; "
        "echo x >> file.txt; git commit -qam second || exit 9"
    )
    assert ran.text.count("Read-only") == 2, ran.text
    assert ran.exit_code == 0
    assert before == machine.snapshot(nested / ".git/hooks", nested / ".git/config")


def test_nothing_is_left_in_the_git_directory(machine: Machine) -> None:
    """The stand-ins that keep absent files absent are gone afterwards."""
    machine.repository()
    before = {path.name for path in (machine.workspace / ".git").iterdir()}
    machine.open_session()
    assert "commondir" in machine.run("ls .git; git status").text
    assert before == {path.name for path in (machine.workspace / ".git").iterdir()}


def test_repository_identity_wins_over_the_users(machine: Machine) -> None:
    """A repository's own name and e-mail are what a commit outside would use."""
    machine.repository()
    machine.git("config", "user.email", "work@example.org")
    machine.open_session()
    ran = machine.run("echo x >> file.txt; git commit -qam x; git log -1 --format=%an:%ae")
    assert "Ada:work@example.org\n" == ran.text


def test_repository_cannot_run_a_program_when_a_session_starts(machine: Machine) -> None:
    """What a repository configures is not run by our own git (finding F5)."""
    machine.repository()
    witness = machine.base / "home" / "ran"
    machine.write(
        machine.workspace / ".git/hooks/post-index-change", f"#!/bin/sh\ntouch {witness}\n", 0o755
    )
    machine.git("config", "core.fsmonitor", f"touch {witness}")
    machine.git("config", "core.pager", f"touch {witness}")
    machine.open_session()
    assert not witness.exists()
    machine.git("status")
    assert witness.exists(), "the trap does not work, so the test proves nothing"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_git_reads_a_repository_of_another_user(machine: Machine) -> None:
    """As outside for a user who trusts that folder: a command cannot write there, but can look."""
    machine.repository()
    for path in (machine.workspace, *machine.workspace.rglob("*")):
        os.chown(path, 12345, 12345)
    machine.open_session()
    ran = machine.run("git log --format=%s; git status --short")
    assert (0, "first\n") == (ran.exit_code, ran.text)


def test_stand_ins_do_not_fail_git_clean_and_stash(machine: Machine) -> None:
    """The empty folders cannot be removed, so git must not try; what is new is handled as ever."""
    machine.repository()
    machine.open_session()
    ran = machine.run(
        "set -e; mkdir -p .github; touch new .github/CODEOWNERS; git stash -uq; test ! -e new; "
        "git stash pop -q > /dev/null; git status --short; git clean -fdq; "
        "test ! -e .github/CODEOWNERS"
    )
    assert (0, "?? .github/\n?? new\n") == (ran.exit_code, ran.text)


def test_ignore_file_of_the_user_comes_in(machine: Machine) -> None:
    """From where the user's own configuration says; never from where a repository's says."""
    machine.repository()
    machine.write(machine.home / ".ssh/id_rsa", "made-up-secret\n")
    machine.write(machine.home / "ignored", "*.swp\n")
    machine.git("config", "--global", "core.excludesFile", "~/ignored")
    machine.open_session()
    ran = machine.run("touch a.swp b.txt; git status --short")
    assert "?? b.txt\n" == ran.text
    machine.git("config", "core.excludesFile", str(machine.home / ".ssh/id_rsa"))
    machine.open_session(session="t")
    assert "made-up-secret" not in machine.run("cat ~/.config/git/ignore", session="t").text


def test_default_ignore_file_of_the_user_comes_in(machine: Machine) -> None:
    """`~/.config/git/ignore`, when nothing is configured."""
    machine.repository()
    machine.write(machine.home / ".config/git/ignore", ".DS_Store\n")
    machine.open_session()
    assert "" == machine.run("touch .DS_Store; git status --short").text


def test_absent_hooks_of_modules_and_worktrees_cannot_be_made(machine: Machine) -> None:
    """What a command makes there is set aside when it ends, and told."""
    machine.repository()
    library = machine.repository(machine.base / "library")
    machine.git("-c", "init.templateDir=", "submodule", "add", "-q", str(library), "lib")
    machine.git("worktree", "add", "-q", str(machine.base / "tree"))
    machine.own()
    module, tree = machine.workspace / ".git/modules/lib", machine.workspace / ".git/worktrees/tree"
    made = {module / "hooks", module / "config.worktree", tree / "config.worktree"}
    assert not any(path.exists() for path in made)
    machine.open_session()
    ran = machine.run(
        f"mkdir {module}/hooks && echo x > {module}/hooks/pre-commit "
        f"&& echo x > {module}/config.worktree && echo x > {tree}/config.worktree"
    )
    assert {str(path) for path in made} == set(ran.restored)
    assert not any(path.exists() for path in made)
    ran = machine.run("git -C lib -c user.name=a -c user.email=b commit -qm more --allow-empty")
    assert (0, []) == (ran.exit_code, ran.restored), ran.text


def test_bare_repository_keeps_its_hooks_and_config(machine: Machine) -> None:
    """One that is the workspace itself is protected like one in a `.git` folder."""
    machine.git("init", "-q", "--bare", ".")
    machine.own()
    before = machine.snapshot(machine.workspace)
    machine.open_session()
    ran = machine.run(
        "echo x > hooks/pre-receive; echo x >> config; echo x > config.worktree; "
        "mv hooks h2; rm -f config; "
        "git symbolic-ref HEAD refs/heads/other && git rev-parse --git-dir"
    )
    assert (0, ".") == (ran.exit_code, ran.text.split()[-1])
    assert ran.text.count("Read-only") == 3, ran.text
    after = machine.snapshot(machine.workspace)
    head = str(machine.workspace / "HEAD")
    assert {**before, head: (before[head][0], b"ref: refs/heads/other\n")} == after
