"""Events as rows of the store, and back (spec section 10)."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Collection
from typing import Any

from cattrs import Converter
from cattrs.strategies import configure_tagged_union

from term2_acp.agent.ports import DiffContent, TerminalContent, TextContent, ToolContent
from term2_acp.errors import StoreError
from term2_acp.eventlog import (
    AgentText,
    AgentThought,
    Compacted,
    Event,
    LinkBlock,
    Notice,
    PermissionAnswered,
    PermissionAsked,
    PlanUpdated,
    PromptBlock,
    ResourceBlock,
    SessionCreated,
    StateChanged,
    StepEnded,
    SystemPromptSet,
    TerminalExited,
    TerminalOpened,
    TerminalOutput,
    TextBlock,
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
from term2_acp.surrogates import replace_in_value

LARGE = 4096
"""Characters from which on an event's data is kept out of its row, compressed."""
# What is large is mostly the output of programs: quick is worth more than small.
_COMPRESSION = 1
# Stable: they are in users' databases.
_TYPES: dict[str, type[Any]] = {
    "session_created": SessionCreated,
    "turn_started": TurnStarted,
    "user_message": UserMessage,
    "agent_text": AgentText,
    "agent_thought": AgentThought,
    "notice": Notice,
    "step_ended": StepEnded,
    "tool_call_created": ToolCallCreated,
    "tool_call_started": ToolCallStarted,
    "tool_call_showed": ToolCallShowed,
    "tool_call_ended": ToolCallEnded,
    "terminal_opened": TerminalOpened,
    "terminal_output": TerminalOutput,
    "terminal_exited": TerminalExited,
    "permission_asked": PermissionAsked,
    "permission_answered": PermissionAnswered,
    "state_changed": StateChanged,
    "plan_updated": PlanUpdated,
    "usage_reported": UsageReported,
    "compacted": Compacted,
    "system_prompt_set": SystemPromptSet,
    "title_set": TitleSet,
    "turn_ended": TurnEnded,
}
_NAMES = {cls: name for name, cls in _TYPES.items()}
_CONTENT_TAGS = {TextContent: "text", DiffContent: "diff", TerminalContent: "terminal"}
_BLOCK_TAGS = {TextBlock: "text", LinkBlock: "resource_link", ResourceBlock: "resource"}


def _make_converter() -> Converter:
    converter = Converter(omit_if_default=True)
    converter.register_unstructure_hook(bytes, _from_bytes)
    converter.register_structure_hook(bytes, lambda value, _type: _to_bytes(value))
    for union, tags in ((ToolContent, _CONTENT_TAGS), (PromptBlock, _BLOCK_TAGS)):
        configure_tagged_union(union, converter, tag_name="type", tag_generator=tags.__getitem__)
    return converter


def _from_bytes(data: bytes) -> dict[str, str] | str:
    """Text stays text, which compresses; other bytes are Base64."""
    try:
        return {"utf8": data.decode()}
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def _to_bytes(value: Any) -> bytes:
    return value["utf8"].encode() if isinstance(value, dict) else base64.b64decode(value)


_converter = _make_converter()
# Made once: `json.dumps` would make one for each event.
_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_structure: Callable[[Any, type[Any]], Any] = _converter.structure


def event_to_row(event: Event) -> tuple[str, str]:
    """
    The event's stable name and its JSON text.

    Raises:
        StoreError: it holds what JSON cannot say (NaN) or what is nested too deeply.
    """
    try:
        data = _converter.unstructure(event)
        text = _dumps(data)
        try:
            text.encode()
        except UnicodeEncodeError:
            text = _dumps(replace_in_value(data))
    except (ValueError, RecursionError) as error:
        message = f"an event of the kind {_NAMES[type(event)]} cannot be stored: it is no JSON"
        raise StoreError(message) from error
    return _NAMES[type(event)], text


class DamagedRowError(Exception):
    """A row is not as it was written; the text says what it has."""


def event_from_row(name: str, text: str | None) -> Event | None:
    """
    The event of a stored row; None for a kind that a newer version wrote.

    Raises:
        DamagedRowError: it is damaged.
    """
    cls = _TYPES.get(name)
    if cls is None:
        return None
    try:
        event: Event = _structure(json.loads(text or ""), cls)
    except Exception as error:
        raise DamagedRowError(f"a damaged event of the kind {name}") from error
    return event


def names_of(kinds: Collection[type[Any]]) -> tuple[str, ...]:
    """The stable names of some kinds of events."""
    return tuple(_NAMES[kind] for kind in kinds)


def pack(text: str) -> tuple[str, bytes | None]:
    """An event's data as its row keeps it, and what is kept apart if it is large."""
    if len(text) < LARGE:
        return text, None
    return "", zlib.compress(text.encode(), _COMPRESSION)


def unpack(data: object) -> str | None:
    """The data of a large event; None if it is damaged."""
    try:
        return zlib.decompress(data).decode() if isinstance(data, bytes) else None
    except (zlib.error, UnicodeDecodeError):
        return None
