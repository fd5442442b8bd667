"""The soak's rules see what breaks them, and nothing else."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
SESSION = "sess_1"


@pytest.fixture(name="ledger")
def fixture_ledger(monkeypatch):
    """A ledger that knows one session."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    ledger = importlib.import_module("soak.ledger").Ledger()
    ledger.open(SESSION)
    return ledger


def update(kind, **members):
    """A notification of that session."""
    body = {"sessionUpdate": kind, **members}
    params = {"sessionId": SESSION, "update": body}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def state(word, **members):
    return update("state_update", state=word, **members)


def call(status):
    return update("tool_call_update", toolCallId="call_1", status=status)


def response(request_id, **members):
    return {"jsonrpc": "2.0", "id": request_id, **(members or {"result": {}})}


RUNNING, WAITING, IDLE = (
    state("running"),
    state("requires_action"),
    state("idle", stopReason="end_turn"),
)
SAID = update("user_message", messageId="msg_1", content=[{"type": "text", "text": "hi"}])
ASKED = {
    "jsonrpc": "2.0",
    "id": "p1",
    "method": "session/request_permission",
    "params": {"sessionId": SESSION, "options": []},
}
TURN = [RUNNING, response(1), SAID, call("pending"), WAITING, ASKED, RUNNING, call("failed"), IDLE]
BROKEN = {
    "answered twice": [RUNNING, response(1), response(1)],
    "an answer to nothing": [response(7)],
    "neither a result nor an error": [RUNNING, {"jsonrpc": "2.0", "id": 1}],
    "accepted before it ran": [response(1)],
    "running follows running": [RUNNING, RUNNING],
    "idle follows idle": [IDLE],
    "while idle": [*TURN, SAID],
    "asked for while idle": [ASKED],
    "the permission p1 came twice": [RUNNING, ASKED, ASKED],
    "open: ['call_1']": [RUNNING, response(1), call("in_progress"), IDLE],
    "the id msg_1 came twice": [RUNNING, SAID, SAID],
    "began without a prompt": [*TURN, RUNNING],
    "not open": [update("user_message", messageId="m", content=[]) | {"params": {
        "sessionId": "sess_2", "update": {"sessionUpdate": "plan_update"}}}],
    "unknown method": [{"jsonrpc": "2.0", "method": "fs/read", "params": {}}],
    "no JSON-RPC": [{"id": 1, "result": {}}],
    "KeyError": [{"jsonrpc": "2.0", "method": "session/update", "params": {}}],
}  # fmt: skip


def told(ledger, messages):
    ledger.sent(1, "session/prompt", SESSION)
    for message in messages:
        ledger.receive(message)
    return ledger.broken


def test_a_turn_as_it_should_be_breaks_no_rule(ledger):
    """From running to idle, with a call and a question."""
    assert [] == told(ledger, TURN)
    assert [] == ledger.unanswered(float("inf"))


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_is_told(ledger, rule):
    """Each by its own words; whoever waits is told at once."""
    assert rule in " ".join(told(ledger, BROKEN[rule]))
    with pytest.raises(Exception, match=r"."):
        ledger.wait(lambda: False, 0, "nothing")


def test_what_comes_for_a_closed_session_is_told(ledger):
    """A close that was answered is the end, until a resume is sent."""
    ledger.sent(2, "session/close", SESSION)
    ledger.receive(response(2))
    assert "not open" in " ".join(told(ledger, [RUNNING]))


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("seen", ["ab", "abc", "x"])
@pytest.mark.usefixtures("ledger")
def test_a_replay_that_says_otherwise_is_told(seen, whole):
    """After a crash it may say more than was seen; never less, and nothing else."""
    transcript = importlib.import_module("soak.transcript")
    shown, replay = transcript.Transcript(), transcript.Transcript()
    chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "m"}
    shown.apply({**chunk, "content": {"type": "text", "text": seen}})
    replay.apply({"sessionUpdate": "agent_message", "messageId": "m", "content": [{"text": "abc"}]})
    right = seen == "abc" or (seen == "ab" and not whole)
    assert right == (not shown.differences(replay, whole=whole))


HELD = {"threads": 3, "descriptors": 16, "resident": 70.0, "children": 0}
LEFT = {
    "": [{"resident": 90.0}, {"resident": 93.0}],
    "at rest it held": [{"threads": 4}],
    "at rest it held Holdings": [{"descriptors": 17}],
    "children=1": [{"children": 1}],
    "memory grew by 25 MiB to 95": [{"resident": 95.0}],
    "memory grew by 9 MiB since the last rest": [{"resident": 75.0}, {"resident": 84.0}],
}


@pytest.mark.parametrize("fault", LEFT)
def test_what_a_server_still_holds_at_rest_is_a_fault(monkeypatch, fault):
    """More threads, descriptors, children or memory than before are told, and less are not."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    holdings = importlib.import_module("soak.server").Holdings
    rests = importlib.import_module("soak.rest").Rests(holdings(**HELD))
    faults = [rests.faults(holdings(**{**HELD, **now})) for now in LEFT[fault]]
    assert fault in "; ".join(faults[-1])
    assert bool(fault) == bool(faults[-1])
    assert not any(faults[:-1])
