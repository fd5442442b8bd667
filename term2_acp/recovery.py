"""Closes what a dead process left open in a session's log (spec section 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from term2_acp.eventlog import (
    Event,
    StopReason,
    TerminalExited,
    TerminalOpened,
    ToolCallCreated,
    ToolCallEnded,
    ToolCallShowed,
    ToolStatus,
    TurnEnded,
    TurnStarted,
)

if TYPE_CHECKING:
    from term2_acp.agent.ports import ToolContent
    from term2_acp.store import SessionRecord, Store

_RESULT = "The agent's process ended before this call did."


def recover(store: Store, record: SessionRecord) -> SessionRecord:
    """
    End an open turn as interrupted, with its open calls failed; called by the owner.

    Raises:
        StoreError: the log cannot be read or written.
    """
    if record.open_turn is None:
        return record
    turn_id = ""
    calls: dict[str, tuple[ToolContent, ...]] = {}
    terminals: dict[str, None] = {}
    for _seq, event in store.read(record.session_id, record.open_turn - 1):
        if isinstance(event, TurnStarted):
            turn_id = event.turn_id
        elif isinstance(event, ToolCallCreated):
            calls[event.tool_call_id] = ()
        elif isinstance(event, ToolCallShowed):
            calls[event.tool_call_id] = event.content
        elif isinstance(event, ToolCallEnded):
            calls.pop(event.tool_call_id, None)
        elif isinstance(event, TerminalOpened):
            terminals[event.terminal_id] = None
        elif isinstance(event, TerminalExited):
            terminals.pop(event.terminal_id, None)
    ends: list[Event] = [TerminalExited(terminal_id) for terminal_id in terminals]
    ends += [
        ToolCallEnded(call_id, ToolStatus.FAILED, _RESULT, shown)
        for call_id, shown in calls.items()
    ]
    ends.append(TurnEnded(turn_id, StopReason.INTERRUPTED))
    store.append(record.session_id, record.last_seq + 1, ends)
    return attrs.evolve(record, open_turn=None, last_seq=record.last_seq + len(ends))
