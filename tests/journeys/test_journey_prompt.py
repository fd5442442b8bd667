"""Spec section 5: what a prompt may be, what a turn sends and how it ends."""

from __future__ import annotations

import base64

import pytest

from tests.harness.messages import agent_text, conversation, encode, prompt_params, thought_text

TEXT = {"type": "text", "text": "hello"}
LINK = {"type": "resource_link", "name": "README", "uri": "file:///x/README.md"}
RESOURCE = {"type": "resource", "resource": {"uri": "file:///x/a.py", "text": "a = 1\n"}}
PIXEL = base64.b64encode(b"not really").decode()


@pytest.fixture(name="client")
def _client(shared):
    """The shared connection; a test of a server's end starts one of its own."""
    return shared


@pytest.fixture(name="session")
def _session(guest_session):
    return guest_session


def test_the_updates_of_a_turn_come_in_the_fixed_order(client, session):
    """running, the response, user_message, output and title, idle: in that order."""
    turn = client.run(session, "/say hello")
    places = {}
    for update in turn.updates:
        kind = update.body.get("state", update.kind)
        places.setdefault(kind, []).append(update.seq)
    assert turn.reply.result() == {}
    assert (
        places["running"][0]
        < turn.reply.seq
        < places["user_message"][0]
        < places["agent_message_chunk"][0]
        < places["idle"][0]
    )
    assert places["user_message"][0] < places["session_info_update"][0] < places["idle"][0]
    assert [len(places[kind]) for kind in ("running", "user_message", "idle")] == [1, 1, 1]
    assert turn.updates[-1].body == {
        "sessionUpdate": "state_update",
        "state": "idle",
        "stopReason": "end_turn",
    }
    user = next(u for u in turn.updates if u.kind == "user_message")
    assert user.body["content"] == [{"type": "text", "text": "/say hello"}]


@pytest.mark.parametrize(
    "prompt",
    [
        [TEXT],
        [LINK],
        [RESOURCE],
        [TEXT, LINK, RESOURCE, TEXT],
        [{"type": "text", "text": "  \n"}, LINK],
        [{"type": "text", "text": ""}, TEXT],
    ],
    ids=["text", "link alone", "resource alone", "all", "blank beside a link", "empty beside text"],
)
def test_text_links_and_text_resources_are_accepted(shared, shared_session, prompt):
    """What can be read as text is a prompt, and comes back in the user message."""
    turn = shared.run(shared_session, prompt)
    assert turn.stop_reason == "end_turn"
    assert turn.text.strip()
    user = next(u for u in turn.updates if u.kind == "user_message")
    assert user.body["content"] == prompt
    shared.still_works(shared_session)


@pytest.mark.parametrize(
    "prompt",
    [
        [],
        [{"type": "text", "text": ""}],
        [{"type": "text", "text": " \t\n\u2003\u2028"}, {"type": "text", "text": "\r\n"}],
        [{"type": "image", "data": PIXEL, "mimeType": "image/png"}],
        [TEXT, {"type": "image", "data": PIXEL, "mimeType": "image/png"}],
        [TEXT, {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"}],
        [TEXT, {"type": "resource", "resource": {"uri": "file:///x", "blob": PIXEL}}],
        [TEXT, {"type": "_own", "text": "x"}],
    ],
    ids=["nothing", "empty", "white space", "image", "text+image", "audio", "blob", "unknown"],
)
def test_what_cannot_be_read_is_refused_before_a_turn(shared, shared_session, prompt):
    """Images, audio, blobs and emptiness are -32602; no update is sent, no session is listed."""
    assert shared.prompt(shared_session, prompt).code() == -32602
    assert shared.updates(shared_session) == []
    shared.still_works(shared_session)


def test_a_second_prompt_is_refused_while_one_is_prepared_or_run(client, session):
    """-32000 for the second, the first goes on; other sessions are not concerned."""
    first, one = client.prepare("session/prompt", prompt_params(session, "/sleep 600"))
    second, two = client.prepare("session/prompt", prompt_params(session, "/say no"))
    client.send_raw(encode(one) + encode(two))
    assert first.result() == {}
    assert second.code() == -32000
    client.wait_state(session, "running")
    assert client.prompt(session, "/say no").code() == -32000
    client.still_works(client.new_session(client.home.project()))
    client.cancel(session)
    assert client.wait_idle(session) == "cancelled"
    assert len([u for u in client.updates(session) if u.kind == "user_message"]) == 1
    client.still_works(session)


def test_a_prompt_may_follow_the_idle_state_at_once(client, session):
    """A session is free as soon as the client was told that it is."""
    for _ in range(30):
        client.still_works(session)


def test_a_wrong_prompt_during_a_turn_does_not_disturb_it(client, session):
    """Parameters are judged, the session stays busy, the turn ends as it would have."""
    client.prompt(session, "/sleep 0.3\n/say done").result()
    assert client.prompt(session, []).code() in (-32602, -32000)
    assert client.wait_idle(session) == "end_turn"
    client.still_works(session)


def test_plain_text_is_answered_from_the_real_workspace(client, session):
    """Without a directive the built-in model looks at the project with the real tools."""
    turn = client.run(session, "What is this project about?")
    assert turn.stop_reason == "end_turn"
    assert turn.text.strip()
    assert turn.calls
    assert all(call["status"] == "completed" for call in turn.calls)
    assert {call["kind"] for call in turn.calls} <= {"read", "search"}


def test_a_turn_with_every_kind_of_step_is_told_in_full(client, session, project):
    """Thoughts, text, reads, searches, edits with patches, shells with terminals."""
    client.permissions.allow_all()
    turn = client.run(
        session,
        "/think about it\n"
        "/read src/teapot.py\n"
        "/grep BOILING\n"
        "/create notes/new.txt <<first\\nsecond\n"
        "/replace src/kettle.py 100 => 212\n"
        "/shell echo out; echo err >&2; exit 3\n"
        "/say all done",
    )
    assert turn.stop_reason == "end_turn"
    assert "about it" in thought_text(turn.updates)
    assert "all done" in turn.text
    assert (project / "notes/new.txt").read_text(encoding="utf-8") == "first\nsecond\n"
    assert (project / "src/kettle.py").read_text(encoding="utf-8") == "BOILING_POINT = 212\n"
    calls = {call["name"]: call for call in turn.calls}
    assert {name: call["kind"] for name, call in calls.items()} == {
        "read_file": "read",
        "grep": "search",
        "create_file": "edit",
        "search_replace": "edit",
        "shell": "execute",
    }
    created, replaced = (
        next(block for block in calls[name]["content"] if block["type"] == "diff")
        for name in ("create_file", "search_replace")
    )
    assert created["changes"][0]["operation"] == "add"
    assert created["changes"][0]["path"] == str(project / "notes/new.txt")
    assert replaced["changes"][0]["operation"] == "modify"
    assert replaced["patch"]["format"] == "git_patch"
    assert "-BOILING_POINT = 100\n+BOILING_POINT = 212\n" in replaced["patch"]["text"]
    assert calls["read_file"]["locations"][0]["path"] == str(project / "src/teapot.py")
    ((output, status),) = conversation(turn.updates).terminals.values()
    assert output.replace(b"\r\n", b"\n") == b"out\nerr\n"
    assert status["exitCode"] == 3


def test_a_failed_tool_does_not_end_the_turn(client, session):
    """A call that fails is failed, and what comes after it is done."""
    turn = client.run(session, "/read no/such/file\n/say went on")
    assert turn.stop_reason == "end_turn"
    assert [call["status"] for call in turn.calls] == ["failed"]
    assert "went on" in turn.text


def test_a_fault_of_the_model_ends_the_turn_with_the_own_stop_reason(client, session):
    """`_term2_error`, with a message that says so to the user; the next prompt works."""
    before = len(client.stderr)
    turn = client.run(session, "/fail")
    assert turn.stop_reason == "_term2_error"
    assert turn.text.strip()
    assert "Traceback" not in turn.text
    client.wait_for(lambda: len(client.stderr) > before, "the fault on stderr")
    client.still_works(session)


def test_model_calls_are_bounded_by_max_turn_requests(start, home, project):
    """A turn that needs more model calls than the setting allows ends with max_turn_requests."""
    home.configure("max_turn_requests = 3\n")
    client = start()
    client.initialize()
    session = client.new_session(project)
    turn = client.run(session, "\n".join(["/read README.md"] * 6))
    assert turn.stop_reason == "max_turn_requests"
    assert 1 <= len(turn.calls) <= 3
    client.still_works(session)


def test_sessions_run_side_by_side(client, home):
    """Turns of different sessions overlap, each with its own updates."""
    sessions = [client.new_session(home.project(f"p{number}")) for number in range(4)]
    for number, session in enumerate(sessions):
        client.prompt(session, f"/say from {number}\n/sleep 600").result()
    for number, session in enumerate(sessions):
        words = f"from {number}"
        client.wait_for(lambda s=session, w=words: w in agent_text(client.updates(s)), repr(words))
    assert {client.record.life(session).phase for session in sessions} == {"running"}
    for session in sessions:
        client.cancel(session)
        assert client.wait_idle(session) == "cancelled"
