"""The projection of events onto version 1 (spec section 6), live and replayed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from term2_acp.agent import ports
from term2_acp.eventlog import (
    AgentText,
    AgentThought,
    Event,
    Notice,
    PlanUpdated,
    SessionState,
    TerminalExited,
    TerminalOutput,
    TitleSet,
    ToolCallCreated,
    ToolCallEnded,
    ToolCallShowed,
    ToolCallStarted,
    ToolStatus,
    UsageReported,
    UserMessage,
)
from term2_acp.handlers.blocks import to_blocks, to_locations, to_plan_entries, to_raw_output
from term2_acp.handlers.notifications import Notifications
from term2_acp.replay import AgentMessageItem, Item, TerminalItem, ToolCallItem
from term2_acp.wire import shared, v1

if TYPE_CHECKING:
    from cattrs import Converter

    from term2_acp.rpc.writer import Writer

OUTPUT_BYTES = 64 * 1024
"""So much of a command's output is shown as the call's text: head and tail."""
_HALF = OUTPUT_BYTES // 2


@attrs.define
class _Output:
    """
    What a running command wrote; shown again each time that it doubled.

    However the bytes come, in pieces or as a replay's whole, the text is the same.
    """

    tool_call_id: str
    head: bytearray = attrs.Factory(bytearray)
    tail: bytearray = attrs.Factory(bytearray)
    size: int = 0
    shown_at: int = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        room = _HALF - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        # Not at each piece: what is cut off moves all that is kept.
        if len(self.tail) > 2 * _HALF:
            del self.tail[:-_HALF]

    @property
    def is_due(self) -> bool:
        return self.size >= 2 * self.shown_at

    def text(self) -> str:
        self.shown_at = self.size
        tail = self.tail[-_HALF:]
        omitted = self.size - len(self.head) - len(tail)
        if not omitted:
            return (self.head + tail).decode("utf-8", "replace")
        first, last = (part.decode("utf-8", "replace") for part in (self.head, tail))
        return f"{first}\n[... {omitted} bytes omitted ...]\n{last}"


class UpdatesV1(Notifications):
    """Shows events as `session/update` notifications; a `sessions.Sink`."""

    def __init__(self, writer: Writer, converter: Converter) -> None:
        super().__init__(writer, converter)
        self._lock = threading.Lock()
        # The output of running commands, which version 1 shows as text of the call.
        self._outputs: dict[tuple[str, str], _Output] = {}

    def deliver(self, session_id: str, event: Event) -> None:
        """Queue what version 1 shows of an event; never waits."""
        match event:
            case AgentText(message_id, text) | Notice(message_id, text):
                self._send_text(session_id, v1.AgentMessageChunk, message_id, text)
            case AgentThought(message_id, text):
                self._send_text(session_id, v1.AgentThoughtChunk, message_id, text)
            case _:
                update = self._project(session_id, event)
                if update is not None:
                    self._send(session_id, update)

    def replay(self, session_id: str, history: Iterable[Item]) -> Iterator[None]:
        """Queue the updates of the history, one at each step."""
        for update in _replayed(history):
            self._send(session_id, update)
            yield

    def show_state(self, session_id: str, state: SessionState) -> None:
        """Version 1 has no states: the prompt is answered at the turn's end."""

    def _project(self, session_id: str, event: Event) -> Any:
        match event:
            case ToolCallCreated():
                return _call(event, "pending", (), event.locations)
            case ToolCallStarted(tool_call_id):
                return v1.ToolCallUpdate(tool_call_id, status="in_progress")
            case ToolCallShowed(tool_call_id, content):
                return self._showed(session_id, tool_call_id, content)
            case TerminalOutput(terminal_id, data):
                return self._wrote(session_id, terminal_id, data)
            case TerminalExited():
                return None
            case ToolCallEnded():
                return v1.ToolCallUpdate(
                    event.tool_call_id,
                    status=_status(event.status),
                    content=self._final_content(session_id, event.content),
                    locations=to_locations(event.locations) if event.locations else None,
                    raw_output=to_raw_output(event),
                )
            case PlanUpdated(entries):
                return _plan(entries)
            case UsageReported(used, size):
                return shared.UsageUpdate(used, size)
            case TitleSet(title):
                return shared.SessionInfoUpdate(title)
            case _:
                return None

    def _showed(
        self, session_id: str, tool_call_id: str, content: Sequence[ports.ToolContent]
    ) -> Any:
        terminals = [item for item in content if isinstance(item, ports.TerminalContent)]
        with self._lock:
            for item in terminals:
                self._outputs[session_id, item.terminal_id] = _Output(tool_call_id)
        shown = _content(content, {})
        return v1.ToolCallUpdate(tool_call_id, content=shown) if shown else None

    def _wrote(self, session_id: str, terminal_id: str, data: bytes) -> Any:
        with self._lock:
            output = self._outputs.get((session_id, terminal_id))
        if output is None:
            return None
        output.add(data)
        if not output.is_due:
            return None
        return v1.ToolCallUpdate(output.tool_call_id, content=(_text(output.text()),))

    def _final_content(
        self, session_id: str, content: Sequence[ports.ToolContent]
    ) -> tuple[v1.ToolCallContent, ...]:
        texts: dict[str, str] = {}
        with self._lock:
            for item in content:
                if isinstance(item, ports.TerminalContent):
                    output = self._outputs.pop((session_id, item.terminal_id), None)
                    texts[item.terminal_id] = output.text() if output else ""
        return _content(content, texts)

    def _send_text(
        self,
        session_id: str,
        kind: Callable[[shared.TextContent, str], Any],
        message_id: str,
        text: str,
    ) -> None:
        self._send_chunk(
            session_id,
            (kind, message_id),
            text,
            lambda joined: kind(shared.TextContent(joined), message_id),
        )


def call_fields(question: Any) -> v1.ToolCallFields:
    """A permission question's subject: the call that it is about."""
    return v1.ToolCallFields(
        question.tool_call_id,
        name=question.name,
        title=question.title,
        kind=question.kind,
        status="pending",
        locations=to_locations(question.locations),
        raw_input=question.raw_input,
    )


def _replayed(history: Iterable[Item]) -> Iterator[Any]:
    waiting: ToolCallItem | None = None
    for item in history:
        if waiting is not None:
            # A call's terminal comes right behind it.
            terminal = item if isinstance(item, TerminalItem) else None
            yield _replayed_call(waiting, terminal)
            waiting = None
        match item:
            case UserMessage(message_id, content):
                for block in to_blocks(content):
                    yield v1.UserMessageChunk(block, message_id)
            case AgentMessageItem(message_id, texts, is_thought):
                kind = v1.AgentThoughtChunk if is_thought else v1.AgentMessageChunk
                yield kind(shared.TextContent("".join(texts)), message_id)
            case PlanUpdated(entries):
                yield _plan(entries)
            case ToolCallItem():
                waiting = item
    if waiting is not None:
        yield _replayed_call(waiting, None)


def _replayed_call(item: ToolCallItem, terminal: TerminalItem | None) -> v1.ToolCall:
    status = _status(item.ended.status) if item.ended else item.running
    texts = {}
    if terminal is not None:
        output = _Output(item.created.tool_call_id)
        output.add(b"".join(terminal.output))
        texts[terminal.opened.terminal_id] = output.text()
    return _call(item.created, status, _content(item.content, texts), item.locations, item.ended)


def _call(
    created: ToolCallCreated,
    status: str,
    content: tuple[v1.ToolCallContent, ...],
    locations: Sequence[ports.Location],
    ended: ToolCallEnded | None = None,
) -> v1.ToolCall:
    return v1.ToolCall(
        created.tool_call_id,
        created.title,
        created.kind,
        status,
        name=created.name,
        content=content or None,
        locations=to_locations(locations),
        raw_input=created.raw_input,
        raw_output=to_raw_output(ended),
    )


def _status(status: ToolStatus) -> str:
    # Version 1 has no word for a cancelled call.
    return str(ToolStatus.FAILED if status is ToolStatus.CANCELLED else status)


def _content(
    content: Sequence[ports.ToolContent], texts: dict[str, str]
) -> tuple[v1.ToolCallContent, ...]:
    shown: list[v1.ToolCallContent] = []
    for item in content:
        match item:
            case ports.TextContent(text):
                shown.append(_text(text))
            case ports.TerminalContent(terminal_id):
                if texts.get(terminal_id):
                    shown.append(_text(texts[terminal_id]))
            case ports.DiffContent(changes):
                shown += [
                    v1.Diff(change.path, change.old, change.new or "")
                    for change in changes
                    if not change.left_out
                ]
    return tuple(shown)


def _text(text: str) -> shared.Content:
    return shared.Content(shared.TextContent(text))


def _plan(entries: Sequence[ports.PlanEntry]) -> v1.Plan:
    return v1.Plan(to_plan_entries(entries))
