"""Where the events of a turn go."""

from __future__ import annotations

from typing import Protocol

import attrs

from term2_acp.agent.cancel import CancelToken
from term2_acp.eventlog import Event


class TurnLog(Protocol):
    """Where a turn's events go: the log first, then the client."""

    cancel: CancelToken

    def emit(self, *events: Event) -> None:
        """
        Append and show events, in order.

        Waits while the client does not read, until the turn is cancelled.

        Raises:
            StoreError: they could not be stored and were not shown.
        """
        ...


@attrs.define
class NestedLog:
    """The log of a turn for calls that may have to end before the turn does."""

    cancel: CancelToken
    _turn: TurnLog

    def emit(self, *events: Event) -> None:
        """Append and show events; see `TurnLog`."""
        self._turn.emit(*events)
