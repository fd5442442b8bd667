"""Spec section 6: protocol version 1, the same core in the words of today's editors."""

from __future__ import annotations

import base64

import pytest

from tests.harness.client import Client
from tests.harness.editor import begin, final, load, of, open_session, run, text
from tests.harness.home import Home
from tests.harness.messages import encode


@pytest.fixture(scope="module", name="editor_of_all")
def _editor_of_all(tmp_path_factory):
    client = Client(Home.create(tmp_path_factory.mktemp("version1")))
    begin(client)
    yield client
    client.close()


@pytest.fixture(name="editor")
def _editor(editor_of_all):
    """The shared connection, which knows neither question nor update of an earlier test."""
    editor_of_all.permissions.forget()
    editor_of_all.forget_updates()
    return editor_of_all


@pytest.fixture(name="session")
def _session(editor, project):
    return open_session(editor, project)


def test_version_1_is_answered_in_its_own_shape(start):
    """agentInfo, no authentication methods, and what the agent can do."""
    result = begin(start())
    assert result["protocolVersion"] == 1
    assert result["agentInfo"]["name"] == "term2"
    assert result["authMethods"] == []
    assert result["agentCapabilities"] == {
        "loadSession": True,
        "promptCapabilities": {"embeddedContext": True},
        "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
    }


def test_a_prompt_is_answered_at_the_end_of_its_turn(editor, session):
    """Text and thoughts in chunks, no state and no echo of the prompt, then the stop reason."""
    reason, updates = run(editor, session, "/think hm\n/say hello there")
    assert reason == "end_turn"
    assert "".join(u["content"]["text"] for u in of(updates, "agent_message_chunk")) == (
        "hello there"
    )
    assert of(updates, "agent_thought_chunk")
    assert not of(updates, "state_update")
    assert not of(updates, "user_message_chunk")
    assert of(updates, "session_info_update") == [
        {"sessionUpdate": "session_info_update", "title": "/think hm"}
    ]


def test_calls_edits_and_plans_have_the_shapes_of_version_1(editor, session, project):
    """tool_call then tool_call_update, diffs with both texts, shell output as text, a plan."""
    editor.permissions.allow_all()
    (project / "new").mkdir()
    reason, updates = run(
        editor,
        session,
        "/create new/a.txt <<one\n/replace new/a.txt one => two\n"
        "/shell echo from the shell; exit 3\n/plan A; B",
    )
    assert reason == "end_turn"
    created, replaced, shell, plan = final(updates)
    assert [call["kind"] for call in (created, replaced, shell, plan)] == [
        "edit",
        "edit",
        "execute",
        "think",
    ]
    assert next(u.kind for u in updates if "toolCallId" in u.body) == "tool_call"
    path = str(project / "new/a.txt")
    assert created["content"] == [
        {"type": "diff", "path": path, "oldText": None, "newText": "one\n"}
    ]
    assert replaced["content"] == [
        {"type": "diff", "path": path, "oldText": "one\n", "newText": "two\n"}
    ]
    assert shell["status"] == "failed"
    assert "from the shell" in shell["content"][0]["content"]["text"]
    entries = of(updates, "plan")[0]["entries"]
    assert [entry["content"] for entry in entries] == ["A", "B"]


def test_a_load_replays_and_a_resume_does_not(project, start):
    """The whole conversation before the answer, with the messages' own ids, in a new process."""
    editor = start()
    begin(editor)
    session = open_session(editor, project)
    editor.permissions.allow_all()
    _, live = run(editor, session, "/say first\n/shell echo seen")
    run(editor, session, "/think hm\n/say second")
    editor.eof()
    editor.wait_exit()

    editor = start()
    begin(editor)
    replayed = load(editor, session, project)
    kinds = [update.kind for update in replayed]
    assert kinds.count("user_message_chunk") == 2
    assert next(u["content"]["text"] for u in of(replayed, "agent_message_chunk")) == "first"
    assert "seen" in final(replayed)[0]["content"][0]["content"]["text"]
    assert final(replayed)[0]["toolCallId"] == final(live)[0]["toolCallId"]
    assert {u["messageId"] for u in of(live, "agent_message_chunk")} <= {
        u["messageId"] for u in of(replayed, "agent_message_chunk")
    }
    before = len(editor.updates(session))
    params = {"sessionId": session, "cwd": str(project)}
    assert editor.request("session/resume", params).result() == {}
    assert len(editor.updates(session)) == before
    assert run(editor, session, "/say third")[0] == "end_turn"


def test_a_cancel_answers_the_prompt(editor, session):
    """session/cancel, and `$/cancel_request` that names the prompt: `cancelled` both times."""
    for how in ("session/cancel", "$/cancel_request"):
        reply, message = editor.prepare(
            "session/prompt", {"sessionId": session, "prompt": text("/sleep 600")}
        )
        member = {"sessionId": session} if how[0] == "s" else {"requestId": message["id"]}
        cancel = {"jsonrpc": "2.0", "method": how, "params": member}
        editor.send_raw(encode(message) + encode(cancel))
        assert reply.result(5) == {"stopReason": "cancelled"}
    assert run(editor, session, "/say on")[0] == "end_turn"


def test_a_permission_has_the_shape_of_version_1(editor, session, project):
    """The call and the options; allowed it runs, rejected it has failed, and the turn goes on."""
    for option, exists in (("reject", False), ("approve", True)):
        reply = editor.request(
            "session/prompt", {"sessionId": session, "prompt": text("/shell touch made")}
        )
        request = editor.permissions.next()
        assert request.tool_call["kind"] == "execute"
        assert request.options == {"approve": "allow_once", "reject": "reject_once"}
        editor.permissions.answer(request, option)
        assert reply.result() == {"stopReason": "end_turn"}
        assert (project / "made").exists() is exists
    assert [call["status"] for call in final(editor.updates(session))] == ["failed", "completed"]


def test_a_cancelled_call_is_failed(editor, session):
    """Version 1 has no other word for it, and no call stays open."""
    reply = editor.request(
        "session/prompt", {"sessionId": session, "prompt": text("/shell sleep 600")}
    )
    request = editor.permissions.next()
    editor.cancel(session)
    assert reply.result(5) == {"stopReason": "cancelled"}
    editor.permissions.answer(request, "approve")
    assert [call["status"] for call in final(editor.updates(session))] == ["failed"]
    assert run(editor, session, "/say on")[0] == "end_turn"


def test_a_failed_turn_is_an_internal_error(editor, session):
    """-32603 with words for the user; the next prompt works."""
    reply = editor.request("session/prompt", {"sessionId": session, "prompt": text("/fail")})
    assert reply.code() == -32603
    assert "/fail" in reply.error()["message"]
    assert run(editor, session, "/say on")[0] == "end_turn"


def test_busy_is_not_authentication(editor, session):
    """-32010, as editors take -32000 for a login."""
    first = editor.request("session/prompt", {"sessionId": session, "prompt": text("/sleep 600")})
    second = editor.request("session/prompt", {"sessionId": session, "prompt": text("/say x")})
    assert second.code() == -32010
    editor.cancel(session)
    assert first.result(5) == {"stopReason": "cancelled"}


def test_mcp_servers_are_required_and_not_mounted(editor, project):
    """An array must be there; what is in it is accepted and noted on stderr."""
    cwd = str(project)
    for params in ({"cwd": cwd}, {"cwd": cwd, "mcpServers": None}, {"cwd": cwd, "mcpServers": {}}):
        reply = editor.request("session/new", params)
        assert reply.code() == -32602
        assert "mcpServers" in reply.error()["message"]
    filled = [{"name": "x", "command": "y", "args": [], "env": []}]
    session = editor.request("session/new", {"cwd": cwd, "mcpServers": filled}).result()
    assert run(editor, session["sessionId"], "/say on")[0] == "end_turn"
    assert "mcpServers" in editor.stderr


def test_attached_context_is_accepted_and_pictures_are_not(editor, session, project):
    """Embedded text and blobs are context (a blob as a note); image and audio are -32602."""
    blob = base64.b64encode(b"\x00" * 30).decode()
    blocks = [
        *text("/say ok"),
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "words"}},
        {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": blob}},
        {"type": "resource_link", "name": "b", "uri": "file:///b"},
    ]
    assert run(editor, session, blocks)[0] == "end_turn"
    # Of a resource with both, the model can read the text.
    both = {"uri": "file:///c", "text": "read me", "blob": blob}
    assert run(editor, session, [{"type": "resource", "resource": both}])[0] == "end_turn"
    told = of(load(editor, session, project), "user_message_chunk")[-1]["content"]
    assert told == {"type": "resource", "resource": {"uri": "file:///c", "text": "read me"}}
    for block in ({"type": "image", "data": "", "mimeType": "image/png"}, {"type": "audio"}):
        params = {"sessionId": session, "prompt": [block]}
        assert editor.request("session/prompt", params).code() == -32602


@pytest.mark.parametrize(
    "method", ["authenticate", "session/set_mode", "session/set_config_option", "session/delete"]
)
def test_other_methods_are_unknown(editor, session, method):
    """-32601, also for what the schema has and this agent does not."""
    assert editor.request(method, {"sessionId": session}).code() == -32601


def test_list_and_close_work_as_in_version_2(editor, session, project):
    """A prompted session is listed; a closed one is not found until it is resumed."""
    run(editor, session, "/say x")
    listed = editor.request("session/list", {}).result()["sessions"]
    here = [(one["sessionId"], one["cwd"]) for one in listed if one["cwd"] == str(project)]
    assert here == [(session, str(project))]
    assert editor.request("session/close", {"sessionId": session}).result() == {}
    params = {"sessionId": session, "prompt": text("/say x")}
    assert editor.request("session/prompt", params).code() == -32002
    assert load(editor, session, project)
    assert run(editor, session, "/say back")[0] == "end_turn"


def test_a_load_while_the_turn_runs_leaves_it_cancellable(editor, session, project):
    """The replay comes, the turn goes on, and a cancel stops it."""
    reply = editor.request(
        "session/prompt", {"sessionId": session, "prompt": text("/say before\n/sleep 600")}
    )
    editor.wait_update(lambda u: u.kind == "agent_message_chunk", session=session)
    replayed = load(editor, session, project)
    assert of(replayed, "user_message_chunk")
    editor.cancel(session)
    assert reply.result(5) == {"stopReason": "cancelled"}
