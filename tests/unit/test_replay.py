"""A session's history as whole items, wherever the log ends."""

from __future__ import annotations

from hypothesis import given, settings

from term2_acp.agent.ports import ToolKind
from term2_acp.eventlog import (
    AgentText,
    AgentThought,
    Notice,
    PlanUpdated,
    TerminalExited,
    TerminalOpened,
    TerminalOutput,
    ToolCallCreated,
    ToolCallEnded,
    ToolCallShowed,
    ToolCallStarted,
    ToolStatus,
    TurnStarted,
    UserMessage,
)
from term2_acp.replay import (
    SNAPSHOT_BYTES,
    AgentMessageItem,
    TerminalItem,
    ToolCallItem,
    items,
)
from tests.unit.histories import cut_histories

BEGINNINGS = (
    UserMessage,
    AgentText,
    AgentThought,
    Notice,
    ToolCallCreated,
    TerminalOpened,
    PlanUpdated,
)


def key(event):
    """What an event or an item is about."""
    for name in ("message_id", "tool_call_id", "terminal_id"):
        if hasattr(event, name):
            return getattr(event, name)
    return id(event)


def key_of_item(item):
    """The same of an item."""
    if isinstance(item, ToolCallItem):
        return key(item.created)
    if isinstance(item, TerminalItem):
        return key(item.opened)
    return key(item)


@settings(deadline=None)
@given(cut_histories())
def test_items_come_once_each_in_the_order_in_which_they_began(events):
    """Messages, calls, terminals and plans; nothing is missing, nothing comes twice."""
    began = dict.fromkeys(key(event) for event in events if isinstance(event, BEGINNINGS))
    assert list(began) == [key_of_item(item) for item in items(events)]


@settings(deadline=None)
@given(cut_histories())
def test_a_message_has_its_whole_text(events):
    """Every piece, in order, as an answer or as a thought."""
    texts, thoughts = {}, set()
    for event in events:
        if isinstance(event, AgentText | AgentThought | Notice):
            texts[event.message_id] = texts.get(event.message_id, "") + event.text
            if isinstance(event, AgentThought):
                thoughts.add(event.message_id)
    shown = [item for item in items(events) if isinstance(item, AgentMessageItem)]
    assert texts == {item.message_id: "".join(item.texts) for item in shown}
    assert thoughts == {item.message_id for item in shown if item.is_thought}


@settings(deadline=None)
@given(cut_histories())
def test_a_call_is_in_its_last_known_form(events):
    """What it was, whether it started, what it showed and how it ended."""

    def of(kind):
        return {event.tool_call_id: event for event in events if isinstance(event, kind)}

    created, started = of(ToolCallCreated), of(ToolCallStarted)
    showed, ended = of(ToolCallShowed), of(ToolCallEnded)
    for item in items(events):
        if isinstance(item, ToolCallItem):
            call_id = item.created.tool_call_id
            assert (
                ToolCallItem(
                    created[call_id], call_id in started, showed.get(call_id), ended.get(call_id)
                )
                == item
            )


@settings(deadline=None)
@given(cut_histories())
def test_a_terminal_has_all_of_its_output(events):
    """And its exit, once there was one."""
    for item in items(events):
        if isinstance(item, TerminalItem):
            own = [event for event in events if key(event) == item.opened.terminal_id]
            data = [event.data for event in own if isinstance(event, TerminalOutput)]
            assert b"".join(data) == b"".join(item.output)
            exits = [event for event in own if isinstance(event, TerminalExited)]
            assert (exits or [None])[0] == item.exited


@settings(deadline=None)
@given(cut_histories())
def test_an_item_is_given_as_soon_as_it_and_all_before_it_are_complete(events):
    """No more than one step is held: at the start of a turn, all before it was given."""
    taken = 0

    def counted():
        nonlocal taken
        for event in events:
            taken += 1
            yield event

    given_at = {key_of_item(item): taken for item in items(counted())}
    turn_starts = [
        number for number, event in enumerate(events, 1) if isinstance(event, TurnStarted)
    ]
    for number, event in enumerate(events, 1):
        if isinstance(event, BEGINNINGS):
            following = [start for start in turn_starts if start > number]
            # A text is known to be whole when the next item begins.
            if following and following[0] + 1 <= len(events):
                assert given_at[key(event)] <= following[0] + 1


def test_a_call_is_given_when_it_has_ended():
    """Not only at the end of its turn: a long turn is never held whole."""
    consumed = []

    def log():
        for name in ("c1", "c2", "c3"):
            consumed.append(name)
            yield ToolCallCreated(name, "n", "t", ToolKind.READ, {})
            yield ToolCallEnded(name, ToolStatus.COMPLETED, "done")

    for item in items(log()):
        assert consumed[-1] == item.created.tool_call_id
    assert ["c1", "c2", "c3"] == consumed


def test_a_terminal_is_given_when_it_has_exited():
    """As a call."""
    consumed = []

    def log():
        for name in ("t1", "t2"):
            consumed.append(name)
            yield TerminalOpened(name, "ls", "/")
            yield TerminalExited(name, 0)

    for item in items(log()):
        assert consumed[-1] == item.opened.terminal_id


def test_of_much_output_the_end_is_kept():
    """A snapshot is bounded, and it is the newest part that counts."""
    pieces = [bytes([number]) * 100_000 for number in range(60)]
    log = [
        TerminalOpened("t", "cmd", "/"),
        *(TerminalOutput("t", piece) for piece in pieces),
        TerminalExited("t", 0),
    ]
    (item,) = items(log)
    data = b"".join(item.output)
    assert SNAPSHOT_BYTES <= len(data) < SNAPSHOT_BYTES + 100_000
    assert b"".join(pieces).endswith(data)


def test_events_of_unknown_calls_and_terminals_are_left_out():
    """A log that an older version wrote in part is still replayed."""
    log = [
        ToolCallStarted("gone"),
        TerminalOutput("gone", b"x"),
        TerminalExited("gone", 0),
        ToolCallCreated("c", "n", "t", ToolKind.READ, {}),
    ]
    assert ["c"] == [item.created.tool_call_id for item in items(log)]
