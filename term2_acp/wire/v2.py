"""
Protocol version 2 (draft) as the reference schema defines it, narrowed to what is used.

Only shapes; what they mean is in `handlers.v2`. Classes with a `tag` carry it as
their discriminator.
"""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
from cattrs import Converter

from term2_acp.wire.base import WrongTypeError
from term2_acp.wire.base import make_converter as make_base_converter
from term2_acp.wire.shared import (
    Content,
    EmbeddedResource,
    PermissionOption,
    PlanEntry,
    ResourceLink,
    TextContent,
    ToolCallLocation,
)

# --- content


ContentBlock = TextContent | ResourceLink | EmbeddedResource

_BLOCKS: dict[str, type[Any]] = {
    "text": TextContent,
    "resource_link": ResourceLink,
    "resource": EmbeddedResource,
}
_ACCEPTED = "must have the type text, resource_link or resource (with its text)"


# --- params of requests and notifications


@attrs.frozen
class ResumeSessionRequest:
    """Params of session/resume; `replayFrom` is judged raw."""

    session_id: str
    cwd: str


@attrs.frozen
class PromptRequest:
    """Params of session/prompt."""

    session_id: str
    prompt: tuple[ContentBlock, ...]


# --- results


# --- updates


@attrs.frozen
class StateUpdate:
    """state_update: running, requires_action or idle (with a stop reason)."""

    tag: ClassVar = ("sessionUpdate", "state_update")
    state: str
    stop_reason: str | None = None


@attrs.frozen
class UserMessage:
    """A whole user message."""

    tag: ClassVar = ("sessionUpdate", "user_message")
    message_id: str
    content: tuple[ContentBlock, ...]


@attrs.frozen
class AgentMessage:
    """A whole agent message (replay)."""

    tag: ClassVar = ("sessionUpdate", "agent_message")
    message_id: str
    content: tuple[ContentBlock, ...]


@attrs.frozen
class AgentThought:
    """A whole thought (replay)."""

    tag: ClassVar = ("sessionUpdate", "agent_thought")
    message_id: str
    content: tuple[ContentBlock, ...]


@attrs.frozen
class AgentMessageChunk:
    """A piece of an agent message."""

    tag: ClassVar = ("sessionUpdate", "agent_message_chunk")
    message_id: str
    content: TextContent


@attrs.frozen
class AgentThoughtChunk:
    """A piece of a thought."""

    tag: ClassVar = ("sessionUpdate", "agent_thought_chunk")
    message_id: str
    content: TextContent


@attrs.frozen
class DiffChange:
    """One changed file of a diff."""

    operation: str
    path: str
    file_type: str | None = None


@attrs.frozen
class DiffPatch:
    """The patch text of a diff."""

    format: str
    text: str


@attrs.frozen
class Diff:
    """Tool content: changed files."""

    tag: ClassVar = ("type", "diff")
    changes: tuple[DiffChange, ...]
    patch: DiffPatch | None = None


@attrs.frozen
class Terminal:
    """Tool content: a terminal that is updated separately."""

    tag: ClassVar = ("type", "terminal")
    terminal_id: str


ToolCallContent = Content | Diff | Terminal


@attrs.frozen
class ToolCallUpdate:
    """A tool call, whole or in part; it has no tag when it is a permission's subject."""

    tool_call_id: str
    name: str | None = None
    title: str | None = None
    kind: str | None = None
    status: str | None = None
    content: tuple[ToolCallContent, ...] | None = None
    locations: tuple[ToolCallLocation, ...] | None = None
    raw_input: Any = None
    raw_output: Any = None


@attrs.frozen
class ToolCallSessionUpdate(ToolCallUpdate):
    """tool_call_update: creates the call when its id is new."""

    tag: ClassVar = ("sessionUpdate", "tool_call_update")


@attrs.frozen
class TerminalOutput:
    """A snapshot of a terminal's bytes, base64."""

    data: str


@attrs.frozen
class TerminalExitStatus:
    """Marks a terminal as exited."""

    exit_code: int | None = None
    signal: str | None = None


@attrs.frozen
class TerminalUpdate:
    """A terminal, whole or in part."""

    tag: ClassVar = ("sessionUpdate", "terminal_update")
    terminal_id: str
    command: str | None = None
    cwd: str | None = None
    output: TerminalOutput | None = None
    exit_status: TerminalExitStatus | None = None


@attrs.frozen
class TerminalOutputChunk:
    """Bytes appended to a terminal, base64."""

    tag: ClassVar = ("sessionUpdate", "terminal_output_chunk")
    terminal_id: str
    data: str


@attrs.frozen
class PlanItems:
    """A plan as a list of entries."""

    tag: ClassVar = ("type", "items")
    plan_id: str
    entries: tuple[PlanEntry, ...]


@attrs.frozen
class PlanUpdate:
    """plan_update: replaces the plan of that id."""

    tag: ClassVar = ("sessionUpdate", "plan_update")
    plan: PlanItems


# --- session/request_permission


@attrs.frozen
class ToolCallPermissionSubject:
    """What the question is about."""

    tag: ClassVar = ("type", "tool_call")
    tool_call: ToolCallUpdate


@attrs.frozen
class RequestPermissionRequest:
    """Params of session/request_permission."""

    session_id: str
    title: str
    options: tuple[PermissionOption, ...]
    subject: ToolCallPermissionSubject | None = None
    description: str | None = None


def make_converter() -> Converter:
    """The converter of this version."""
    converter = make_base_converter()
    configure_converter(converter)
    return converter


def configure_converter(converter: Converter) -> None:
    """Teach a converter the unions of this version."""

    def structure_block(value: Any, _type: Any) -> ContentBlock:
        kind = value.get("type") if isinstance(value, dict) else None
        cls = _BLOCKS.get(kind) if isinstance(kind, str) else None
        if cls is None:
            raise WrongTypeError(_ACCEPTED)
        if cls is EmbeddedResource:
            resource = value.get("resource")
            if isinstance(resource, dict) and "blob" in resource and "text" not in resource:
                raise WrongTypeError(f"{_ACCEPTED}; blobs are not accepted")
        block: ContentBlock = converter.structure(value, cls)
        return block

    converter.register_structure_hook(ContentBlock, structure_block)
    for union in (ContentBlock, ToolCallContent):
        converter.register_unstructure_hook(union, converter.unstructure)
