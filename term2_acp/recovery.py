"""Closes what a dead process left open in a session's log (spec section 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from term2_acp.eventlog import StopReason, ToolStatus, TurnEnded, TurnStarted
from term2_acp.openwork import OpenWork

if TYPE_CHECKING:
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
    work = OpenWork()
    for _seq, event in store.read(record.session_id, record.open_turn - 1):
        if isinstance(event, TurnStarted):
            turn_id = event.turn_id
        work.apply(event)
    ends = work.ends(ToolStatus.FAILED, _RESULT)
    ends.append(TurnEnded(turn_id, StopReason.INTERRUPTED))
    store.append(record.session_id, record.last_seq + 1, ends)
    return attrs.evolve(record, open_turn=None, last_seq=record.last_seq + len(ends))
