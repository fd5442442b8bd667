"""Random logs of a session as the loop writes them, for the projections that are made of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hypothesis import strategies as st

from term2_acp.agent.ports import (
    PlanEntry,
    PlanPriority,
    PlanStatus,
    TerminalContent,
    TextContent,
    ToolKind,
)
from term2_acp.eventlog import (
    AgentText,
    AgentThought,
    Compacted,
    Event,
    Notice,
    PermissionAnswered,
    PermissionAsked,
    PlannedCall,
    PlanUpdated,
    SessionCreated,
    SessionState,
    StateChanged,
    StepEnded,
    StopReason,
    TerminalExited,
    TerminalOpened,
    TerminalOutput,
    TextBlock,
    TitleSet,
    ToolCallCreated,
    ToolCallEnded,
    ToolCallShowed,
    ToolCallStarted,
    ToolStatus,
    TurnEnded,
    TurnStarted,
    UsageReported,
    UserMessage,
)

_WORDS = st.sampled_from(["one ", "two\n", "drei ", "\u2028", "🙂", "x" * 300])
_REASONS = [reason for reason in StopReason if reason is not StopReason.INTERRUPTED]


class _Writer:
    """Writes one history; every identifier in it is used once."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._numbers = itertools.count(1)

    def events(self, turns: int) -> Iterator[Event]:
        yield SessionCreated("/project")
        for number in range(turns):
            turn_id = self._id("turn")
            yield TurnStarted(turn_id)
            yield UserMessage(self._id("msg"), (TextBlock(f"prompt {turn_id}"),))
            if number == 0:
                yield TitleSet("a title")
            for _ in range(self._draw(st.integers(0, 3))):
                yield from self._step()
            if self._draw(st.booleans()):
                yield Notice(self._id("msg"), "something went wrong")
            yield TurnEnded(turn_id, self._draw(st.sampled_from(_REASONS)))

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._numbers)}"

    def _step(self) -> Iterator[Event]:
        if self._draw(st.integers(0, 5)) == 5:
            yield Compacted(f"summary {self._id('part')}")
        for kind in self._draw(st.lists(st.sampled_from([AgentText, AgentThought]), max_size=3)):
            message_id = self._id("msg")
            for text in self._draw(st.lists(_WORDS, min_size=1, max_size=4)):
                yield kind(message_id, text)
        calls = tuple(
            PlannedCall(self._id("call"), "tool", "{}")
            for _ in range(self._draw(st.integers(0, 3)))
        )
        yield StepEnded("tool_calls" if calls else "stop", calls, "scripted", {"a": [1, None]})
        if self._draw(st.booleans()):
            yield UsageReported(1000, 128_000)
        if self._draw(st.booleans()):
            # Side by side: each call's own events stay in order.
            yield from self._interleaved([list(self._call(call)) for call in calls])
        else:
            for call in calls:
                yield from self._call(call)

    def _interleaved(self, queues: list[list[Event]]) -> Iterator[Event]:
        while queues := [queue for queue in queues if queue]:
            yield queues[self._draw(st.integers(0, len(queues) - 1))].pop(0)

    def _call(self, call: PlannedCall) -> Iterator[Event]:
        call_id = call.tool_call_id
        yield ToolCallCreated(call_id, call.name, "Title", ToolKind.EXECUTE, {"path": "x"})
        if self._draw(st.booleans()):
            yield PermissionAsked(call_id, ("approve", "reject"))
            yield StateChanged(SessionState.REQUIRES_ACTION)
            yield PermissionAnswered(call_id, "approve")
            yield StateChanged(SessionState.RUNNING)
        yield ToolCallStarted(call_id)
        if self._draw(st.integers(0, 5)) == 5:
            yield PlanUpdated((PlanEntry(call_id, PlanPriority.HIGH, PlanStatus.PENDING),))
        content: tuple[TextContent | TerminalContent, ...] = (TextContent("done"),)
        if self._draw(st.booleans()):
            terminal_id = self._id("term")
            content = (TerminalContent(terminal_id),)
            yield TerminalOpened(terminal_id, "ls", "/project")
            yield ToolCallShowed(call_id, content)
            for data in self._draw(st.lists(st.binary(max_size=20), max_size=3)):
                yield TerminalOutput(terminal_id, data)
            yield TerminalExited(terminal_id, 0)
        status = self._draw(st.sampled_from(list(ToolStatus)))
        yield ToolCallEnded(call_id, status, f"result of {call_id}", content)


@st.composite
def histories(draw: st.DrawFn, *, max_turns: int = 3) -> list[Event]:
    """A log in which every turn has ended."""
    return list(_Writer(draw).events(draw(st.integers(0, max_turns))))


@st.composite
def cut_histories(draw: st.DrawFn, *, max_turns: int = 3) -> list[Event]:
    """A log as a process leaves it that dies at any moment."""
    events = draw(histories(max_turns=max_turns))
    return events[: draw(st.integers(1, len(events)))]
