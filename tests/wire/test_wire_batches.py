"""Spec section 4: a batch is judged element by element and gets a batch answer."""

from __future__ import annotations

import pytest

from tests.harness.messages import encode, notification, prompt_params


def test_a_mixed_batch_is_answered_element_by_element(shared, shared_session):
    """Each good and each bad element gets its own response, all in one array; nothing else does."""
    listed, good = shared.prepare("session/list", {}, in_batch=True)
    unknown, missing = shared.prepare("no/such", in_batch=True)
    again, hello = shared.prepare("initialize", {"protocolVersion": 2}, in_batch=True)
    wrong, old = shared.prepare("session/list", {}, in_batch=True)
    bad_params, fifth = shared.prepare("session/new", {"cwd": 5}, in_batch=True)
    cancelled, sixth = shared.prepare("session/cancel", {"sessionId": "x"}, in_batch=True)
    nulls = [shared.expect(None, in_batch=True) for _ in range(4)]
    shared.send(
        [
            good,
            1,
            notification("session/cancel", {"sessionId": "x"}),
            missing,
            {"foo": "bar"},
            hello,
            notification("no/such"),
            {**old, "jsonrpc": "1.0"},
            [],
            fifth,
            {"jsonrpc": "2.0", "id": 1.5, "method": "session/list"},
            sixth,
        ]
    )
    assert "sessions" in listed.result()
    assert unknown.code() == -32601
    assert again.code() == -32600
    assert wrong.code() == -32600
    assert bad_params.code() == -32602
    assert cancelled.result() == {}
    assert [reply.code() for reply in nulls] == [-32600] * 4
    replies = [listed, unknown, again, wrong, bad_params, cancelled, *nulls]
    assert len({reply.line for reply in replies}) == 1
    shared.still_works(shared_session)


def test_an_empty_batch_is_one_invalid_request(shared, shared_session):
    """`[]` is answered by a single error object, not by a batch."""
    reply = shared.expect(None)
    shared.send([])
    assert reply.code() == -32600
    shared.still_works(shared_session)


def test_a_batch_of_notifications_and_replies_gets_no_answer(shared, shared_session):
    """Where no element is to be answered there is no answer, not even an empty array."""
    cancel = notification("session/cancel", {"sessionId": "unknown"})
    shared.send([cancel, cancel, notification("no/such", 5)])
    shared.send([{"jsonrpc": "2.0", "id": 999, "result": {}}])
    shared.send([cancel, {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}}])
    shared.still_works(shared_session)


def test_replies_beside_requests_in_a_batch_are_not_answered(shared, shared_session):
    """A batch may hold a reply to nothing beside a request; only the request is answered."""
    listed, message = shared.prepare("session/list", {}, in_batch=True)
    shared.send([{"jsonrpc": "2.0", "id": 999, "result": {}}, message])
    assert "sessions" in listed.result()
    shared.still_works(shared_session)


def test_a_prompt_in_a_batch_is_refused_and_not_run(shared, shared_session):
    """session/prompt in a batch is -32600; its neighbours are answered, no turn begins."""
    params = prompt_params(shared_session, "/say never")
    refused, prompt = shared.prepare("session/prompt", params, in_batch=True)
    listed, good = shared.prepare("session/list", {}, in_batch=True)
    shared.send([prompt, good])
    assert refused.code() == -32600
    assert "sessions" in listed.result()
    shared.send([notification("session/prompt", params)])
    shared.sync()
    assert shared.updates(shared_session) == []
    shared.still_works(shared_session)


def test_slow_methods_in_a_batch_are_answered_together(shared, shared_session, pool):
    """New, resume, list and close in one batch come back in one array."""
    shared.still_works(shared_session)
    cwd = str(pool.project)
    resume = {"sessionId": shared_session, "cwd": cwd}
    pairs = [
        shared.prepare("session/new", {"cwd": cwd}, in_batch=True),
        shared.prepare("session/resume", resume, in_batch=True),
        shared.prepare("session/list", {"cwd": cwd}, in_batch=True),
        shared.prepare("session/close", {"sessionId": "unknown"}, in_batch=True),
    ]
    shared.send([message for _, message in pairs])
    opened, resumed, listed, closed = (reply for reply, _ in pairs)
    assert opened.result()["sessionId"]
    assert resumed.result() == {}
    assert shared_session in [info["sessionId"] for info in listed.result()["sessions"]]
    assert closed.code() == -32002
    assert len({reply.line for reply, _ in pairs}) == 1
    shared.close_session(opened.result()["sessionId"])
    shared.still_works(shared_session)


def test_a_cancel_in_a_batch_reaches_the_running_turn(shared, shared_session):
    """A batch does not delay what is in it: a cancel stops the turn of an earlier prompt."""
    prompt, message = shared.prepare("session/prompt", prompt_params(shared_session, "/sleep 600"))
    cancel = notification("session/cancel", {"sessionId": shared_session})
    shared.send_raw(encode(message) + encode([cancel]))
    assert prompt.result() == {}
    assert shared.wait_idle(shared_session) == "cancelled"
    shared.still_works(shared_session)


@pytest.mark.parametrize("size", [1, 200])
def test_a_batch_of_any_size_is_one_answer(shared, shared_session, size):
    """One request in a batch is answered by a batch of one, many by a batch of as many."""
    pairs = [shared.prepare("session/list", {}, in_batch=True) for _ in range(size)]
    shared.send([message for _, message in pairs])
    for reply, _ in pairs:
        assert "sessions" in reply.result()
    assert len({reply.line for reply, _ in pairs}) == 1
    shared.still_works(shared_session)


def test_a_batch_that_is_not_json_is_one_parse_error(shared, shared_session):
    """Broken JSON is broken as a whole: one -32700 with id null."""
    reply = shared.expect(None)
    shared.send_raw(b'[{"jsonrpc":"2.0","id":1,"method":"session/list"},{"jsonrpc"]\n')
    assert reply.code() == -32700
    shared.still_works(shared_session)


def test_initialize_may_come_in_a_batch(start, project):
    """A batch of one initialize negotiates; what came before it in the batch was too early."""
    client = start()
    early, first = client.prepare("session/list", {}, in_batch=True)
    hello, second = client.prepare(
        "initialize",
        {"protocolVersion": 2, "info": {"name": "x", "version": "1"}},
        in_batch=True,
    )
    client.send([first, second])
    assert early.code() == -32600
    assert hello.result()["protocolVersion"] == 2
    client.still_works(client.new_session(project))
