"""Spec section 4: `$/cancel_request` from the client."""

from __future__ import annotations

from tests.harness.messages import encode, notification, prompt_params

MIB = 1 << 20


def test_a_cancel_request_for_nothing_is_ignored(shared, shared_session):
    """Ids that are unknown, answered, malformed or missing: no answer, no harm."""
    done = shared.request("session/list", {}, request_id="done")
    done.result()
    for params in (
        {"requestId": "done"},
        {"requestId": "never"},
        {"requestId": 10**6},
        {"requestId": None},
        {"requestId": {"a": 1}},
        {"requestId": True},
        {"sessionId": shared_session},
        {},
        [],
        None,
    ):
        shared.notify("$/cancel_request", params)
    shared.still_works(shared_session)


def test_a_cancel_request_for_a_prompt_does_not_stop_a_turn_of_version_2(shared, shared_session):
    """A v2 prompt is answered when it begins; its turn is cancelled by session/cancel alone."""
    params = prompt_params(shared_session, "/sleep 0.2\n/say finished")
    reply, prompt = shared.prepare("session/prompt", params, request_id="p1")
    cancel = notification("$/cancel_request", {"requestId": "p1"})
    shared.send_raw(encode(prompt) + encode(cancel))
    assert reply.result() == {}
    shared.send(cancel)
    assert shared.wait_idle(shared_session) == "end_turn"
    shared.still_works(shared_session)


def test_a_pending_resume_is_ended_by_a_cancel_request(client, session, project):
    """A replay that the client does not read in time can be given up: -32800."""
    for _ in range(4):
        client.run(session, "/say ok\n" + "x" * (8 * MIB), timeout=60)
    client.process.pause_reading()
    reply = client.resume(session, project, replay=True)
    client.notify("$/cancel_request", {"requestId": "another"})
    client.notify("$/cancel_request", {"requestId": reply.expected.id})
    client.process.resume_reading()
    assert reply.code(timeout=60) == -32800
    client.still_works(session)


def test_a_cancel_request_beside_a_resume_is_answered_one_way_or_the_other(
    client, session, project
):
    """Whether it comes in time or not: one response, and the session works on."""
    client.still_works(session)
    for number in range(20):
        resumed, message = client.prepare(
            "session/resume",
            {"sessionId": session, "cwd": str(project), "replayFrom": {"type": "start"}},
            request_id=f"r{number}",
        )
        listed, second = client.prepare("session/list", {}, request_id=f"l{number}")
        cancels = [notification("$/cancel_request", {"requestId": f"{k}{number}"}) for k in "rl"]
        client.send_raw(b"".join(encode(m) for m in (message, second, *cancels)))
        for reply in (resumed, listed):
            response = reply.response()
            assert "result" in response or response["error"]["code"] == -32800
    client.still_works(session)
