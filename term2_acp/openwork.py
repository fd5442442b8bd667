"""What a turn has open, and the events that end it (spec section 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from term2_acp.eventlog import (
    Event,
    TerminalExited,
    TerminalOpened,
    ToolCallCreated,
    ToolCallEnded,
    ToolCallShowed,
    ToolStatus,
    TurnEnded,
)

if TYPE_CHECKING:
    from term2_acp.agent.ports import ToolContent


class OpenWork:
    """Folds a turn's events into its open calls and terminals; for one thread at a time."""

    def __init__(self) -> None:
        # What each open call shows, so that its end does not take that away.
        self._calls: dict[str, tuple[ToolContent, ...]] = {}
        self._terminals: dict[str, None] = {}

    def apply(self, event: Event) -> None:
        """Take the next event of the log."""
        if isinstance(event, ToolCallCreated):
            self._calls[event.tool_call_id] = ()
        elif isinstance(event, ToolCallShowed):
            self._calls[event.tool_call_id] = event.content
        elif isinstance(event, ToolCallEnded):
            self._calls.pop(event.tool_call_id, None)
        elif isinstance(event, TerminalOpened):
            self._terminals[event.terminal_id] = None
        elif isinstance(event, TerminalExited):
            self._terminals.pop(event.terminal_id, None)
        elif isinstance(event, TurnEnded):
            self._calls.clear()
            self._terminals.clear()

    def ends(self, status: ToolStatus, result: str) -> list[Event]:
        """The events that end all that is open, terminals first."""
        ends: list[Event] = [TerminalExited(terminal_id) for terminal_id in self._terminals]
        ends += [
            ToolCallEnded(call_id, status, result, shown) for call_id, shown in self._calls.items()
        ]
        return ends
