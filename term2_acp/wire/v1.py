"""
Protocol version 1 as the reference schema defines it, narrowed to what is used.

Only shapes; what they mean is in `handlers.v1`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
from cattrs import Converter

from term2_acp.wire.base import WrongTypeError, lenient
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


@attrs.frozen
class BlobResourceContents:
    """The bytes of an embedded resource, base64."""

    uri: str
    blob: str
    mime_type: str | None = lenient()


@attrs.frozen
class EmbeddedBlob:
    """A resource that came with its bytes."""

    tag: ClassVar = ("type", "resource")
    resource: BlobResourceContents


ContentBlock = TextContent | ResourceLink | EmbeddedResource | EmbeddedBlob
_ACCEPTED = "must have the type text, resource_link or resource"


@attrs.frozen
class LoadSessionRequest:
    """Params of session/load and session/resume; `mcpServers` is judged raw."""

    session_id: str
    cwd: str


@attrs.frozen
class PromptRequest:
    """Params of session/prompt."""

    session_id: str
    prompt: tuple[ContentBlock, ...]


@attrs.frozen
class PromptResponse:
    """Result of session/prompt, at the end of the turn."""

    stop_reason: str


@attrs.frozen
class UserMessageChunk:
    """A block of a user message (replay)."""

    tag: ClassVar = ("sessionUpdate", "user_message_chunk")
    content: ContentBlock
    message_id: str | None = None


@attrs.frozen
class AgentMessageChunk:
    """A piece of an agent message."""

    tag: ClassVar = ("sessionUpdate", "agent_message_chunk")
    content: TextContent
    message_id: str | None = None


@attrs.frozen
class AgentThoughtChunk:
    """A piece of a thought."""

    tag: ClassVar = ("sessionUpdate", "agent_thought_chunk")
    content: TextContent
    message_id: str | None = None


@attrs.frozen
class Diff:
    """Tool content: one changed file; `oldText` is null for a new one, never left out."""

    tag: ClassVar = ("type", "diff")
    path: str
    old_text: str | None
    new_text: str


ToolCallContent = Content | Diff


@attrs.frozen
class ToolCall:
    """tool_call: creates a call."""

    tag: ClassVar = ("sessionUpdate", "tool_call")
    tool_call_id: str
    title: str
    kind: str
    status: str
    name: str | None = None
    content: tuple[ToolCallContent, ...] | None = None
    locations: tuple[ToolCallLocation, ...] | None = None
    raw_input: Any = None
    raw_output: Any = None


@attrs.frozen
class ToolCallFields:
    """What is known of a call, as the subject of a permission request."""

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
class ToolCallUpdate(ToolCallFields):
    """tool_call_update: changes a call."""

    tag: ClassVar = ("sessionUpdate", "tool_call_update")


@attrs.frozen
class Plan:
    """plan: replaces the plan."""

    tag: ClassVar = ("sessionUpdate", "plan")
    entries: tuple[PlanEntry, ...]


@attrs.frozen
class RequestPermissionRequest:
    """Params of session/request_permission."""

    session_id: str
    tool_call: ToolCallFields
    options: tuple[PermissionOption, ...]


def make_converter() -> Converter:
    """The converter of this version."""
    converter = make_base_converter()
    configure_converter(converter)
    return converter


def configure_converter(converter: Converter) -> None:
    """Teach a converter the unions of this version."""

    def structure_block(value: Any, _type: Any) -> ContentBlock:
        block: ContentBlock = converter.structure(value, _class_of(value))
        return block

    converter.register_structure_hook(ContentBlock, structure_block)
    for union in (ContentBlock, ToolCallContent):
        converter.register_unstructure_hook(union, converter.unstructure)


def _class_of(value: Any) -> type[Any]:
    match value:
        case {"type": "text"}:
            return TextContent
        case {"type": "resource_link"}:
            return ResourceLink
        case {"type": "resource", "resource": {"text": str()}}:
            # Also with a blob beside it: the text is what a model can read.
            return EmbeddedResource
        case {"type": "resource", "resource": {"blob": _}}:
            return EmbeddedBlob
        case {"type": "resource"}:
            return EmbeddedResource
        case _:
            raise WrongTypeError(_ACCEPTED)
