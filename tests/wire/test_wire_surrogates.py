"""Spec section 4: a lone surrogate is accepted from anywhere and never sent on."""

from __future__ import annotations

import json
import os

import pytest

from tests.harness.messages import agent_text, prompt_params


def send_escaped(client, method, params):
    """Send a request with every non-ASCII character (also a lone surrogate) as an escape."""
    reply, message = client.prepare(method, params)
    client.send_raw(json.dumps(message).encode("ascii") + b"\n")
    return reply


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ("a\ud800b", "a\ufffdb"),
        ("\udc00\ud800", "\ufffd\ufffd"),
        ("\U0001f600", "\U0001f600"),
    ],
    ids=ascii,
)
def test_a_lone_surrogate_in_a_prompt_becomes_the_replacement_character(
    shared, shared_session, pool, sent, received
):
    """Live and replayed, in what the user said and what the agent says; a pair is a character."""
    text = f"/say <{sent}>"
    send_escaped(shared, "session/prompt", prompt_params(shared_session, text)).result()
    assert shared.wait_idle(shared_session) == "end_turn"
    live = shared.updates(shared_session)
    shared.resume(shared_session, pool.project, replay=True).result()
    replayed = shared.updates(shared_session)[len(live) :]
    for updates in (live, replayed):
        user = next(u for u in updates if u.kind == "user_message")
        assert user.body["content"][0]["text"] == f"/say <{received}>"
        assert f"<{received}>" in agent_text(updates)
    shared.still_works(shared_session)


def test_a_surrogate_in_a_working_directory_is_no_directory(shared, shared_session):
    """A cwd that no file system has is -32602, not a crash."""
    reply = send_escaped(shared, "session/new", {"cwd": "/nowhere/\ud800"})
    assert reply.code() == -32602
    shared.still_works(shared_session)


def test_a_surrogate_in_a_session_id_is_no_session(shared, shared_session):
    """An id that was never given out is -32002, whatever is in it."""
    reply = send_escaped(shared, "session/close", {"sessionId": "\ud800"})
    assert reply.code() == -32002
    shared.still_works(shared_session)


def test_a_file_name_that_is_not_utf8_reaches_the_client_as_text(client, session, project):
    """A name with the byte FF, met by a tool, is shown with U+FFFD, and the session goes on."""
    folder = os.fsencode(project)
    try:
        with open(folder + b"/odd-\xff.txt", "wb") as file:
            file.write(b"needle in an odd file\n")
    except OSError:
        pytest.skip("this file system takes no such name")
    turn = client.run(session, "/grep needle")
    assert turn.stop_reason == "end_turn"
    assert "odd-\ufffd.txt" in json.dumps(turn.calls, ensure_ascii=False)
    client.permissions.allow_all()
    turn = client.run(session, "/shell ls; printf 'a\\377b\\355\\240\\200c\\n'")
    assert turn.calls[0]["status"] == "completed"
    client.still_works(session)
    client.resume(session, project, replay=True).result()
    client.still_works(session)


@pytest.mark.parametrize("depth", [900, 20_000])
def test_a_surrogate_that_is_nested_deeply_does_not_end_the_reader(client, session, depth):
    """What is too deep for us is refused with -32700, and the same connection goes on."""
    reply = client.expect(None)
    nested = b"[" * depth + b'"\\ud800"' + b"]" * depth
    client.send_raw(b'{"id":1,"method":"session/list","params":{"_meta":' + nested + b"}}\n")
    assert reply.code() == -32700
    client.still_works(session)
