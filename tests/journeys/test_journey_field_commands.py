"""
Faults that users met in programs like this one: commands and the sandbox that they run in.

Each test is one kind of fault, tried as it was met. `test_field_reports` has the whole list.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

MIB = 1 << 20
# The outputs below are 300 MB together.
GROWTH = 48 * MIB


def peak(client) -> int:
    """The most memory that the server has used, in bytes."""
    status = Path(f"/proc/{client.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def timed(command, timeout_s):
    """A prompt that runs a command with a time-out and goes on."""
    call = f"tools.shell(command={command!r}, timeout_s={timeout_s})"
    return f"/code <<END\ntry:\n    {call}\nexcept ToolFailed:\n    pass\nEND"


def test_output_of_any_amount_and_shape_is_shown_in_bounded_memory(client, session):
    """Without end, without a line end, drawn over itself, on both streams; the next turn works."""
    client.permissions.allow_all()
    client.still_works(session)
    before = peak(client)
    for prompt, statuses in (
        (timed("yes", 1), ["completed", "failed"]),
        (timed("yes out & yes err >&2", 1), ["completed", "failed"]),
        ("/shell head -c 200M /dev/zero", ["completed"]),
        ("/shell head -c 50M /dev/zero | tr '\\0' x", ["completed"]),
        ("/shell for i in {1..20000}; do printf '\\r%s' $i; done", ["completed"]),
    ):
        turn = client.run(session, prompt, 60)
        assert statuses == [call["status"] for call in turn.calls]
        chunks = [u for u in turn.updates if u.kind == "terminal_output_chunk"]
        assert sum(len(u.body["data"]) for u in chunks) < 3 * MIB
        # One in ten milliseconds, unless they are large.
        assert len(chunks) < 2000
    assert peak(client) - before < GROWTH
    client.still_works(session)


def git(folder, *arguments):
    """Run git outside of the sandbox."""
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True)


@pytest.fixture(name="checkouts")
def _checkouts(tmp_path):
    """Working copies: a plain one, a worktree, one whose `.git` is a link, and none."""
    folder = tmp_path / "checkouts"
    for name in ("plain", "linked", "none"):
        (folder / name).mkdir(parents=True)
    for name in ("plain", "linked"):
        git(folder / name, "init", "-q")
        git(folder / name, "commit", "-q", "--allow-empty", "-m", "first")
    (folder / "linked" / ".git").rename(folder / "real.git")
    (folder / "linked" / ".git").symlink_to(folder / "real.git")
    git(folder / "plain", "worktree", "add", "-q", str(folder / "worktree"))
    return folder


def test_commands_start_and_git_works_whatever_dot_git_is(client, checkouts):
    """In a plain copy and a worktree it commits; nowhere can a hook be written."""
    client.permissions.allow_all()
    commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m second"
    hook = "echo evil > $(git rev-parse --git-common-dir)/hooks/pre-commit"
    for name in ("plain", "worktree", "linked", "none"):
        session = client.new_session(checkouts / name)
        prompt = f"/shell ls\n/shell git status\n/shell {commit}\n/shell {hook}"
        statuses = [call["status"] for call in client.run(session, prompt, 60).calls]
        # A link out of the workspace opens nothing: there is no repository inside then.
        works = "completed" if name in ("plain", "worktree") else "failed"
        assert ["completed", works, works, "failed"] == statuses, name
    assert [] == list(checkouts.rglob("pre-commit"))


def test_temporary_files_work_whatever_the_host_calls_its_folder(start, project, tmp_path):
    """A TMPDIR that is not there, or a file; two calls share what they put into `/tmp`."""
    (tmp_path / "file").touch()
    for folder in ("/no/such/folder", str(tmp_path / "file")):
        client = start(TMPDIR=folder)
        client.initialize()
        client.permissions.allow_all()
        one = 'set -e; cat <<< "$(mktemp -d)"; test -d "$TMPDIR"; touch /tmp/x "$TMPDIR/y"'
        two = 'test -e /tmp/x -a -e "$TMPDIR/y"'
        turn = client.run(client.new_session(project), f"/shell {one}\n/shell {two}")
        assert ["completed"] * 2 == [call["status"] for call in turn.calls]
        client.close()
    assert not Path("/tmp/x").exists()
