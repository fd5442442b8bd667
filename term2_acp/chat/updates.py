"""The session updates of protocol version 2 as values, as far as they are shown."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import attrs

from term2_acp.chat.fields import Fields, wrong


class Speaker(StrEnum):
    """Who says something."""

    USER = "user"
    AGENT = "agent"
    THOUGHT = "thought"


@attrs.frozen
class Said:
    """A message, whole or a piece that is added to it."""

    speaker: Speaker
    message_id: str
    text: str
    is_chunk: bool


@attrs.frozen
class TextBlock:
    """Tool content: text."""

    text: str


@attrs.frozen
class PatchBlock:
    """Tool content: changed files as a git patch, or their paths alone."""

    paths: tuple[str, ...]
    patch: str


@attrs.frozen
class TerminalBlock:
    """Tool content: the place of a terminal."""

    terminal_id: str


Block = TextBlock | PatchBlock | TerminalBlock


@attrs.frozen
class CallUpdated:
    """A tool call, whole or what has changed; None leaves a member as it was."""

    call_id: str
    title: str | None
    kind: str | None
    status: str | None
    content: tuple[Block, ...] | None
    raw_input: Any


@attrs.frozen
class TerminalUpdated:
    """A terminal, whole or what has changed; `output` replaces what it had."""

    terminal_id: str
    command: str | None
    output: bytes | None
    has_exited: bool
    exit_code: int | None
    signal: str | None


@attrs.frozen
class TerminalPrinted:
    """Bytes that a terminal's command wrote."""

    terminal_id: str
    data: bytes


@attrs.frozen
class PlanEntry:
    """One step of a plan."""

    content: str
    status: str


@attrs.frozen
class PlanUpdated:
    """The plan, whole."""

    entries: tuple[PlanEntry, ...]


@attrs.frozen
class UsageUpdated:
    """Tokens in the context, and how many it holds."""

    used: int
    size: int


@attrs.frozen
class TitleUpdated:
    """The session's title."""

    title: str


@attrs.frozen
class StateUpdated:
    """Running, requires_action, or idle with the reason of the turn's end."""

    state: str
    stop_reason: str | None


Update = (
    Said
    | CallUpdated
    | TerminalUpdated
    | TerminalPrinted
    | PlanUpdated
    | UsageUpdated
    | TitleUpdated
    | StateUpdated
)


def parse_update(fields: Fields) -> Update | None:
    """
    The value of an update, or None for a kind that is not shown.

    Raises:
        ServerFaultError: a member is not what the protocol says.
    """
    parse = _PARSERS.get(fields.text("sessionUpdate"))
    return None if parse is None else parse(fields)


def parse_call(fields: Fields) -> CallUpdated:
    """A tool call, in an update or as what a permission is asked for."""
    blocks = fields.optional_children("content")
    content = None
    if blocks is not None:
        parsed = [_block(block) for block in blocks]
        content = tuple(block for block in parsed if block is not None)
    return CallUpdated(
        fields.text("toolCallId"),
        title=fields.optional_text("title"),
        kind=fields.optional_text("kind"),
        status=fields.optional_text("status"),
        content=content,
        raw_input=fields.raw("rawInput"),
    )


def _chunk(speaker: Speaker) -> Callable[[Fields], Update]:
    def parse(fields: Fields) -> Update:
        text = _block_text(fields.child("content"))
        return Said(speaker, fields.text("messageId"), text, is_chunk=True)

    return parse


def _whole(speaker: Speaker) -> Callable[[Fields], Update]:
    def parse(fields: Fields) -> Update:
        text = "\n".join(_block_text(block) for block in fields.children("content"))
        return Said(speaker, fields.text("messageId"), text, is_chunk=False)

    return parse


def _block_text(block: Fields) -> str:
    """What a content block says; a block that is no text is named."""
    kind = block.text("type")
    if kind == "text":
        return block.text("text")
    if kind == "resource_link":
        return f"[{block.text('uri')}]"
    if kind == "resource":
        return f"[{block.child('resource').text('uri')}]"
    return f"[{kind}]"


def _block(fields: Fields) -> Block | None:
    kind = fields.text("type")
    if kind == "content":
        return TextBlock(_block_text(fields.child("content")))
    if kind == "diff":
        patch = fields.optional_child("patch")
        return PatchBlock(
            tuple(change.text("path") for change in fields.children("changes")),
            patch.text("text") if patch is not None else "",
        )
    return TerminalBlock(fields.text("terminalId")) if kind == "terminal" else None


def _terminal(fields: Fields) -> Update:
    output = fields.optional_child("output")
    exited = fields.optional_child("exitStatus")
    return TerminalUpdated(
        fields.text("terminalId"),
        command=fields.optional_text("command"),
        output=_bytes(output) if output is not None else None,
        has_exited=exited is not None,
        exit_code=exited.optional_number("exitCode") if exited is not None else None,
        signal=exited.optional_text("signal") if exited is not None else None,
    )


def _bytes(fields: Fields) -> bytes:
    try:
        return base64.b64decode(fields.text("data"), validate=True)
    except binascii.Error:
        raise wrong("the data of a terminal", "base64") from None


def _plan(fields: Fields) -> Update | None:
    plan = fields.child("plan")
    if plan.text("type") != "items":
        return None
    entries = plan.children("entries")
    return PlanUpdated(
        tuple(PlanEntry(entry.text("content"), entry.text("status")) for entry in entries)
    )


def _title(fields: Fields) -> Update | None:
    title = fields.optional_text("title")
    return TitleUpdated(title) if title is not None else None


_PARSERS: Mapping[str, Callable[[Fields], Update | None]] = {
    "user_message": _whole(Speaker.USER),
    "agent_message": _whole(Speaker.AGENT),
    "agent_thought": _whole(Speaker.THOUGHT),
    "user_message_chunk": _chunk(Speaker.USER),
    "agent_message_chunk": _chunk(Speaker.AGENT),
    "agent_thought_chunk": _chunk(Speaker.THOUGHT),
    "tool_call_update": parse_call,
    "terminal_update": _terminal,
    "terminal_output_chunk": lambda fields: TerminalPrinted(
        fields.text("terminalId"), _bytes(fields)
    ),
    "plan_update": _plan,
    "usage_update": lambda fields: UsageUpdated(fields.number("used"), fields.number("size")),
    "session_info_update": _title,
    "state_update": lambda fields: StateUpdated(
        fields.text("state"), fields.optional_text("stopReason")
    ),
}
