"""Our requests to the client: only a real answer, in time, for a request of ours counts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.agent.cancel import Cancelled, CancelToken
from term2_acp.rpc.outbound import OutboundRequests
from tests.unit.doubles import MOMENT_S, Background, Sent, together


@pytest.fixture(name="sent")
def _sent():
    """What was written."""
    return Sent()


@pytest.fixture(name="outbound")
def _outbound(sent):
    """Our requests, with nothing pending."""
    return OutboundRequests(sent)


def answer(request_id, result):
    """A well-formed answer."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def withdrawal(request_id):
    """What takes a request back."""
    return {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": request_id}}


def test_a_request_is_written_with_an_id_of_its_own(sent, outbound):
    """Method and params go out as they are, and no id comes twice."""
    first, second = outbound.send("m", {"a": 1}), outbound.send("m", None)
    assert first.request_id != second.request_id
    assert {"jsonrpc": "2.0", "id": first.request_id, "method": "m", "params": {"a": 1}} == (
        sent.messages[0]
    )


@pytest.mark.parametrize("result", [{"outcome": {}}, None, [], 0, False, "x"])
def test_an_answer_reaches_whoever_waits(outbound, result):
    """The raw result, whatever it is; it is judged by who asked."""
    pending = outbound.send("m", {})
    waiting = Background(lambda: pending.wait(CancelToken()))
    assert not waiting.ended_within(MOMENT_S / 10)
    outbound.receive(answer(pending.request_id, result))
    assert result == waiting.result().result


NOT_OURS = [
    lambda own: True,
    float,
    str,
    lambda own: None,
    lambda own: own + 1,
    lambda own: -own,
    lambda own: 2**70,
    lambda own: [own],
    lambda own: {"id": own},
]


@pytest.mark.parametrize("make_id", NOT_OURS)
def test_an_answer_with_another_id_is_ignored(outbound, make_id):
    """An id that is only like ours (`true`, 1.0, "1") is not ours."""
    pending = outbound.send("m", {})
    assert pending.request_id == 1, "true and 1.0 are equal to the id"
    outbound.receive(answer(make_id(pending.request_id), "wrong"))
    outbound.receive({"jsonrpc": "2.0", "result": "wrong"})
    outbound.receive(answer(pending.request_id, "right"))
    assert "right" == pending.wait(CancelToken()).result


def test_the_first_answer_counts(outbound):
    """A second one, also one to a request that is over, is ignored."""
    pending, other = outbound.send("m", {}), outbound.send("m", {})
    outbound.receive(answer(pending.request_id, "first"))
    outbound.receive(answer(pending.request_id, "second"))
    assert "first" == pending.wait(CancelToken()).result
    outbound.receive(answer(pending.request_id, "third"))
    outbound.receive(answer(other.request_id, "other"))
    assert "other" == other.wait(CancelToken()).result


@pytest.mark.parametrize(
    "wrong",
    [
        {"jsonrpc": "2.0", "error": {"code": -32601, "message": "no"}},
        {"jsonrpc": "2.0", "error": {"code": 1}, "result": "approve"},
        {"jsonrpc": "2.0", "error": "text", "result": "approve"},
        {"result": "approve"},
        {"jsonrpc": "1.0", "result": "approve"},
        {"jsonrpc": 2.0, "result": "approve"},
        {"jsonrpc": "2.0"},
    ],
)
def test_an_error_or_a_malformed_answer_is_no_result(outbound, wrong):
    """It settles the request, and nothing of it counts."""
    pending = outbound.send("m", {})
    outbound.receive({**wrong, "id": pending.request_id})
    assert pending.wait(CancelToken()).result is None


def test_a_cancel_withdraws_the_request(sent, outbound):
    """The waiter unwinds, the client is told, and a late answer is ignored."""
    pending, cancel = outbound.send("m", {}), CancelToken()
    waiting = Background(lambda: pending.wait(cancel))
    assert not waiting.ended_within(MOMENT_S / 10)
    cancel.cancel()
    with pytest.raises(Cancelled):
        waiting.result()
    outbound.receive(answer(pending.request_id, "late"))
    assert [withdrawal(pending.request_id)] == sent.messages[1:]


def test_an_answer_before_the_cancel_does_not_count_either(sent, outbound):
    """When in doubt, nothing was allowed; the client knows that it answered."""
    pending, cancel = outbound.send("m", {}), CancelToken()
    outbound.receive(answer(pending.request_id, "approve"))
    cancel.cancel()
    with pytest.raises(Cancelled):
        pending.wait(cancel)
    assert [] == sent.messages[1:]


def test_a_token_that_is_set_already_cancels_at_once(sent, outbound):
    """The cancel may come before the wait."""
    pending, cancel = outbound.send("m", {}), CancelToken()
    cancel.cancel()
    with pytest.raises(Cancelled):
        pending.wait(cancel)
    assert [withdrawal(pending.request_id)] == sent.messages[1:]


def test_a_cancel_that_races_with_the_answer_settles_either_way():
    """The waiter gets the answer or `Cancelled`; the request is withdrawn only if it was open."""
    for _ in range(100):
        sent, cancel = Sent(), CancelToken()
        outbound = OutboundRequests(sent)
        pending = outbound.send("m", {})

        def wait(pending=pending, cancel=cancel):
            try:
                return pending.wait(cancel).result
            except Cancelled:
                return "cancelled"

        def receive(outbound=outbound, pending=pending):
            outbound.receive(answer(pending.request_id, "approve"))

        outcome, _, _ = together([wait, receive, cancel.cancel])
        assert outcome in ("approve", "cancelled")
        assert sent.messages[1:] in ([], [withdrawal(pending.request_id)])
        if outcome == "approve":
            assert [] == sent.messages[1:]


def test_the_end_of_the_client_settles_everything(sent, outbound):
    """Nobody waits for a client that is gone, also not with a request that comes later."""
    pending = [outbound.send("m", {}) for _ in range(3)]
    waiting = [
        Background(lambda request=request: request.wait(CancelToken())) for request in pending
    ]
    outbound.close()
    assert [None, None, None] == [thread.result().result for thread in waiting]
    later = outbound.send("m", {})
    assert later.wait(CancelToken()).result is None
    assert 3 == len(sent.messages)


def test_a_turn_cancelled_at_the_end_withdraws_its_question(sent, outbound):
    """EOF cancels the turn and settles the request: it counts as cancelled, and is taken back."""
    pending, cancel = outbound.send("m", {}), CancelToken()
    cancel.cancel()
    outbound.close()
    with pytest.raises(Cancelled):
        pending.wait(cancel)
    assert [withdrawal(pending.request_id)] == sent.messages[1:]


def test_a_request_that_was_never_sent_is_not_taken_back(sent, outbound):
    """After the end nothing is asked, so the client hears of no withdrawal either."""
    outbound.close()
    pending, cancel = outbound.send("m", {}), CancelToken()
    cancel.cancel()
    with pytest.raises(Cancelled):
        pending.wait(cancel)
    assert [] == sent.messages


JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 9), st.floats(0, 9), st.text(max_size=2)),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
).filter(lambda value: type(value) is not int)


@settings(deadline=None)
@given(st.permutations(range(6)), st.lists(JUNK, max_size=6))
def test_answers_in_any_order_reach_their_requests(order, junk):
    """Each request gets its own answer, whatever comes between."""
    outbound = OutboundRequests(Sent())
    pending = [outbound.send("m", {}) for _ in range(6)]
    for number in order:
        for request_id in junk:
            outbound.receive(answer(request_id, "junk"))
        outbound.receive(answer(pending[number].request_id, number))
        outbound.receive(answer(pending[number].request_id, "again"))
    assert list(range(6)) == [request.wait(CancelToken()).result for request in pending]
