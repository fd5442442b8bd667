"""What a hostile workspace, model or machine must not be able to stop (spec sections 3 to 11)."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading

import pytest

from tests.harness.messages import encode
from tests.models.steps import Call, ScriptedStep


@pytest.mark.parametrize(
    "arguments",
    [
        '{"path": "README.md", "x": ' + "[" * 400 + "]" * 400 + "}",
        '{"path": "README.md", "x": ' + '{"a":' * 5000 + "1" + "}" * 5000 + "}",
        '{"path": "README.md", "start_line": NaN}',
        '{"path": "README.md", "start_line": 1e999}',
        '{"path": "README.md", "start_line": -Infinity}',
    ],
    ids=["deep", "deeper", "NaN", "1e999", "-Infinity"],
)
def test_arguments_that_no_json_can_hold_fail_their_call_only(
    lent_chat, open_session, project, arguments
):
    """The call fails, the turn and other sessions go on, and the session can be replayed."""
    chat = lent_chat.service
    client, session = open_session(lent_chat.client)
    chat.step(ScriptedStep(calls=(Call("read_file", arguments),)))
    chat.step(ScriptedStep(text="I see."))
    answer = client.run(session, "hi")
    assert (answer.stop_reason, answer.text) == ("end_turn", "I see.")
    assert [call["status"] for call in answer.calls] == ["failed"]
    assert client.replay(session, project)
    _, other = open_session(client)
    chat.step(ScriptedStep(text="Fine."))
    assert client.run(other, "hi").text == "Fine."


@pytest.mark.parametrize("name", [".git/HEAD", "AGENTS.md", ".gitignore"])
def test_a_fifo_in_the_workspace_holds_nobody_up(client, project, name):
    """A pipe in place of a file that the agent looks at by itself."""
    (project / ".git").mkdir()
    os.mkfifo(project / name) if not (project / name).exists() else (
        (project / name).unlink(),
        os.mkfifo(project / name),
    )
    session = client.new_session(project)
    client.still_works(session)
    client.close_session(session)


def test_a_locked_database_delays_neither_a_cancel_nor_the_end(client, session, home):
    """Another program holds the database: the turn stops on a cancel, the process on EOF."""
    client.prompt(session, "/sleep 600").result()
    [path] = home.state.rglob("sessions.db")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        client.cancel(session)
        assert client.wait_idle(session, 2) == "cancelled"
        client.eof()
        assert client.wait_exit(5) == 0


def test_the_unstored_end_of_a_turn_is_stored_with_the_next(client, session, project, home):
    """Once the database is free again the log is whole: no call stays open in a replay."""
    client.permissions.allow_all()
    client.prompt(session, "/shell sleep 600").result()
    client.wait_update(lambda u: u.body.get("command") == "sleep 600", session=session)
    [path] = home.state.rglob("sessions.db")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        client.cancel(session)
        assert client.wait_idle(session, 2) == "cancelled"
    client.still_works(session)
    calls = [u.body for u in client.replay(session, project) if u.kind == "tool_call_update"]
    assert [call["status"] for call in calls] == ["cancelled"]


def test_an_editor_that_does_not_read_stderr_is_served(home, start):
    """Thousands of diagnostics into a full pipe; then an answer and an orderly end."""
    client = start(TERM2_LOG="debug")
    client.process.pause_stderr()
    client.initialize()
    unknown = encode({"jsonrpc": "2.0", "method": "no/such", "params": {"x": "y" * 50}})
    client.send_raw(unknown * 5000)
    client.sync()
    client.eof()
    # The process alone: the end of its standard error is not read yet.
    assert client.process.popen.wait(5) == 0
    client.process.resume_stderr()


def test_a_cancelled_command_keeps_what_it_showed(client, session, project):
    """The terminal stays the call's content, live and in a replay."""
    client.permissions.allow_all()
    client.prompt(session, "/shell echo partial; sleep 600").result()
    client.wait_update(lambda u: u.kind == "terminal_output_chunk", session=session)
    client.cancel(session)
    assert client.wait_idle(session, 5) == "cancelled"
    calls = [u.body for u in client.updates(session) if u.kind == "tool_call_update"]
    assert calls[-1]["status"] == "cancelled"
    assert [item["type"] for item in calls[-1]["content"]] == ["terminal"]
    replayed = [u.body for u in client.replay(session, project) if u.kind == "tool_call_update"]
    assert replayed[-1]["content"] == calls[-1]["content"]


def test_a_session_in_a_bad_folder_does_not_stop_the_others(client, project, tmp_path):
    """A link to a name that is not UTF-8 is refused by name, and the next session opens."""
    bad = os.fsencode(tmp_path) + b"/f\xff"
    os.mkdir(bad)
    link = tmp_path / "link"
    os.symlink(bad, link)
    reply = client.request("session/new", {"cwd": str(link)})
    assert reply.code() == -32602
    assert "UTF-8" in reply.error()["message"]
    client.still_works(client.new_session(project))


def test_many_sessions_are_opened_side_by_side(client, project):
    """One after the other in one write, each with an id of its own."""
    pairs = [client.prepare("session/new", {"cwd": str(project)}) for _ in range(20)]
    client.send_raw(b"".join(encode(message) for _reply, message in pairs))
    ids = {reply.result()["sessionId"] for reply, _message in pairs}
    assert len(ids) == 20
    done = threading.Event()
    done.set()
    for session in sorted(ids)[:3]:
        client.still_works(session)
