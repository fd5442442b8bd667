"""Spec section 5: session/resume of a session whose turn runs."""

from __future__ import annotations

from tests.harness.messages import agent_text, conversation, encode, prompt_params


def test_a_running_turn_can_be_resumed_and_still_be_cancelled(client, session, project):
    """The replay has the open message so far; the state follows; the turn and its cancel go on."""
    client.permissions.allow_all()
    client.prompt(session, "/read README.md\n/say so far\n/sleep 600").result()
    client.wait_for(lambda: "so far" in agent_text(client.updates(session)), "the open message")
    before = len(client.updates(session))
    reply = client.resume(session, project, replay=True)
    assert reply.result() == {}
    state = client.wait_for(
        lambda: [
            u
            for u in client.updates(session)[before:]
            if u.kind == "state_update" and u.seq > reply.seq
        ],
        "the current state",
    )[0]
    assert state.body["state"] == "running"
    replayed = [u for u in client.updates(session)[before:] if u.seq < reply.seq]
    assert "so far" in agent_text(replayed)
    assert [u.body["status"] for u in replayed if u.kind == "tool_call_update"] == ["completed"]
    assert client.prompt(session, "/say no").code() == -32000
    client.cancel(session)
    assert client.wait_idle(session) == "cancelled"
    client.still_works(session)


def test_a_running_turn_can_be_resumed_without_a_replay(client, session, project):
    """A silent resume of a busy session succeeds, and the turn is the same one still."""
    client.prompt(session, "/sleep 600").result()
    client.wait_state(session, "running")
    assert client.resume(session, project).result() == {}
    assert client.prompt(session, "/say no").code() == -32000
    client.cancel(session)
    assert client.wait_idle(session) == "cancelled"
    client.still_works(session)


def test_an_open_permission_is_not_asked_again_by_a_resume(client, session, project):
    """The question stays the one it was; its answer after the resume lets the tool run."""
    client.prompt(session, "/shell touch allowed").result()
    request = client.permissions.next()
    client.wait_state(session, "requires_action")
    before = len(client.updates(session))
    reply = client.resume(session, project, replay=True)
    assert reply.result() == {}
    state = client.wait_for(
        lambda: [
            u
            for u in client.updates(session)[before:]
            if u.kind == "state_update" and u.seq > reply.seq
        ],
        "the current state",
    )[0]
    assert state.body["state"] == "requires_action"
    assert len(client.permissions.requests) == 1
    client.permissions.answer(request, "approve")
    assert client.wait_idle(session) == "end_turn"
    assert (project / "allowed").exists()
    client.still_works(session)


def test_a_resume_in_the_middle_of_a_stream_loses_and_doubles_nothing(client, session, project):
    """The replay and the live updates after it together are the conversation, again and again."""
    client.still_works(session)
    lines = [f"/say part {number} of the story" for number in range(40)]
    reply = client.prompt(session, "\n".join([*lines, "/read README.md", *lines]))
    reply.result()
    starts = []
    while client.record.life(session).phase != "idle" and len(starts) < 10:
        starts.append(len(client.updates(session)))
        assert client.resume(session, project, replay=True).result() == {}
    assert client.wait_idle(session) == "end_turn"
    end = len(client.updates(session))
    told = conversation(client.replay(session, project)).items
    assert len(starts) >= 2
    for start in starts:
        seen = client.updates(session)[start:end]
        # What came before the replay began is the rest of the stream before it.
        first = next(n for n, u in enumerate(seen) if u.body.get("messageId") == told[0][1])
        assert without_partial(conversation(seen[first:]).items) == without_partial(told)


def without_partial(items):
    """A conversation in which a call is known by its end alone (a replay may tell it earlier)."""
    return [item if item[0] != "call" else (*item[:2], item[2]["status"]) for item in items]


def test_a_resume_right_behind_its_prompt_keeps_the_order_of_the_turn(client, session, project):
    """Prompt and resume in one write: running, the prompt's response, user_message, as ever."""
    for _ in range(20):
        prompt, one = client.prepare("session/prompt", prompt_params(session, "/say hello"))
        resume, two = client.prepare(
            "session/resume",
            {"sessionId": session, "cwd": str(project), "replayFrom": {"type": "start"}},
        )
        client.send_raw(encode(one) + encode(two))
        assert prompt.result() == {}
        assert resume.result() == {}
        assert client.wait_idle(session) == "end_turn"
