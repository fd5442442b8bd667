"""The projection of events onto version 2 (spec section 5), live and replayed."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from term2_acp.agent import ports
from term2_acp.eventlog import (
    AgentText,
    AgentThought,
    Event,
    Notice,
    PlanUpdated,
    SessionState,
    StateChanged,
    StopReason,
    TerminalExited,
    TerminalOpened,
    TerminalOutput,
    TitleSet,
    ToolCallCreated,
    ToolCallEnded,
    ToolCallShowed,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
    UsageReported,
    UserMessage,
)
from term2_acp.handlers.blocks import to_blocks, to_locations, to_plan_entries, to_raw_output
from term2_acp.handlers.notifications import Notifications
from term2_acp.handlers.patches import git_patch
from term2_acp.replay import AgentMessageItem, Item, TerminalItem, ToolCallItem
from term2_acp.wire import shared, v2

if TYPE_CHECKING:
    pass

# A session has one plan.
_PLAN_ID = "plan"
_STOP_REASONS = {StopReason.ERROR: "_term2_error", StopReason.INTERRUPTED: "_term2_error"}


class UpdatesV2(Notifications):
    """Shows events as `session/update` notifications; a `sessions.Sink`."""

    def deliver(self, session_id: str, event: Event) -> None:
        """Queue what version 2 shows of an event; never waits."""
        match event:
            case AgentText(message_id, text) | Notice(message_id, text):
                self._send_text(session_id, v2.AgentMessageChunk, message_id, text)
            case AgentThought(message_id, text):
                self._send_text(session_id, v2.AgentThoughtChunk, message_id, text)
            case TerminalOutput(terminal_id, data):
                self._send_output(session_id, terminal_id, data)
            case _:
                update = project(event)
                if update is not None:
                    # The echo of a prompt is as large as the client made it.
                    echo = isinstance(event, UserMessage)
                    self._send(session_id, update, is_essential=not echo)

    def replay(self, session_id: str, history: Iterable[Item]) -> Iterator[None]:
        """Queue the whole items of the history, one at each step."""
        for item in history:
            self._send(session_id, project_item(item))
            yield

    def show_state(self, session_id: str, state: SessionState) -> None:
        """Queue the state that a turn is in, after a replay."""
        self._send(session_id, v2.StateUpdate(state))

    def _send_text(
        self,
        session_id: str,
        kind: type[v2.AgentMessageChunk | v2.AgentThoughtChunk],
        message_id: str,
        piece: str,
    ) -> None:
        self._send_chunk(
            session_id,
            (kind, message_id),
            piece,
            lambda text: kind(message_id, shared.TextContent(text)),
        )

    def _send_output(self, session_id: str, terminal_id: str, data: bytes) -> None:
        self._send_chunk(
            session_id,
            terminal_id,
            data,
            lambda text: v2.TerminalOutputChunk(terminal_id, text),
        )


def project(event: Event) -> Any:
    """The update for an event that is sent whole, or None if it is not shown."""
    match event:
        case TurnStarted():
            return v2.StateUpdate("running")
        case StateChanged(state):
            return v2.StateUpdate(state)
        case TurnEnded(stop_reason=reason):
            return v2.StateUpdate("idle", _STOP_REASONS.get(reason, str(reason)))
        case UserMessage(message_id, content):
            return v2.UserMessage(message_id, to_blocks(content))
        case ToolCallCreated():
            return _call(event, "pending")
        case ToolCallStarted(tool_call_id):
            return v2.ToolCallSessionUpdate(tool_call_id, status="in_progress")
        case ToolCallShowed(tool_call_id, content):
            return v2.ToolCallSessionUpdate(tool_call_id, content=_content(content))
        case ToolCallEnded():
            return v2.ToolCallSessionUpdate(
                event.tool_call_id,
                status=event.status,
                content=_content(event.content),
                locations=to_locations(event.locations) if event.locations else None,
                raw_output=to_raw_output(event),
            )
        case TerminalOpened(terminal_id, command, cwd):
            return v2.TerminalUpdate(terminal_id, command, cwd)
        case TerminalExited(terminal_id, exit_code, signal):
            status = v2.TerminalExitStatus(exit_code, signal)
            return v2.TerminalUpdate(terminal_id, exit_status=status)
        case PlanUpdated(entries):
            return _plan(entries)
        case UsageReported(used, size):
            return shared.UsageUpdate(used, size)
        case TitleSet(title):
            return shared.SessionInfoUpdate(title)
        case _:
            return None


def project_item(item: Item) -> Any:
    """The update for a whole item of the history."""
    match item:
        case UserMessage(message_id, content):
            return v2.UserMessage(message_id, to_blocks(content))
        case AgentMessageItem(message_id, texts, is_thought):
            kind = v2.AgentThought if is_thought else v2.AgentMessage
            return kind(message_id, (shared.TextContent("".join(texts)),))
        case TerminalItem():
            return _snapshot(item)
        case ToolCallItem():
            return _replayed_call(item)
        case PlanUpdated(entries):
            return _plan(entries)


def call_update(question: Any, content: tuple[v2.ToolCallContent, ...] | None = None) -> Any:
    """A permission question's subject: the call that it is about."""
    return v2.ToolCallUpdate(
        question.tool_call_id,
        name=question.name,
        title=question.title,
        kind=question.kind,
        status="pending",
        content=content,
        locations=to_locations(question.locations),
        raw_input=question.raw_input,
    )


def _call(created: ToolCallCreated, status: str) -> v2.ToolCallSessionUpdate:
    return v2.ToolCallSessionUpdate(
        created.tool_call_id,
        name=created.name,
        title=created.title,
        kind=created.kind,
        status=status,
        locations=to_locations(created.locations),
        raw_input=created.raw_input,
    )


def _replayed_call(item: ToolCallItem) -> v2.ToolCallSessionUpdate:
    status = str(item.ended.status) if item.ended else item.running
    return v2.ToolCallSessionUpdate(
        item.created.tool_call_id,
        name=item.created.name,
        title=item.created.title,
        kind=item.created.kind,
        status=status,
        content=_content(item.content),
        locations=to_locations(item.locations),
        raw_input=item.created.raw_input,
        raw_output=to_raw_output(item.ended),
    )


def _plan(entries: Sequence[ports.PlanEntry]) -> v2.PlanUpdate:
    return v2.PlanUpdate(v2.PlanItems(_PLAN_ID, to_plan_entries(entries)))


def _snapshot(item: TerminalItem) -> v2.TerminalUpdate:
    exited = item.exited
    return v2.TerminalUpdate(
        item.opened.terminal_id,
        item.opened.command,
        item.opened.cwd,
        output=v2.TerminalOutput(_base64(b"".join(item.output))),
        exit_status=v2.TerminalExitStatus(exited.exit_code, exited.signal) if exited else None,
    )


def _content(content: Sequence[ports.ToolContent]) -> tuple[v2.ToolCallContent, ...]:
    return tuple(_content_item(item) for item in content)


def _content_item(item: ports.ToolContent) -> v2.ToolCallContent:
    match item:
        case ports.TextContent(text):
            return shared.Content(shared.TextContent(text))
        case ports.TerminalContent(terminal_id):
            return v2.Terminal(terminal_id)
        case ports.DiffContent(changes):
            shown = [change for change in changes if not change.left_out]
            return v2.Diff(
                tuple(v2.DiffChange(change.kind, change.path, "text") for change in changes),
                v2.DiffPatch("git_patch", git_patch(shown)) if shown else None,
            )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
