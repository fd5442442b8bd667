"""What a dead process left open is closed, and the next prompt works."""

from __future__ import annotations

import itertools

import attrs
import pytest
from hypothesis import given, settings

from term2_acp.agent.context import Conversation
from term2_acp.agent.model import AssistantTurn, ToolResult
from term2_acp.eventlog import (
    StopReason,
    TerminalExited,
    TerminalOpened,
    TextBlock,
    ToolCallCreated,
    ToolCallEnded,
    ToolStatus,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from term2_acp.recovery import recover
from term2_acp.replay import TerminalItem, ToolCallItem, items
from term2_acp.store import Store
from tests.unit.histories import cut_histories

NAMES = (f"s{number}" for number in itertools.count())


@pytest.fixture(name="store", scope="module")
def _store(tmp_path_factory):
    """A store for many examples, each of which uses a session of its own."""
    store = Store(str(tmp_path_factory.mktemp("store")))
    yield store
    store.close()


def left_behind(store, events):
    """A stored session with this log; its id."""
    session_id = next(NAMES)
    store.create_session(session_id, "/project")
    if events[1:]:
        store.append(session_id, 2, events[1:])
    return session_id


def log_of(store, session_id):
    """The events of a session."""
    return [event for _seq, event in store.read(session_id)]


def ids(events, kind, name):
    """The ids that events of a kind name, in order."""
    return [getattr(event, name) for event in events if isinstance(event, kind)]


@settings(deadline=None, max_examples=60)
@given(cut_histories(max_turns=2))
def test_recovery_closes_everything_once(store, events):
    """Calls as failed, terminals as exited, the turn as interrupted; what was closed stays."""
    session_id = left_behind(store, events)
    record = recover(store, store.find(session_id))
    log = log_of(store, session_id)
    assert events == log[: len(events)]
    stored = store.find(session_id)
    assert stored == attrs.evolve(record, updated_at=stored.updated_at)
    assert (record.open_turn, record.last_seq) == (None, len(log))
    created = ids(log, ToolCallCreated, "tool_call_id")
    assert sorted(created) == sorted(ids(log, ToolCallEnded, "tool_call_id"))
    opened = ids(log, TerminalOpened, "terminal_id")
    assert sorted(opened) == sorted(ids(log, TerminalExited, "terminal_id"))
    assert ids(log, TurnStarted, "turn_id") == ids(log, TurnEnded, "turn_id")
    added = log[len(events) :]
    if added:
        assert StopReason.INTERRUPTED is added[-1].stop_reason
        ended = [event for event in added if isinstance(event, ToolCallEnded)]
        assert all(event.status is ToolStatus.FAILED and event.result for event in ended)
    else:
        assert len(ids(events, TurnStarted, "turn_id")) == len(ids(events, TurnEnded, "turn_id"))


@settings(deadline=None, max_examples=20)
@given(cut_histories(max_turns=2))
def test_recovering_again_adds_nothing(store, events):
    """Also from a record that was read before."""
    session_id = left_behind(store, events)
    recover(store, store.find(session_id))
    log = log_of(store, session_id)
    record = store.find(session_id)
    assert record == recover(store, record)
    assert log == log_of(store, session_id)


@settings(deadline=None, max_examples=20)
@given(cut_histories(max_turns=2))
def test_a_recovered_session_takes_the_next_prompt(store, events):
    """Its replay has nothing open, and its context pairs every call with its result."""
    session_id = left_behind(store, events)
    record = recover(store, store.find(session_id))
    store.append(
        session_id,
        record.last_seq + 1,
        [TurnStarted("next"), UserMessage("m-next", (TextBlock("go on"),))],
    )
    log = log_of(store, session_id)
    for item in items(log):
        assert not isinstance(item, ToolCallItem) or item.ended is not None
        assert not isinstance(item, TerminalItem) or item.exited is not None
    conversation = Conversation()
    for event in log:
        conversation.apply(event)
    messages = conversation.messages()
    assert "go on" == messages[-1].text
    calls = [
        call.call_id
        for message in messages
        if isinstance(message, AssistantTurn)
        for call in message.tool_calls
    ]
    assert calls == [message.call_id for message in messages if isinstance(message, ToolResult)]
