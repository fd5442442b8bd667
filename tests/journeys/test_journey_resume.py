"""Spec section 5: session/resume, with and without a replay."""

from __future__ import annotations

import pytest

from tests.harness.messages import conversation

WHOLE = {
    "user_message",
    "agent_message",
    "agent_thought",
    "tool_call_update",
    "terminal_update",
    "terminal_output_chunk",
    "plan_update",
    "session_info_update",
    "usage_update",
}
HISTORY = (
    "/think first\n/say with \u2028 an odd character\n/read README.md",
    "/create a.txt <<new\n/replace a.txt new => newer\n/shell printf 'out\\n'; exit 4",
    "/read no/such/file\n/say the end",
)


def make_history(client, session):
    """Run some turns of every kind; the conversation as it was told live."""
    client.permissions.allow_all()
    for prompt in HISTORY:
        assert client.run(session, prompt).stop_reason == "end_turn"
    return conversation(client.updates(session))


def check_replay(updates, told):
    """A replay has whole messages, one update a call, and is what was told live."""
    assert {u.kind for u in updates} <= WHOLE
    calls = [u.body["toolCallId"] for u in updates if u.kind == "tool_call_update"]
    assert len(calls) == len(set(calls))
    messages = [u.body["messageId"] for u in updates if "messageId" in u.body]
    assert len(messages) == len(set(messages))
    replayed = conversation(updates)
    assert replayed.items == told.items
    assert replayed.terminals == told.terminals


def test_a_live_session_is_replayed_as_it_was_told(client, session, project):
    """Same order, same ids, same content; the session goes on afterwards, more than once."""
    told = make_history(client, session)
    for _ in range(2):
        check_replay(client.replay(session, project), told)
    client.still_works(session)


def test_a_fresh_process_replays_what_another_told(start, project):
    """Nothing of the conversation is lost or changed by a restart."""
    first = start()
    first.initialize()
    session = first.new_session(project)
    told = make_history(first, session)
    first.close()
    second = start()
    second.initialize()
    assert [i["sessionId"] for i in second.request("session/list").result()["sessions"]] == [
        session
    ]
    assert second.prompt(session, "/say x").code() == -32002
    check_replay(second.replay(session, project), told)
    second.still_works(session)
    told = conversation(second.updates(session))
    check_replay(second.replay(session, project), told)


def test_without_a_replay_no_update_is_sent(start, project):
    """A plain resume is silent, in the same process and in a fresh one."""
    first = start()
    first.initialize()
    session = first.new_session(project)
    first.still_works(session)
    before = len(first.updates(session))
    assert first.resume(session, project).result() == {}
    first.sync()
    assert len(first.updates(session)) == before
    first.close()
    second = start()
    second.initialize()
    assert second.resume(session, project).result() == {}
    second.sync()
    assert second.updates(session) == []
    second.still_works(session)


@pytest.mark.parametrize("replayed", [False, True])
def test_another_working_directory_is_refused(client, session, project, home, replayed):
    """A session belongs to its directory: -32602 for any other, by real path."""
    client.still_works(session)
    before = len(client.updates(session))
    link = project.parent / "link"
    link.symlink_to(project)
    for cwd in (home.project("other"), project / "src", project.parent, "relative", "/nowhere"):
        error = client.resume(session, cwd, replay=replayed).error()
        assert error["code"] == -32602, cwd
        assert "cwd" in f"{error['message']} {error.get('data', '')}"
    client.sync()
    assert len(client.updates(session)) == before
    assert client.resume(session, link).result() == {}
    client.still_works(session)


def test_a_session_of_a_living_process_cannot_be_taken(start, project):
    """-32009 while another process has it; once that closed or ended, it can be resumed."""
    first, second = start(), start()
    first.initialize()
    second.initialize()
    session = first.new_session(project)
    first.still_works(session)
    assert second.resume(session, project).code() == -32009
    first.close_session(session)
    assert second.resume(session, project, replay=True).result() == {}
    second.still_works(session)
    assert first.resume(session, project).code() == -32009
    second.close()
    assert first.resume(session, project, replay=True).result() == {}
    first.still_works(session)


@pytest.mark.parametrize("replayed", [False, True])
def test_a_turn_left_open_by_a_killed_process_is_closed_at_the_next_resume(
    start, project, replayed
):
    """All that was shown is kept, the open call is failed, and the next prompt works."""
    first = start()
    first.initialize()
    session = first.new_session(project)
    first.still_works(session)
    first.prompt(session, "/say before the end\n/shell touch never").result()
    first.permissions.next()
    told = conversation(first.updates(session))
    first.kill()
    first.wait_exit()
    second = start()
    second.initialize()
    assert second.resume(session, project, replay=replayed).result() == {}
    if replayed:
        items = conversation(second.updates(session)).items
        assert [item[:2] for item in items] == [item[:2] for item in told.items]
        assert [i[2] for i in items if i[0] != "call"] == [
            i[2] for i in told.items if i[0] != "call"
        ]
        assert items[-1][2]["status"] == "failed"
    second.still_works(session)
    assert not (project / "never").exists()


@pytest.mark.parametrize("seen_before_the_kill", [3, 8, 15, 30])
def test_a_kill_at_any_instant_loses_nothing_that_was_shown(start, project, seen_before_the_kill):
    """What the client had been told when the server was killed is in the next replay."""
    first = start()
    first.initialize()
    session = first.new_session(project)
    first.still_works(session)
    base = len(first.updates(session))
    script = "\n".join(f"/say word {n}\n/create f{n}.txt <<{n}" for n in range(20))
    first.prompt(session, script)
    first.wait_for(
        lambda: len(first.updates(session)) >= base + seen_before_the_kill, "some updates"
    )
    first.kill()
    first.wait_exit()
    told = conversation(first.updates(session)).items
    second = start()
    second.initialize()
    second.resume(session, project, replay=True).result()
    kept = {item[:2]: item[2] for item in conversation(second.updates(session)).items}
    for kind, name, value in told:
        assert (kind, name) in kept
        if kind in ("agent", "thought"):
            assert kept[kind, name].startswith(value)
        elif kind == "user":
            assert kept[kind, name] == value
        elif value["status"] == "completed":
            assert kept[kind, name]["status"] == "completed"
    second.still_works(session)
