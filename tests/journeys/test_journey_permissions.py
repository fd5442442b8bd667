"""Spec section 8: nothing runs without an explicit allow; the file system is the proof."""

from __future__ import annotations

import pytest


def selected(option_id):
    """The outcome that selects an option."""
    return {"outcome": {"outcome": "selected", "optionId": option_id}}


# What a client may answer that is no allow; the text is the result's JSON value.
DENIALS = {
    "cancelled": {"outcome": {"outcome": "cancelled"}},
    "cancelled with an option": {"outcome": {"outcome": "cancelled", "optionId": "approve"}},
    "no outcome": {},
    "null outcome": {"outcome": None},
    "text outcome": {"outcome": "selected"},
    "option beside the outcome": {"outcome": "selected", "optionId": "approve"},
    "outcome not nested": {"optionId": "approve"},
    "empty outcome": {"outcome": {}},
    "no option": {"outcome": {"outcome": "selected"}},
    "null option": selected(None),
    "numeric option": selected(1),
    "option in an array": selected(["approve"]),
    "unknown kind of outcome": {"outcome": {"outcome": "approved", "optionId": "approve"}},
    "own kind of outcome": {"outcome": {"outcome": "_selected", "optionId": "approve"}},
    "null result": None,
    "array result": [],
    "text result": "approve",
    "true result": True,
    "reject": selected("reject"),
    "deny": selected("deny"),
    "unknown option": selected("no-such-option"),
    "empty option": selected(""),
    "kind as option": selected("allow_once"),
    "other case": selected("Approve"),
    "with white space": selected(" approve"),
    "resolution": selected("y"),
    "option of other tools": selected("allow-folder-session"),
    "edit option of other tools": selected("allow-edit-file-session"),
    "never offered: unsandboxed": selected("unsandboxed-once"),
    "never offered: remember": selected("allow-remember"),
    "never offered: always": selected("allow_always"),
}


def check_denied(client, session, proof):
    """The call failed, the turn went on to its end, nothing was made, the session works."""
    assert client.wait_idle(session) == "end_turn"
    assert list(client.record.life(session).calls.values()) == ["failed"]
    client.still_works(session)
    assert not proof.exists()


@pytest.mark.parametrize("answer", DENIALS.values(), ids=DENIALS.keys())
def test_an_answer_that_is_no_allow_denies(shared, shared_session, pool, answer):
    """Cancelled, malformed, unknown and rejecting answers: the command does not run."""
    proof = pool.project / "denied"
    shared.prompt(shared_session, f"/shell touch {proof.name}").result()
    shared.permissions.reply(shared.permissions.next(), answer)
    check_denied(shared, shared_session, proof)


@pytest.mark.parametrize("code", [-32601, -32603, -32800, 1])
def test_an_error_answer_denies(shared, shared_session, pool, code):
    """Also -32601, that of a client which does not know the method."""
    proof = pool.project / "denied"
    shared.prompt(shared_session, f"/shell touch {proof.name}").result()
    shared.permissions.fail(shared.permissions.next(), code)
    check_denied(shared, shared_session, proof)


@pytest.mark.parametrize(
    "more",
    [
        {"result": selected("approve"), "error": {"code": 1, "message": "no"}},
        {"error": None},
        {"error": "no"},
        {},
    ],
    ids=["result and error", "null error", "text error", "neither"],
)
def test_a_malformed_response_never_allows(shared, shared_session, pool, more):
    """A response object that is none does not run the command, whether or not it settles it."""
    proof = pool.project / "denied"
    shared.prompt(shared_session, f"/shell touch {proof.name}").result()
    request = shared.permissions.next()
    request.answered = True
    if not more:
        # Without result and error it is no response: an invalid request with an id.
        shared.expect(request.id)
    shared.send({"jsonrpc": "2.0", "id": request.id, **more})
    shared.sync()
    shared.cancel(shared_session)
    assert shared.wait_idle(shared_session) in ("end_turn", "cancelled")
    shared.still_works(shared_session)
    assert not proof.exists()


@pytest.mark.parametrize("name", ["approve", "allow-once"])
def test_an_explicit_allow_runs_the_call_once(shared, shared_session, pool, name):
    """`allow-once` is a name for approve; the next call asks again."""
    proof = pool.project / f"allowed-{name}"
    shared.prompt(shared_session, f"/shell touch {proof.name}\n/shell rm {proof.name}").result()
    request = shared.permissions.next()
    assert request.session == shared_session
    assert request.tool_call["kind"] == "execute"
    assert request.options == {"approve": "allow_once", "reject": "reject_once"}
    shared.wait_state(shared_session, "requires_action")
    shared.permissions.answer(request, name)
    second = shared.permissions.next()
    assert proof.exists()
    shared.permissions.answer(second, "deny")
    assert shared.wait_idle(shared_session) == "end_turn"
    assert list(shared.record.life(shared_session).calls.values()) == ["completed", "failed"]
    assert proof.exists()
    shared.still_works(shared_session)


def test_the_state_says_that_an_answer_is_wanted(shared, shared_session):
    """requires_action while the question is open, running once it is answered."""
    turn_start = len(shared.updates(shared_session))
    shared.prompt(shared_session, "/shell true").result()
    request = shared.permissions.next()
    shared.wait_state(shared_session, "requires_action")
    shared.permissions.answer(request, "approve")
    assert shared.wait_idle(shared_session) == "end_turn"
    states = [
        u.body["state"]
        for u in shared.updates(shared_session)[turn_start:]
        if u.kind == "state_update"
    ]
    assert states == ["running", "requires_action", "running", "idle"]


def test_an_answer_to_another_request_or_with_another_id_is_ignored(shared, shared_session, pool):
    """Only the id of the open question counts, with its type; it stays open otherwise."""
    proof = pool.project / "denied"
    shared.prompt(shared_session, "/shell true").result()
    settled = shared.permissions.next()
    shared.permissions.answer(settled, "reject")
    assert shared.wait_idle(shared_session) == "end_turn"
    shared.prompt(shared_session, f"/shell touch {proof.name}").result()
    request = shared.permissions.next()
    numeric = isinstance(request.id, int)
    wrong_ids = [settled.id, "no-such-id", 10**9, None, 1.5, True]
    wrong_ids.append(str(request.id) if numeric else f"{request.id} ")
    for wrong in wrong_ids:
        shared.send({"jsonrpc": "2.0", "id": wrong, "result": selected("approve")})
    shared.sync()
    assert shared.record.life(shared_session).phase == "requires_action"
    assert not proof.exists()
    shared.permissions.answer(request, "reject")
    assert shared.wait_idle(shared_session) == "end_turn"
    shared.still_works(shared_session)
    assert not proof.exists()


def test_an_answer_that_comes_twice_counts_once(shared, shared_session, pool):
    """The first answer decides; a second one, of whatever kind, is ignored."""
    proof = pool.project / "twice"
    shared.prompt(shared_session, f"/shell touch {proof.name}").result()
    request = shared.permissions.next()
    shared.permissions.answer(request, "reject")
    shared.permissions.answer(request, "approve")
    check_denied(shared, shared_session, proof)
    shared.permissions.answer(request, "approve")
    shared.prompt(shared_session, f"/shell touch {proof.name}").result()
    request = shared.permissions.next()
    shared.permissions.answer(request, "approve")
    shared.permissions.answer(request, "reject")
    assert shared.wait_idle(shared_session) == "end_turn"
    assert proof.exists()
    shared.still_works(shared_session)


def test_an_answer_in_a_batch_is_an_answer(shared, shared_session, pool):
    """A client may send its answer beside other messages."""
    proof = pool.project / "in-a-batch"
    shared.prompt(shared_session, f"/shell touch {proof.name}").result()
    request = shared.permissions.next()
    request.answered = True
    listed, message = shared.prepare("session/list", {}, in_batch=True)
    shared.send([message, {"jsonrpc": "2.0", "id": request.id, "result": selected("approve")}])
    assert "sessions" in listed.result()
    assert shared.wait_idle(shared_session) == "end_turn"
    assert proof.exists()


def test_a_client_that_goes_away_has_denied(client, session, project):
    """The end of stdin with a question open: nothing runs, the question is withdrawn, exit 0."""
    client.prompt(session, "/shell touch never").result()
    request = client.permissions.next()
    client.eof()
    assert client.wait_exit() == 0
    assert request.cancelled
    assert not (project / "never").exists()
