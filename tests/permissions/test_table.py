"""
The tables of spec sections 7 and 8, row by row, through the real program.

The proof is the file system for what a call does, and the text that the model was told for
what it reads.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from tests.models.steps import Call

ONCE = {"approve", "reject"}
READ_LASTING = {*ONCE, "allow-folder-session"}
EDIT_LASTING = {*ONCE, "allow-edit-file-session", "allow-edit-folder-session"}
SECRET = "what the file says"


@attrs.frozen
class Use:
    """A tool used on a file at `path` that says SECRET; `ran` says whether it did its work."""

    tool: str
    call: Callable[[Path], Call]
    ran: Callable[[Path, str], bool]
    prepared: bool = True


def is_told(path: Path, result: str) -> bool:
    return SECRET in result


def has(text: str) -> Callable[[Path, str], bool]:
    return lambda path, _result: path.exists() and text in path.read_text()


def patch(kind: str, path: Path, diff: str) -> Call:
    return Call.of("apply_patch", operations=[{"type": kind, "path": str(path), "diff": diff}])


READS = [
    Use("read_file", lambda p: Call.of("read_file", path=str(p)), is_told),
    Use("grep", lambda p: Call.of("grep", pattern="what the", path=str(p)), is_told),
    Use(
        "glob",
        lambda p: Call.of("glob", pattern="*file*", path=str(p.parent)),
        lambda p, result: p.name in result and result.count("\n") == 0 and "Nothing" not in result,
    ),
]
EDITS = [
    Use(
        "create_file",
        lambda p: Call.of("create_file", path=str(p), content="made"),
        has("made"),
        prepared=False,
    ),
    Use(
        "search_replace",
        lambda p: Call.of(
            "search_replace",
            path=str(p),
            replacements=[{"search_content": SECRET, "replace_content": "replaced"}],
        ),
        has("replaced"),
    ),
    Use(
        "apply_patch create",
        lambda p: patch("create_file", p, "+made"),
        has("made"),
        prepared=False,
    ),
    Use(
        "apply_patch update",
        lambda p: patch("update_file", p, f"-{SECRET}\n+patched"),
        has("patched"),
    ),
    Use(
        "apply_patch delete",
        lambda p: patch("delete_file", p, ""),
        lambda p, _result: not p.exists(),
    ),
]
PROGRAMS = [
    Use(
        "shell",
        lambda p: Call.of("shell", command=f"echo made > {p.name}"),
        has("made"),
        prepared=False,
    ),
    Use(
        "shell unsandboxed",
        lambda p: Call.of("shell", command=f"echo made > {p.name}", sandbox="unsandboxed"),
        has("made"),
        prepared=False,
    ),
    Use(
        "run_code",
        lambda p: Call.of("run_code", code=f"open({p.name!r}, 'w').write('made')"),
        has("made"),
        prepared=False,
    ),
]
PLACES = {
    "inside": (None, None),
    "outside": (READ_LASTING, EDIT_LASTING),
    "protected": (None, ONCE),
    "store": (ONCE, ONCE),
    "configuration": (ONCE, ONCE),
}


def prepare(stage, place, use):
    """A session, and the path of a file in a place, there if the use needs it."""
    session, work = stage.workspace()
    folder = {
        "inside": work / "sub",
        "outside": stage.folder(),
        "protected": work / "sub" / ".vscode",
        "store": stage.home.path / ".aws" / work.name,
        "configuration": stage.home.config / "term2" / work.name,
    }[place]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "file.txt"
    if use.prepared:
        path.write_text(f"{SECRET}\n")
    return session, path


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("use", READS + EDITS, ids=lambda use: use.tool)
def test_a_path_is_asked_for_by_where_it_is(stage, use, place):
    """Who asks, what is offered, nothing after a denial, the whole of it after an approval."""
    expected = PLACES[place][use in EDITS]
    session, path = prepare(stage, place, use)
    before = path.read_text() if use.prepared else None
    if expected is not None:
        denied = stage.play(session, use.call(path), answers="reject")
        assert (denied.status, denied.options) == ("failed", expected)
        assert "denied" in denied.result
        assert not use.ran(path, denied.result)
        assert (path.read_text() if path.exists() else None) == before
    allowed = stage.play(session, use.call(path), answers="approve" if expected else "")
    assert (allowed.status, allowed.options) == ("completed", expected), allowed
    assert use.ran(path, allowed.result), allowed


@pytest.mark.parametrize("use", PROGRAMS, ids=lambda use: use.tool)
def test_a_program_asks_always(stage, use):
    """Also the same one again; only once is offered; an unsandboxed one is not offered."""
    session, work = stage.workspace()
    path = work / "file.txt"
    for answer in ("reject", "approve", "deny", "allow-once"):
        path.unlink(missing_ok=True)
        played = stage.play(session, use.call(path), answers=answer)
        assert played.options == ONCE
        assert use.ran(path, "") == (answer in ("approve", "allow-once")), (answer, played)


def test_a_plan_is_never_asked_for(stage):
    """It is shown."""
    session, _work = stage.workspace()
    entry = {"content": "think", "priority": "high", "status": "pending"}
    assert stage.play(session, Call.of("update_plan", entries=[entry])).status == "completed"
    (update,) = [u for u in stage.client.updates(session) if u.kind == "plan_update"]
    assert "think" in str(update.body)


def test_unsandboxed_means_the_sandbox(stage):
    """Nothing outside can be written, no network is there, and no word is made of it."""
    session, _work = stage.workspace()
    outside = stage.folder()
    command = (
        f"echo leak > {outside}/leak; echo leak > /etc/term2-leak; "
        "echo interfaces $(grep -c : /proc/net/dev)"
    )
    call = Call.of("shell", command=command, sandbox="unsandboxed")
    played = stage.play(session, call, answers="approve")
    assert "leak" not in os.listdir(outside)
    assert not Path("/etc/term2-leak").exists()
    assert "interfaces 1\n" in played.result, "only the loopback is there"


PROTECTED = [
    ".git/hooks/pre-commit",
    ".git/config",
    ".git/config.worktree",
    ".git/modules/sub/hooks/x",
    ".git/modules/sub/config",
    ".git/worktrees/w/hooks/x",
    ".git/worktrees/w/config.worktree",
    ".git/HEAD",
    ".git/refs/heads/x",
    ".github/workflows/ci.yml",
    ".vscode/tasks.json",
    ".idea/x.xml",
    ".claude/settings.json",
    ".cursor/rules",
    ".gitmodules",
    ".gitconfig",
    ".mcp.json",
    ".ripgreprc",
    ".envrc",
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".env",
    ".env.local",
]


@pytest.mark.parametrize("below", ["", "deep/er/"])
def test_every_protected_path_is_asked_for_by_edits_and_free_to_read(stage, below):
    """At any depth, by each edit tool; a denial leaves it as it was, an approval is for once."""
    session, work = stage.workspace()
    targets = [work / below / name for name in PROTECTED]
    for path in targets:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{SECRET}\n")
    read = stage.play(session, tuple(Call.of("read_file", path=str(path)) for path in targets))
    assert [SECRET in result for result in read.results] == [True] * len(targets)
    changes = [EDITS[(1, 3, 4)[number % 3]] for number in range(len(targets))]
    edits = tuple(use.call(path) for use, path in zip(changes, targets, strict=True))
    denied = stage.play(session, edits, answers="reject")
    assert [set(request.options) for request in denied.asked] == [ONCE] * len(targets)
    assert [path.read_text() for path in targets] == [f"{SECRET}\n"] * len(targets)
    allowed = stage.play(session, edits, answers="approve")
    assert [set(request.options) for request in allowed.asked] == [ONCE] * len(targets)
    assert all(use.ran(path, "") for use, path in zip(changes, targets, strict=True))
    for path in targets:
        path.unlink(missing_ok=True)
    made = tuple(Call.of("create_file", path=str(path), content="x") for path in targets)
    refused = stage.play(session, made, answers="reject")
    assert [set(request.options) for request in refused.asked] == [ONCE] * len(targets)
    assert not any(path.exists() for path in targets)


def test_what_is_only_like_a_protected_path_is_free(stage):
    """Names that begin or end alike."""
    session, work = stage.workspace()
    names = [".gitignore", ".environment", "env", ".github/CODEOWNERS", "workflows/x", ".envrcs"]
    calls = [Call.of("create_file", path=name, content="x") for name in names]
    assert stage.play(session, *calls).statuses == ["completed"] * len(names)
    assert all((work / name).exists() for name in names)


WRITABLE = (".env", ".env.local", ".git/refs/heads/x")
READ_ONLY = tuple(
    name
    for name in PROTECTED
    if name not in (*WRITABLE, ".git/HEAD") and not name.startswith((".git/mod", ".git/work"))
)
OF_GIT = (".git/modules/sub/hooks/x", ".git/modules/sub/config", ".git/worktrees/w/config.worktree")


@pytest.mark.parametrize("tool", ["shell", "run_code"])
@pytest.mark.parametrize("there", [True, False])
def test_what_programs_may_write(stage, tool, there):
    """Section 7's column for shell and run_code: read-only, writable, and git itself works."""
    work = stage.folder("repository")
    subprocess.run(["git", "init", "-q", "."], cwd=work, check=True)
    guarded = READ_ONLY
    if there:
        guarded += OF_GIT
        for admin in ("modules/sub", "worktrees/w"):
            (work / ".git" / admin).mkdir(parents=True)
            (work / ".git" / admin / "HEAD").write_text("ref: refs/heads/main\n")
        for name in (*guarded, *WRITABLE[:2]):
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    before = tree(work, guarded)
    session = stage.client.new_session(work)
    tried = [*guarded, *WRITABLE]
    lines = [
        f"(mkdir -p $(dirname {name}); echo by-program >> {name}) 2>/dev/null" for name in tried
    ]
    lines += [
        "mv .git .moved 2>/dev/null",
        "rm -rf .git/config .git/hooks 2>/dev/null",
        "rm .git/refs/heads/x; cat .env",
        "echo x > file; git add file && git -c user.name=n -c user.email=e commit -qm made",
    ]
    script = "\n".join(lines)
    call = Call.of("shell", command=script)
    if tool == "run_code":
        code = f"import subprocess\nsubprocess.run(['bash', '-c', {script!r}])"
        call = Call.of("run_code", code=code)
    played = stage.play(session, call, answers="approve")
    assert tree(work, guarded) == before, played
    for name in WRITABLE[:2]:
        assert (work / name).read_text() == "by-program\n", (name, played)
    assert "by-program" in played.result, "the .env is not hidden"
    assert not (work / ".moved").exists()
    asked = ["git", "log", "--format=%s", "-1"]
    log = subprocess.run(asked, cwd=work, capture_output=True, text=True, check=False)
    assert log.stdout == "made\n", (log.stderr, played)


def tree(work, names):
    """The text of each file, None where there is none."""
    return {name: (work / name).read_text() if (work / name).is_file() else None for name in names}
