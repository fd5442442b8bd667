"""A session's history as whole items, for a replay in either protocol version (spec section 5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import attrs

from term2_acp.agent.ports import Location, ToolContent
from term2_acp.eventlog import (
    AgentText,
    AgentThought,
    Event,
    Notice,
    PlanUpdated,
    TerminalExited,
    TerminalOpened,
    TerminalOutput,
    ToolCallCreated,
    ToolCallEnded,
    ToolCallShowed,
    ToolCallStarted,
    TurnEnded,
    UserMessage,
)

SNAPSHOT_BYTES = 2 * 1024 * 1024
"""At most so much of a terminal is kept for its snapshot: the end."""


@attrs.define
class AgentMessageItem:
    """A whole agent message, or what there is of it."""

    message_id: str
    texts: list[str]
    is_thought: bool


@attrs.define
class ToolCallItem:
    """A tool call in its last known form."""

    created: ToolCallCreated
    started: bool = False
    showed: ToolCallShowed | None = None
    ended: ToolCallEnded | None = None

    @property
    def content(self) -> tuple[ToolContent, ...]:
        """What it shows."""
        last = self.ended or self.showed
        return last.content if last else ()

    @property
    def locations(self) -> tuple[Location, ...]:
        """The places that it touched, or was going to."""
        return (self.ended.locations if self.ended else ()) or self.created.locations

    @property
    def running(self) -> str:
        """The status of a call that has not ended."""
        return "in_progress" if self.started else "pending"


@attrs.define
class TerminalItem:
    """A terminal with its output so far."""

    opened: TerminalOpened
    output: deque[bytes] = attrs.Factory(deque)
    size: int = 0
    exited: TerminalExited | None = None


Item = UserMessage | AgentMessageItem | ToolCallItem | TerminalItem | PlanUpdated


def items(events: Iterable[Event]) -> Iterator[Item]:
    """
    Fold events into items, in the order in which each began.

    An item is given when it and all before it are complete, or when the events
    end, so no more than one model step is held at a time.
    """
    folder = _Folder()
    for event in events:
        folder.take(event)
        yield from folder.complete()
    yield from folder.rest()


class _Folder:
    def __init__(self) -> None:
        self._queue: deque[Item] = deque()
        self._calls: dict[str, ToolCallItem] = {}
        self._terminals: dict[str, TerminalItem] = {}

    def take(self, event: Event) -> None:
        if isinstance(event, UserMessage | PlanUpdated):
            self._queue.append(event)
        elif isinstance(event, AgentText | AgentThought | Notice):
            self._take_text(event)
        elif isinstance(event, ToolCallCreated):
            self._calls[event.tool_call_id] = ToolCallItem(event)
            self._queue.append(self._calls[event.tool_call_id])
        elif isinstance(event, TerminalOpened):
            self._terminals[event.terminal_id] = TerminalItem(event)
            self._queue.append(self._terminals[event.terminal_id])
        elif isinstance(event, TerminalOutput | TerminalExited):
            self._take_terminal(event)
        elif isinstance(event, ToolCallStarted | ToolCallShowed | ToolCallEnded):
            self._take_call(event)
        elif isinstance(event, TurnEnded):
            # Nothing of a turn comes after its end.
            self._calls.clear()
            self._terminals.clear()

    def complete(self) -> Iterator[Item]:
        while self._queue and self._is_complete(self._queue[0]):
            yield self._queue.popleft()

    def rest(self) -> Iterator[Item]:
        while self._queue:
            yield self._queue.popleft()

    def _is_complete(self, item: Item) -> bool:
        if isinstance(item, ToolCallItem):
            return item.created.tool_call_id not in self._calls
        if isinstance(item, TerminalItem):
            return item.opened.terminal_id not in self._terminals
        # A message may grow while it is the last item.
        return isinstance(item, UserMessage | PlanUpdated) or item is not self._queue[-1]

    def _take_text(self, event: AgentText | AgentThought | Notice) -> None:
        last = self._queue[-1] if self._queue else None
        if isinstance(last, AgentMessageItem) and last.message_id == event.message_id:
            last.texts.append(event.text)
        else:
            is_thought = isinstance(event, AgentThought)
            self._queue.append(AgentMessageItem(event.message_id, [event.text], is_thought))

    def _take_call(self, event: ToolCallStarted | ToolCallShowed | ToolCallEnded) -> None:
        item = self._calls.get(event.tool_call_id)
        if item is None:
            return
        if isinstance(event, ToolCallStarted):
            item.started = True
        elif isinstance(event, ToolCallShowed):
            item.showed = event
        else:
            item.ended = event
            del self._calls[event.tool_call_id]

    def _take_terminal(self, event: TerminalOutput | TerminalExited) -> None:
        item = self._terminals.get(event.terminal_id)
        if item is None:
            return
        if isinstance(event, TerminalExited):
            item.exited = event
            del self._terminals[event.terminal_id]
            return
        item.output.append(event.data)
        item.size += len(event.data)
        while item.size - len(item.output[0]) >= SNAPSHOT_BYTES:
            item.size -= len(item.output.popleft())
