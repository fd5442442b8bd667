"""The order rules of a session's updates in version 1, each broken once."""

from __future__ import annotations

import pytest

from tests.harness.lifecycle_v1 import SessionLifeV1

PROMPT, ANSWER, LOAD, LOADED, ASK = "prompt", "answer", "load", "loaded", "ask"
SAY = {"sessionUpdate": "agent_message_chunk"}
USER = {"sessionUpdate": "user_message_chunk"}


def call(status: str = "pending") -> dict[str, str]:
    """The tool_call of call c."""
    return {"sessionUpdate": "tool_call", "toolCallId": "c", "status": status}


def change(status: str | None = None) -> dict[str, str]:
    """A tool_call_update of call c."""
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "c"}
    return update if status is None else {**update, "status": status}


def play(*events: object) -> list[str]:
    """All faults of a sequence of events."""
    life = SessionLifeV1()
    faults: list[str] = []
    for event in events:
        if event in (PROMPT, LOAD):
            life.request_sent(f"session/{event}")
        elif event == ANSWER:
            faults += life.request_answered("session/prompt")
        elif event == LOADED:
            faults += life.request_answered("session/load")
        elif event == ASK:
            faults += life.permission_asked("c")
        elif isinstance(event, dict):
            faults += life.update(event)
    return faults


@pytest.mark.parametrize(
    "events",
    [
        (PROMPT, SAY, ANSWER),
        (PROMPT, call(), ASK, change("in_progress"), change(), change("completed"), ANSWER),
        (PROMPT, call(), PROMPT, ANSWER, change("failed"), ANSWER),
        (LOAD, USER, SAY, call("completed"), LOADED),
        (PROMPT, call(), LOAD, USER, call(), LOADED, change("failed"), ANSWER),
    ],
)
def test_a_right_order_has_no_fault(events: tuple[object, ...]) -> None:
    """Turns, calls, a busy session and replays, also of a session whose turn runs."""
    assert play(*events) == []


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        ((SAY,), "while no prompt is open"),
        ((PROMPT, ANSWER, SAY), "while no prompt is open"),
        ((PROMPT, USER), "outside of a replay"),
        ((PROMPT, change()), "has no tool_call"),
        ((PROMPT, call(), call()), "came twice"),
        ((PROMPT, call("in_progress")), "begins as"),
        ((PROMPT, call(), change("failed"), change()), "after it was failed"),
        ((PROMPT, call(), change("in_progress"), change("pending")), "went back"),
        ((PROMPT, call(), ANSWER), "are open"),
        ((ASK,), "while no prompt is open"),
        ((PROMPT, ASK), "not an open tool call"),
        ((PROMPT, call(), change("failed"), ASK), "not an open tool call"),
    ],
)
def test_a_wrong_order_is_named(events: tuple[object, ...], fault: str) -> None:
    """Each rule is broken once."""
    assert any(fault in found for found in play(*events))
