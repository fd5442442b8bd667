"""Spec section 4: what makes a request, and what else is in the same object."""

from __future__ import annotations

import pytest

from tests.harness.messages import notification, prompt_params

LIST = {"jsonrpc": "2.0", "id": 5, "method": "session/list"}


@pytest.mark.parametrize("line", [b"1", b'"x"', b"null", b"true", b"1.5", b"[]", b"{}"])
def test_what_is_no_message_is_an_invalid_request(shared, shared_session, line):
    """JSON that is neither an object with a method nor a batch: -32600 with id null."""
    reply = shared.expect(None)
    shared.send_raw(line + b"\n")
    assert reply.code() == -32600
    shared.still_works(shared_session)


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 5},
        {"id": 5, "method": "session/list"},
        {**LIST, "jsonrpc": "1.0"},
        {**LIST, "jsonrpc": 2.0},
        {**LIST, "jsonrpc": None},
        {**LIST, "method": None},
        {**LIST, "method": 1},
        {**LIST, "method": ["session/list"]},
        {**LIST, "params": 5},
        {**LIST, "params": "x"},
        {**LIST, "params": False},
    ],
    ids=str,
)
def test_a_bad_envelope_is_an_invalid_request_with_its_id(shared, shared_session, message):
    """-32600 keeps the id wherever one can be read."""
    reply = shared.expect(5)
    shared.send(message)
    assert reply.code() == -32600
    shared.still_works(shared_session)


def test_params_in_an_array_are_invalid_params(shared, shared_session):
    """ACP names its parameters; an array of them is -32602."""
    reply = shared.request("session/new", ["/"])
    assert reply.code() == -32602
    shared.still_works(shared_session)


def test_null_params_are_no_params(shared, shared_session):
    """`params: null` is the same as none: right where all are optional, and -32602 elsewhere."""
    listed = shared.expect(5, "session/list")
    shared.send({**LIST, "params": None})
    assert "sessions" in listed.result()
    for method in ("session/new", "session/prompt", "session/resume", "session/close"):
        for message in ({**LIST, "method": method, "params": None}, {**LIST, "method": method}):
            refused = shared.expect(5, method)
            shared.send(message)
            assert refused.code() == -32602
    shared.still_works(shared_session)


def test_unknown_members_of_the_envelope_are_ignored(shared, shared_session):
    """A request with more members than JSON-RPC knows is answered all the same."""
    reply = shared.expect(5, "session/list")
    shared.send({**LIST, "params": {}, "trace": {"a": 1}, "_meta": None, "": 0})
    assert "sessions" in reply.result()
    shared.still_works(shared_session)


def test_notifications_never_get_an_answer(shared, shared_session):
    """Unknown, misplaced and malformed notifications are passed over in silence."""
    for message in (
        notification("no/such"),
        notification("no/such", ["x"]),
        notification("session/cancel"),
        notification("session/cancel", {"sessionId": 5}),
        notification("session/cancel", {"sessionId": "no such session"}),
        notification("session/cancel", 7),
        notification("$/cancel_request"),
        notification("$/cancel_request", {"requestId": {"a": 1}}),
        notification("session/load", {}),
        {**notification("session/cancel", {"sessionId": "x"}), "extra": 1},
    ):
        shared.send(message)
    shared.still_works(shared_session)


def test_a_request_method_without_an_id_does_nothing(shared, shared_session, pool):
    """session/prompt, new, close and resume as notifications are neither done nor answered."""
    shared.send(notification("session/prompt", prompt_params(shared_session, "/say never")))
    shared.send(notification("session/close", {"sessionId": shared_session}))
    shared.send(notification("session/new", {"cwd": str(pool.project)}))
    shared.send(notification("initialize", {"protocolVersion": 2}))
    resume = {"sessionId": shared_session, "cwd": str(pool.project)}
    shared.send(notification("session/resume", {**resume, "replayFrom": {"type": "start"}}))
    shared.sync()
    assert shared.updates(shared_session) == []
    shared.still_works(shared_session)


def test_a_cancel_with_an_id_cancels_and_answers_an_empty_object(shared, shared_session):
    """session/cancel sent as a request stops the turn and gets `{}`."""
    shared.prompt(shared_session, "/sleep 600").result()
    assert shared.request("session/cancel", {"sessionId": shared_session}).result() == {}
    assert shared.wait_idle(shared_session) == "cancelled"
    assert shared.request("session/cancel", {"sessionId": "unknown"}).result() == {}
    shared.still_works(shared_session)


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 999, "result": {}},
        {"jsonrpc": "2.0", "id": "x", "result": None},
        {"jsonrpc": "2.0", "id": None, "result": {}},
        {"jsonrpc": "2.0", "id": 999, "error": {"code": -32601, "message": "no"}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}},
        {"jsonrpc": "2.0", "id": 999, "error": 5},
        {"jsonrpc": "2.0", "id": {"a": 1}, "result": {}},
    ],
    ids=str,
)
def test_a_reply_to_nothing_is_ignored(shared, shared_session, message):
    """Responses that answer no request of ours get no answer themselves."""
    shared.send(message)
    shared.still_works(shared_session)
