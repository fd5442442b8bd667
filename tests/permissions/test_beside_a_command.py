"""Edits of protected files while another session runs a command in the same workspace."""

from __future__ import annotations

import subprocess
import threading

import pytest

from tests.models.steps import Call, ScriptedStep

OLD, NEW = "[core]\n", "[core]\n# allowed\n"


def replace(path):
    pair = {"search_content": OLD, "replace_content": NEW}
    return Call.of("search_replace", path=path, replacements=[pair])


def patch(path):
    operation = {"type": "update_file", "path": path, "diff": " [core]\n+# allowed"}
    return Call.of("apply_patch", operations=[operation])


def overwrite(path):
    return Call.of("create_file", path=path, content=NEW, overwrite=True)


@pytest.mark.parametrize("path", [".envrc", ".git/config", "sub/.envrc"])
@pytest.mark.parametrize("edit", [replace, patch, overwrite])
def test_an_allowed_edit_stays_and_lets_no_command_of_another_session_in(stage, path, edit):
    """
    A sandbox guards the file that it has mounted, not one that takes its name.

    So the edit keeps the inode: the command, which was allowed to run but not to write there,
    still cannot, and what it is undone for is not the edit of the other session.
    """
    work = stage.folder("shared")
    subprocess.run(["git", "init", "-q", "."], cwd=work, check=True)
    (work / path).parent.mkdir(exist_ok=True)
    (work / path).write_text(OLD)
    runs, edits = stage.client.new_session(work), stage.client.new_session(work)
    wait = f"echo started; while [ ! -e go ]; do sleep 0.02; done; echo by-command >> {path}; true"
    with command_that_waits(stage, runs, wait) as command:
        permissions = stage.client.permissions
        calls = (Call.of("read_file", path=path), edit(path))
        stage.chat.step(ScriptedStep(calls=calls))
        stage.chat.step(ScriptedStep(text="Done."))
        stage.chat.step(ScriptedStep(text="Done."))
        turn = stage.client.run(edits, "Edit it.", 60)
        assert [call["status"] for call in turn.calls] == ["completed", "completed"], turn.calls
        assert (work / path).read_text() == NEW
        (work / "go").touch()
        command.join(60)
    assert (work / path).read_text() == NEW
    assert "displaced" not in str(sorted(work.rglob("*")))
    assert permissions.requests[-1].tool_call["name"] != "shell"


def test_a_name_that_a_sandbox_keeps_free_is_not_made_meanwhile(stage):
    """The call says what is the matter, and works once the command has ended."""
    work = stage.folder("shared")
    runs, edits = stage.client.new_session(work), stage.client.new_session(work)
    with command_that_waits(
        stage, runs, "echo started; while [ ! -e go ]; do sleep 0.02; done"
    ) as command:
        stage.chat.step(ScriptedStep(calls=(Call.of("create_file", path=".envrc", content="x"),)))
        stage.chat.step(ScriptedStep(text="Done."))
        stage.chat.step(ScriptedStep(text="Done."))
        turn = stage.client.run(edits, "Make it.", 60)
        assert "keeps free while a command or code runs" in str(turn.calls[0]["content"])
        (work / "go").touch()
        command.join(60)
    made = Call.of("create_file", path=".envrc", content="x")
    assert stage.play(edits, made, answers="approve").status == "completed"
    assert (work / ".envrc").read_text() == "x"


class command_that_waits:  # noqa: N801  used like a function
    """A session's command on a thread of its own; entered once it runs."""

    def __init__(self, stage, session, command):
        self._stage, self._session = stage, session
        stage.client.permissions.allow_all()
        stage.chat.step(ScriptedStep(calls=(Call.of("shell", command=command),)))
        args = (session, "Run it.", 60)
        self._thread = threading.Thread(target=stage.client.run, args=args, name="command")

    def __enter__(self):
        self._thread.start()
        self._stage.client.wait_update(
            lambda update: update.kind == "terminal_output_chunk",
            session=self._session,
            what="the start of the command",
        )
        return self._thread

    def __exit__(self, *_error):
        self._thread.join(60)


def test_a_command_keeps_the_guards_of_one_that_runs_in_another_session(stage):
    """Both have run commands before; neither gets out, and nothing is left in the workspace."""
    work = stage.folder("shared")
    runs, other = stage.client.new_session(work), stage.client.new_session(work)
    for session in (runs, other):
        stage.play(session, Call.of("shell", command="true"), answers="approve")
    wait = (
        "echo started; while [ ! -e go ]; do sleep 0.02; done; rm go;"
        " mkdir -p .vscode/made .idea/made; echo x > .bashrc; true"
    )
    with command_that_waits(stage, runs, wait) as command:
        stage.chat.step(ScriptedStep(calls=(Call.of("shell", command="true"),)))
        stage.chat.step(ScriptedStep(text="Done."))
        stage.chat.step(ScriptedStep(text="Done."))
        turn = stage.client.run(other, "Run it.", 60)
        assert [call["status"] for call in turn.calls] == ["completed"]
        (work / "go").touch()
        command.join(60)
    told = "".join(str(update.body) for update in stage.client.updates(runs))
    assert "put back" not in told
    assert list(work.iterdir()) == []
