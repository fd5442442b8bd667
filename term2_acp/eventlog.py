"""
The events of a session: the only source of truth (spec section 10).

Everything else (what the client is shown, the model's context, replay, title, list)
is a projection of these.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import attrs

from term2_acp.agent.ports import Location, PlanEntry, ToolContent, ToolKind


@attrs.frozen
class TextBlock:
    """Text that the user wrote."""

    text: str


@attrs.frozen
class LinkBlock:
    """A resource that the user pointed to (`resource_link`)."""

    name: str
    uri: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None


@attrs.frozen
class ResourceBlock:
    """A text resource that the user attached (`resource`)."""

    uri: str
    text: str
    mime_type: str | None = None


PromptBlock = TextBlock | LinkBlock | ResourceBlock


class StopReason(StrEnum):
    """Why a turn ended; ERROR and INTERRUPTED have no ACP word of their own."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"
    ERROR = "error"
    INTERRUPTED = "interrupted"


class ToolStatus(StrEnum):
    """How a tool call ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class SessionState(StrEnum):
    """What the foreground work of a turn is doing."""

    RUNNING = "running"
    REQUIRES_ACTION = "requires_action"


@attrs.frozen
class PlannedCall:
    """A tool call as the model asked for it, with the id that it has from then on."""

    tool_call_id: str
    name: str
    arguments: str


@attrs.frozen
class SessionCreated:
    """The first event of a session."""

    cwd: str


@attrs.frozen
class TurnStarted:
    """A prompt was accepted."""

    turn_id: str


@attrs.frozen
class UserMessage:
    """What the user said."""

    message_id: str
    content: tuple[PromptBlock, ...]


@attrs.frozen
class AgentText:
    """A piece of an agent message."""

    message_id: str
    text: str


@attrs.frozen
class AgentThought:
    """A piece of the model's shown reasoning."""

    message_id: str
    text: str


@attrs.frozen
class Notice:
    """A message of term2 itself; shown like an agent message, not told to the model."""

    message_id: str
    text: str


@attrs.frozen
class StepEnded:
    """A model step came to its own end."""

    finish: str
    calls: tuple[PlannedCall, ...] = ()
    provider: str = ""
    state: Any = None


@attrs.frozen
class ToolCallCreated:
    """A call is shown, before anything of it happened."""

    tool_call_id: str
    name: str
    title: str
    kind: ToolKind
    raw_input: Any
    locations: tuple[Location, ...] = ()


@attrs.frozen
class ToolCallStarted:
    """A call is allowed and runs."""

    tool_call_id: str


@attrs.frozen
class ToolCallShowed:
    """A running call shows content (replaces what it showed)."""

    tool_call_id: str
    content: tuple[ToolContent, ...]


@attrs.frozen
class ToolCallEnded:
    """A call is over; `result` is what the model reads."""

    tool_call_id: str
    status: ToolStatus
    result: str
    content: tuple[ToolContent, ...] = ()
    locations: tuple[Location, ...] = ()


@attrs.frozen
class TerminalOpened:
    """A command's terminal."""

    terminal_id: str
    command: str
    cwd: str


@attrs.frozen
class TerminalOutput:
    """Bytes that the command wrote."""

    terminal_id: str
    data: bytes


@attrs.frozen
class TerminalExited:
    """The command ended."""

    terminal_id: str
    exit_code: int | None = None
    signal: str | None = None


@attrs.frozen
class PermissionAsked:
    """The client was asked whether a call may run."""

    tool_call_id: str
    options: tuple[str, ...]


@attrs.frozen
class PermissionAnswered:
    """The choice that counts; None when it was none of those offered."""

    tool_call_id: str
    choice: str | None


@attrs.frozen
class StateChanged:
    """The turn waits for the user, or goes on."""

    state: SessionState


@attrs.frozen
class PlanUpdated:
    """The plan as a whole; replaces the one before."""

    entries: tuple[PlanEntry, ...]


@attrs.frozen
class UsageReported:
    """Tokens in the context, and the window's size."""

    used: int
    size: int


@attrs.frozen
class Compacted:
    """
    The model's context starts anew from this summary, and from the running turn's prompt.

    What it keeps by rule is here apart, so that the next compaction keeps it too.
    """

    summary: str
    requests: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()


@attrs.frozen
class SystemPromptSet:
    """The system prompt from here on; vendors tie their caches and signatures to it."""

    text: str


@attrs.frozen
class TitleSet:
    """The session's title."""

    title: str


@attrs.frozen
class TurnEnded:
    """The turn is over; `detail` is for the log, not for the wire."""

    turn_id: str
    stop_reason: StopReason
    detail: str | None = None


Event = (
    SessionCreated
    | TurnStarted
    | UserMessage
    | AgentText
    | AgentThought
    | Notice
    | StepEnded
    | ToolCallCreated
    | ToolCallStarted
    | ToolCallShowed
    | ToolCallEnded
    | TerminalOpened
    | TerminalOutput
    | TerminalExited
    | PermissionAsked
    | PermissionAnswered
    | StateChanged
    | PlanUpdated
    | UsageReported
    | Compacted
    | SystemPromptSet
    | TitleSet
    | TurnEnded
)
