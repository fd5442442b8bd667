"""Spec section 6: clients of version 1 that do what they should not, and are survived."""

from __future__ import annotations

import base64
import contextlib
import sqlite3
import subprocess

import pytest

from tests.harness.client import Client
from tests.harness.editor import (
    begin,
    final,
    load,
    of,
    open_session,
    prompt,
    run,
    said,
    still_works,
    text,
)
from tests.harness.home import Home
from tests.harness.processes import wait_until_gone

SOON = 5.0
# The specification says at most 5 s; the rest is for a loaded machine.
END = 8.0

ALLOW = {"outcome": {"outcome": "selected", "optionId": "approve"}}
NO_ANSWERS = {
    "version 2's optionId": {"outcome": {"outcome": "selected", "option_id": "approve"}},
    "an outcome that is a word": {"outcome": "approve"},
    "the option alone": {"optionId": "approve"},
    "an option's name": {"outcome": {"outcome": "selected", "optionId": "Allow once"}},
    "an option's kind": {"outcome": {"outcome": "selected", "optionId": "allow_once"}},
    "another outcome": {"outcome": {"outcome": "allowed", "optionId": "approve"}},
    "no option": {"outcome": {"outcome": "selected"}},
    "cancelled": {"outcome": {"outcome": "cancelled"}},
    "an array": [ALLOW],
    "a boolean": True,
    "null": None,
}


@pytest.fixture(scope="module", name="home_of_all")
def _home_of_all(tmp_path_factory):
    return Home.create(tmp_path_factory.mktemp("version1"))


@pytest.fixture(scope="module", name="editor")
def _editor(home_of_all):
    client = Client(home_of_all)
    begin(client)
    yield client
    client.close()


@pytest.fixture(name="folder")
def _folder(editor):
    # No question of an earlier test is taken for one of this.
    editor.permissions.forget()
    return editor.home.project()


@pytest.fixture(name="session")
def _session(editor, folder):
    return open_session(editor, folder)


def test_an_answer_of_the_wrong_shape_runs_nothing(editor, session, folder):
    """The call has failed, the turn goes on to its end and the session works."""
    for answer in NO_ANSWERS.values():
        reply = prompt(editor, session, "/shell touch denied")
        editor.permissions.reply(editor.permissions.next(), answer)
        assert reply.result() == {"stopReason": "end_turn"}, answer
        assert final(editor.updates(session))[-1]["status"] == "failed", answer
    for code in (-32601, -32603, -32800):
        reply = prompt(editor, session, "/shell touch denied")
        editor.permissions.fail(editor.permissions.next(), code)
        assert reply.result() == {"stopReason": "end_turn"}, code
        assert final(editor.updates(session))[-1]["status"] == "failed", code
    assert not (folder / "denied").exists()
    still_works(editor, session)


@pytest.mark.parametrize("way", ["session/cancel", "$/cancel_request", "session/close"])
def test_a_question_that_is_never_answered_is_taken_back(editor, session, folder, way):
    """The prompt is `cancelled`, its call failed; an answer that comes later runs nothing."""
    reply = prompt(editor, session, "/say so far\n/shell touch late")
    question = editor.permissions.next()
    if way == "$/cancel_request":
        editor.notify(way, {"requestId": reply.expected.id})
    elif way == "session/cancel":
        editor.notify(way, {"sessionId": session})
    else:
        assert editor.request(way, {"sessionId": session}).result(SOON) == {}
    assert reply.result(SOON) == {"stopReason": "cancelled"}
    assert question.cancelled
    assert [call["status"] for call in final(editor.updates(session))] == ["failed"]
    editor.permissions.reply(question, ALLOW)
    load(editor, session, folder)
    still_works(editor, session)
    assert not (folder / "late").exists()


def test_the_end_of_stdin_settles_a_prompt_with_an_open_question(start, project):
    """The prompt is answered `cancelled` and the question taken back before the exit."""
    editor = start()
    begin(editor)
    session = open_session(editor, project)
    reply = prompt(editor, session, "/shell touch never")
    question = editor.permissions.next()
    editor.eof()
    assert editor.wait_exit(END) == 0
    assert reply.result() == {"stopReason": "cancelled"}
    assert question.cancelled
    assert not (project / "never").exists()


def test_a_version_of_another_type_is_refused_and_version_1_served_then(start, project):
    """Strings, fractions and nothing are -32602; the connection can still negotiate."""
    editor = start()
    for version in ("1", "1.0", "2024-11-05", 1.5, None, True, [1], {"major": 1}):
        refused = editor.request("initialize", {"protocolVersion": version})
        assert refused.code() == -32602, version
        assert "protocolVersion" in refused.error()["message"]
    assert begin(editor)["protocolVersion"] == 1
    still_works(editor, open_session(editor, project))


@pytest.mark.parametrize(
    "members",
    [
        {"clientCapabilities": None, "clientInfo": None},
        {"clientCapabilities": 5, "clientInfo": [], "_meta": "x", "unknown": {}},
        {"clientCapabilities": {"fs": "yes", "terminal": {}, "_own": 1}, "clientInfo": {"name": 1}},
    ],
    ids=["null", "of other types", "with wrong members"],
)
def test_capabilities_may_be_missing_or_wrong(start, project, members):
    """Only protocolVersion is required; what the client can do changes nothing here."""
    editor = start()
    assert begin(editor, **members)["protocolVersion"] == 1
    still_works(editor, open_session(editor, project))


def test_servers_and_folders_of_the_client_are_accepted_and_not_used(editor, session, folder):
    """By new, load and resume, whatever the items are; load needs the array, resume does not."""
    still_works(editor, session)
    server = {"name": "x", "command": "touch", "args": [str(folder / "mounted")], "env": []}
    http = {"type": "http", "name": "y", "url": "http://127.0.0.1:1/", "headers": []}
    for servers in ([server], [http], [{}], [None], ["x"]):
        more = {"cwd": str(folder), "mcpServers": servers, "additionalDirectories": ["/"]}
        assert editor.request("session/new", more).result()["sessionId"]
        for method in ("session/load", "session/resume"):
            params = {"sessionId": session, **more}
            assert editor.request(method, params).result() == {}, (method, servers)
    params = {"sessionId": session, "cwd": str(folder)}
    assert "mcpServers" in editor.request("session/load", params).error()["message"]
    assert editor.request("session/resume", params).result() == {}
    assert "mcpServers" in editor.stderr
    assert "additionalDirectories" in editor.stderr
    assert not (folder / "mounted").exists()
    still_works(editor, session)


def test_a_folder_that_is_none_or_not_to_be_worked_in_is_refused(editor, session, folder):
    """Missing, empty, relative, absent, the root, another type: -32602 names cwd."""
    still_works(editor, session)
    for cwd in (None, "", ".", str(folder / "absent"), "/", 5):
        params = {"mcpServers": [], **({} if cwd is None else {"cwd": cwd})}
        for method, more in (("session/new", {}), ("session/load", {"sessionId": session})):
            error = editor.request(method, {**params, **more}).error()
            assert error["code"] == -32602, (method, cwd)
            assert "cwd" in f"{error['message']} {error.get('data', '')}", (method, cwd)
    still_works(editor, session)


def test_a_turn_that_a_kill_left_open_is_closed_by_a_load(start, project):
    """Its call has failed and the next prompt works; nothing says that it went on."""
    editor = start()
    begin(editor)
    editor.permissions.allow_all()
    session = open_session(editor, project)
    prompt(editor, session, "/say so far\n/shell echo $((40 + 2)) rings; sleep 600")
    editor.wait_for(lambda: "42 rings" in output(editor, session), "the command's output")
    editor.kill()
    editor.wait_exit()
    editor = start()
    begin(editor)
    replayed = load(editor, session, project)
    assert said(replayed).startswith("so far")
    (call,) = final(replayed)
    assert call["status"] == "failed"
    assert "42 rings" in call["content"][0]["content"]["text"]
    still_works(editor, session)


def test_a_turn_whose_end_cannot_be_stored_has_failed(editor, session, home_of_all):
    """It is no end_turn, as in version 2; the next prompt is answered as if nothing had been."""
    database = home_of_all.state / "term2" / "sessions.db"
    with contextlib.closing(sqlite3.connect(database)) as store, store:
        store.execute(
            "CREATE TRIGGER no_end BEFORE INSERT ON events WHEN NEW.type = 'turn_ended'"
            " BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
    reply = prompt(editor, session, "/say told")
    error = reply.error()
    with contextlib.closing(sqlite3.connect(database)) as store, store:
        store.execute("DROP TRIGGER no_end")
    assert error["code"] == -32603
    assert str(database) in error["message"]
    assert said(editor.updates(session)) == "told"
    still_works(editor, session)


def test_a_cancel_that_comes_twice_counts_once(editor, session):
    """While a turn runs, right behind its end and with nothing to cancel."""
    cancel = {"sessionId": session}
    reply = prompt(editor, session, "/say going\n/sleep 600")
    editor.wait_update(lambda u: u.kind == "agent_message_chunk", session=session)
    for _ in range(2):
        editor.notify("session/cancel", cancel)
    editor.notify("$/cancel_request", {"requestId": reply.expected.id})
    assert reply.result(SOON) == {"stopReason": "cancelled"}
    editor.notify("session/cancel", cancel)
    editor.notify("$/cancel_request", {"requestId": reply.expected.id})
    still_works(editor, session)


@pytest.mark.parametrize("name", ["", "no-such-session", "../../x", "\u0000", "closed"])
def test_a_session_that_is_not_there_is_not_found(editor, session, folder, name):
    """-32002 for every method that names one; nothing is made, and a closed one can be loaded."""
    if name == "closed":
        still_works(editor, session)
        name = session
        assert editor.request("session/close", {"sessionId": name}).result() == {}
    requests = [
        ("session/prompt", {"prompt": text("/say x")}),
        ("session/close", {}),
    ]
    opening = {"cwd": str(folder), "mcpServers": []}
    if name != session:
        requests += [("session/load", opening), ("session/resume", opening)]
    for method, more in requests:
        assert editor.request(method, {"sessionId": name, **more}).code() == -32002, method
    editor.notify("session/cancel", {"sessionId": name})
    listed = editor.request("session/list", {}).result()["sessions"]
    assert all(entry["sessionId"].startswith("sess_") for entry in listed)
    if name == session:
        assert said(load(editor, name, folder)) == "still here"
        still_works(editor, name)


def test_a_live_session_can_be_loaded_again(editor, session, folder):
    """Idle, while its turn runs and while it asks: the replay up to there, then it goes on."""
    run(editor, session, "/say first")
    assert said(load(editor, session, folder)) == "first"

    running = prompt(editor, session, "/say second\n/sleep 600")
    editor.wait_update(
        lambda u: u.kind == "agent_message_chunk" and u.body["content"]["text"] == "second",
        session=session,
    )
    assert said(load(editor, session, folder)) == "firstsecond"
    params = {"sessionId": session, "cwd": str(folder), "mcpServers": []}
    count = len(editor.updates(session))
    assert editor.request("session/resume", params).result() == {}
    assert len(editor.updates(session)) == count
    assert not running.done
    editor.notify("session/cancel", {"sessionId": session})
    assert running.result(SOON) == {"stopReason": "cancelled"}

    asking = prompt(editor, session, "/shell touch allowed")
    question = editor.permissions.next()
    replayed = load(editor, session, folder)
    assert [call["status"] for call in final(replayed)] == ["pending"]
    assert len([q for q in editor.permissions.requests if q.session == session]) == 1
    editor.permissions.answer(question, "approve")
    assert asking.result() == {"stopReason": "end_turn"}
    assert (folder / "allowed").exists()
    assert len(of(load(editor, session, folder), "user_message_chunk")) == 3


@pytest.mark.parametrize(
    "request_id", [0, -1, 2**53 + 1, 2**63 - 1, -(2**63), "", "7", "a\u2028b", None], ids=repr
)
def test_a_pending_prompt_is_answered_with_its_own_id(editor, session, request_id):
    """Of whatever type it is; only the same id in the same type cancels it."""
    reply = editor.expect(request_id, "session/prompt", session=session)
    message = {"jsonrpc": "2.0", "id": request_id, "method": "session/prompt"}
    editor.send({**message, "params": {"sessionId": session, "prompt": text("/sleep 600")}})
    others = {"0", 0.5, True, "-1", 7, "a", str(request_id), "None"} - {request_id}
    for other in others:
        editor.notify("$/cancel_request", {"requestId": other})
    editor.sync()
    assert not reply.done
    editor.notify("$/cancel_request", {"requestId": request_id})
    assert reply.result(SOON) == {"stopReason": "cancelled"}


@pytest.mark.parametrize("request_id", [1.5, True, {}, []], ids=repr)
def test_a_prompt_with_an_id_of_another_type_does_nothing(editor, session, request_id):
    """-32600 with id null, and no turn begins."""
    reply = editor.expect(None)
    message = {"jsonrpc": "2.0", "id": request_id, "method": "session/prompt"}
    editor.send({**message, "params": {"sessionId": session, "prompt": text("/say no")}})
    assert reply.code() == -32600
    assert editor.updates(session) == []
    still_works(editor, session)


def output(client, session):
    """What a command printed so far, as either version tells it."""
    told = ""
    for update in client.updates(session):
        if update.kind == "terminal_output_chunk":
            told += base64.b64decode(update.body["data"]).decode()
        elif update.kind == "tool_call_update":
            told += str(update.body.get("content", ""))
    return told


@pytest.mark.parametrize("version", [1, 2])
def test_a_client_that_ends_while_its_child_holds_stdin_is_gone(start, project, version):
    """No end of input comes; the closed stdout tells, and the server ends with what it started."""
    editor = start()
    if version == 1:
        begin(editor)
        session = open_session(editor, project)
    else:
        editor.initialize()
        session = editor.new_session(project)
    editor.permissions.allow_all()
    prompt(editor, session, "/shell echo $((40 + 2)) rings; sleep 600")
    # From here on nothing is written, so only the watch on the pipe can tell.
    editor.wait_for(lambda: "42 rings" in output(editor, session), "the command's output")
    stdin = editor.process.stdin_fileno
    with subprocess.Popen(["sleep", "600"], pass_fds=[stdin]) as child:
        try:
            editor.process.close_stdin()
            editor.break_stdout()
            assert editor.wait_exit(END) == 0
            assert child.poll() is None
        finally:
            child.kill()
    wait_until_gone(editor.home.mark)
