"""What is known of a conversation: the view model that updates are applied to."""

from __future__ import annotations

from typing import Any

import attrs

from term2_acp.chat.updates import (
    Block,
    CallUpdated,
    PlanEntry,
    PlanUpdated,
    Said,
    Speaker,
    TerminalBlock,
    TerminalPrinted,
    TerminalUpdated,
    TitleUpdated,
    Update,
    UsageUpdated,
)

MAX_OUTPUT_BYTES = 1 << 20
"""What is kept of a terminal's output: its end."""


@attrs.define
class Message:
    """Something that the user or the agent said, or a thought."""

    speaker: Speaker
    message_id: str
    parts: list[str] = attrs.Factory(list)

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self.parts)


@attrs.define
class Terminal:
    """A command's output and how it ended."""

    terminal_id: str
    command: str = ""
    output: bytearray = attrs.Factory(bytearray)
    dropped: int = 0
    has_exited: bool = False
    exit_code: int | None = None
    signal: str | None = None

    def append(self, data: bytes) -> None:
        """Add output; only the last `MAX_OUTPUT_BYTES` are kept."""
        self.output += data
        excess = len(self.output) - MAX_OUTPUT_BYTES
        if excess > 0:
            del self.output[:excess]
            self.dropped += excess


@attrs.define
class ToolCall:
    """A tool call in its current state."""

    call_id: str
    title: str = ""
    kind: str = "other"
    status: str = "pending"
    content: tuple[Block, ...] = ()
    raw_input: Any = None

    @property
    def is_over(self) -> bool:
        """Whether its status is final."""
        return self.status in ("completed", "failed", "cancelled")


@attrs.define
class Plan:
    """The plan at a point of the conversation."""

    entries: tuple[PlanEntry, ...]


Item = Message | ToolCall | Plan


@attrs.define
class Conversation:
    """
    One session as the client knows it.

    Args:
        session_id: the server's name for it.
        cwd: the folder that it works in.
    """

    session_id: str
    cwd: str
    title: str = ""
    usage: UsageUpdated | None = None
    items: list[Item] = attrs.Factory(list)
    terminals: dict[str, Terminal] = attrs.Factory(dict)
    _calls: dict[str, ToolCall] = attrs.Factory(dict)
    _messages: dict[str, Message] = attrs.Factory(dict)

    def apply(self, update: Update) -> Item | None:
        """Take an update in; the item that it made or changed, if any."""
        match update:
            case Said():
                return self._say(update)
            case CallUpdated():
                return self._update_call(update)
            case TerminalUpdated():
                self._update_terminal(update)
                return self._call_of(update.terminal_id)
            case TerminalPrinted(terminal_id, data):
                self._terminal(terminal_id).append(data)
                return self._call_of(terminal_id)
            case PlanUpdated(entries):
                plan = Plan(entries)
                self.items.append(plan)
                return plan
            case UsageUpdated():
                self.usage = update
            case TitleUpdated(title):
                self.title = title
        return None

    def calls(self) -> list[ToolCall]:
        """The tool calls, oldest first."""
        return list(self._calls.values())

    def open_calls(self) -> list[ToolCall]:
        """The tool calls that are not over."""
        return [call for call in self._calls.values() if not call.is_over]

    def thoughts(self) -> list[Message]:
        """The thoughts, oldest first."""
        return [
            item
            for item in self.items
            if isinstance(item, Message) and item.speaker is Speaker.THOUGHT
        ]

    def terminals_of(self, call: ToolCall) -> list[Terminal]:
        """The terminals that a call shows."""
        return [
            self._terminal(block.terminal_id)
            for block in call.content
            if isinstance(block, TerminalBlock)
        ]

    def _say(self, said: Said) -> Message:
        message = self._messages.get(said.message_id)
        if message is None:
            message = Message(said.speaker, said.message_id)
            self._messages[said.message_id] = message
            self.items.append(message)
        if not said.is_chunk:
            message.parts.clear()
        message.parts.append(said.text)
        return message

    def _update_call(self, update: CallUpdated) -> ToolCall:
        call = self._calls.get(update.call_id)
        if call is None:
            call = ToolCall(update.call_id)
            self._calls[update.call_id] = call
            self.items.append(call)
        for name in ("title", "kind", "status", "content", "raw_input"):
            value = getattr(update, name)
            if value is not None:
                setattr(call, name, value)
        return call

    def _update_terminal(self, update: TerminalUpdated) -> None:
        terminal = self._terminal(update.terminal_id)
        if update.command is not None:
            terminal.command = update.command
        if update.output is not None:
            terminal.output.clear()
            terminal.append(update.output)
        if update.has_exited:
            terminal.has_exited = True
            terminal.exit_code, terminal.signal = update.exit_code, update.signal

    def _terminal(self, terminal_id: str) -> Terminal:
        return self.terminals.setdefault(terminal_id, Terminal(terminal_id))

    def _call_of(self, terminal_id: str) -> ToolCall | None:
        wanted = TerminalBlock(terminal_id)
        return next((call for call in self.open_calls() if wanted in call.content), None)
