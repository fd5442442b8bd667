"""The order rules of a session's updates, each broken once."""

from __future__ import annotations

import pytest

from tests.harness.lifecycle import SessionLife

RUNNING = {"sessionUpdate": "state_update", "state": "running"}
ASKING = {"sessionUpdate": "state_update", "state": "requires_action"}
IDLE = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
USER = {"sessionUpdate": "user_message", "messageId": "u"}
SAY = {"sessionUpdate": "agent_message_chunk", "messageId": "a"}
THINK = {"sessionUpdate": "agent_thought_chunk", "messageId": "a"}
TITLE = {"sessionUpdate": "session_info_update", "title": "x"}
OUTPUT = {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": ""}
OPENED = {"sessionUpdate": "terminal_update", "terminalId": "t"}
EXITED = {**OPENED, "exitStatus": {"exitCode": 0}}
SENT, ACCEPTED, REFUSED = "sent", "accepted", "refused"


def call(status: str | None = None, **more: object) -> dict[str, object]:
    """A tool_call_update of call c."""
    update: dict[str, object] = {"sessionUpdate": "tool_call_update", "toolCallId": "c", **more}
    return update if status is None else {**update, "status": status}


PENDING = call("pending", name="n", title="t", kind="read")
BEGIN = (SENT, RUNNING, ACCEPTED, USER)
DONE = (*BEGIN, SAY, IDLE)


def play(*events: object) -> list[str]:
    """All faults of a sequence of events."""
    life = SessionLife()
    faults: list[str] = []
    for event in events:
        if event == SENT:
            life.prompt_sent()
        elif event in (ACCEPTED, REFUSED):
            faults += life.prompt_answered(accepted=event == ACCEPTED)
        else:
            faults += life.update(event)
    return faults


@pytest.mark.parametrize(
    "events",
    [
        DONE,
        (*DONE, SENT, RUNNING, ACCEPTED, {**USER, "messageId": "u2"}, IDLE),
        (*BEGIN, ASKING, RUNNING, IDLE),
        (*BEGIN, ASKING, IDLE),
        (*BEGIN, SENT, REFUSED, SAY, TITLE, IDLE),
        (*BEGIN, PENDING, call("in_progress"), call(content=[]), call("completed"), IDLE),
        (*BEGIN, OPENED, OUTPUT, EXITED, IDLE),
        (SENT, REFUSED, *BEGIN),
    ],
)
def test_a_right_order_has_no_fault(events):
    """What the protocol allows passes."""
    assert play(*events) == []


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        ((RUNNING,), "no prompt is open"),
        ((SENT, ACCEPTED), "running was not sent first"),
        ((SENT, RUNNING, REFUSED), "refused after state_update running"),
        ((SENT, RUNNING, USER), "user_message while announced"),
        ((SENT, RUNNING, ACCEPTED, SAY), "came before user_message"),
        ((SENT, RUNNING, ACCEPTED, IDLE), "idle while accepted"),
        ((*BEGIN, RUNNING), "running while running"),
        ((*BEGIN, ASKING, ASKING), "requires_action while requires_action"),
        ((*DONE, IDLE), "idle while idle"),
        ((*DONE, TITLE), "session_info_update while idle"),
        ((*DONE, ASKING), "requires_action while idle"),
        ((*BEGIN, {**IDLE, "stopReason": None}), "without a stopReason"),
        ((*BEGIN, {**USER, "messageId": "u2"}), "a second user_message"),
        ((*DONE, *BEGIN), "'u' is not unique"),
        ((*DONE, SENT, RUNNING, ACCEPTED, {**USER, "messageId": "u2"}, SAY), "an earlier turn"),
        ((*BEGIN, SAY, THINK), "was a agent message before"),
        ((*BEGIN, PENDING, IDLE), "these tool calls are open: ['c']"),
        ((*BEGIN, call("pending", title="t", kind="read")), "has no name"),
        ((*BEGIN, call("in_progress", name="n", title="t", kind="read")), "status 'in_progress'"),
        ((*BEGIN, PENDING, call("in_progress"), call("pending")), "went back from in_progress"),
        ((*BEGIN, PENDING, call("failed"), call("failed")), "after it was failed"),
        ((*BEGIN, OUTPUT), "never opened"),
        ((*BEGIN, OPENED, EXITED, OUTPUT), "after its exit status"),
        ((*BEGIN, OPENED, IDLE), "no exit status: ['t']"),
        ((*BEGIN, {"sessionUpdate": "tool_call", "toolCallId": "c"}), "an update of version 1"),
    ],
)
def test_a_wrong_order_is_named(events, fault):
    """Each broken rule gives a fault that says which."""
    assert fault in "; ".join(play(*events))


def test_a_replay_brings_old_ids_back():
    """While a resume is open the updates may be old ones; afterwards the state is told once."""
    life = SessionLife()
    life.resume_sent()
    assert life.update(USER) == []
    assert life.update(call("completed")) == []
    life.resume_answered()
    assert life.update({**IDLE, "stopReason": None}) == []
    assert life.update(IDLE) != []


def test_a_resume_in_a_turn_may_bring_its_user_message_and_repeat_its_state():
    """The message that a turn owes may come in a replay, and the state once more after it."""
    life = SessionLife()
    life.prompt_sent()
    life.update(RUNNING)
    life.prompt_answered(accepted=True)
    life.resume_sent()
    assert life.update(USER) == []
    life.resume_answered()
    assert life.update(RUNNING) == []
    assert life.update(SAY) == []
    assert life.update(RUNNING) != []


def test_a_permission_is_for_an_open_call_of_a_running_turn():
    """A question outside of a turn, or for a call that is not open, is a fault."""
    life = SessionLife()
    assert "while idle" in life.permission_asked(None)[0]
    life.prompt_sent()
    life.update(RUNNING)
    life.prompt_answered(accepted=True)
    life.update(USER)
    assert "not an open tool call" in life.permission_asked("c")[0]
    life.update(PENDING)
    assert life.permission_asked("c") == []
