"""Spec section 4: ids are echoed with their type, on results and on errors."""

from __future__ import annotations

import json

import pytest

from tests.harness.messages import encode

GOOD_IDS = [1, 0, -1, "1", "", "a b\u2028\n", 2**53 + 1, 2**63 - 1, -(2**63), None]
BAD_IDS = ["true", "false", "1.5", "1e999", "-0.1", "{}", "[]", "[1]", '{"id":1}']


@pytest.mark.parametrize("request_id", GOOD_IDS, ids=repr)
def test_an_id_comes_back_as_it_was_sent(shared, shared_session, request_id):
    """Strings, integers of any size and null are echoed with type and value, also on errors."""
    list_sessions = {"jsonrpc": "2.0", "id": request_id, "method": "session/list"}
    listed = shared.expect(request_id, "session/list")
    shared.send(list_sessions)
    assert "sessions" in listed.result()
    for wrong, code in (
        ({"method": "no/such"}, -32601),
        ({"params": {"cursor": 5}}, -32602),
        ({"jsonrpc": "1.0"}, -32600),
        ({"method": 7}, -32600),
    ):
        refused = shared.expect(request_id)
        shared.send({**list_sessions, **wrong})
        assert refused.code() == code
    shared.still_works(shared_session)


@pytest.mark.parametrize("request_id", BAD_IDS)
def test_an_id_of_another_type_is_an_invalid_request_with_a_null_id(
    shared, shared_session, request_id
):
    """Fractions, booleans, arrays and objects are no ids: -32600, id null, nothing done."""
    reply = shared.expect(None)
    line = '{"jsonrpc":"2.0","id":%s,"method":"session/prompt","params":%s}\n'
    params = {"sessionId": shared_session, "prompt": [{"type": "text", "text": "/say no"}]}
    shared.send_raw((line % (request_id, json.dumps(params))).encode())
    assert reply.code() == -32600
    shared.still_works(shared_session)


def test_an_id_may_be_used_again(shared, shared_session):
    """Two requests with one id get two responses with it."""
    replies = [shared.expect("again", "session/list") for _ in range(2)]
    message = {"jsonrpc": "2.0", "id": "again", "method": "session/list"}
    shared.send_raw(encode(message) * 2)
    for reply in replies:
        assert "sessions" in reply.result()
    shared.still_works(shared_session)


def test_a_lone_surrogate_in_an_id_becomes_the_replacement_character(shared, shared_session):
    """An id that UTF-8 cannot carry is answered with U+FFFD in its place."""
    reply = shared.expect("x\ufffdy", "session/list")
    shared.send_raw(rb'{"jsonrpc":"2.0","id":"x\ud800y","method":"session/list"}' + b"\n")
    assert "sessions" in reply.result()
    shared.still_works(shared_session)
