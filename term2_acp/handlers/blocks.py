"""Blocks, places and plan entries between the wire and the core, the same in both versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from term2_acp.agent.ports import Location, PlanEntry, TextContent
from term2_acp.eventlog import LinkBlock, PromptBlock, ResourceBlock, TextBlock, ToolCallEnded
from term2_acp.strictjson import shortened
from term2_acp.wire import shared, v1, v2

WireBlock = v1.ContentBlock | v2.ContentBlock
RAW_OUTPUT_CHARACTERS = 4096
"""More of what the model was told is shown by its two ends."""

SharedBlock = shared.TextContent | shared.ResourceLink | shared.EmbeddedResource


def from_blocks(content: Sequence[WireBlock]) -> tuple[PromptBlock, ...]:
    """The user's content blocks as the core has them."""
    return tuple(_from_block(block) for block in content)


def to_blocks(content: Sequence[PromptBlock]) -> tuple[SharedBlock, ...]:
    """The user's content blocks on the wire."""
    return tuple(_to_block(block) for block in content)


def to_locations(places: Sequence[Location]) -> tuple[shared.ToolCallLocation, ...]:
    """The places of a call on the wire."""
    return tuple(shared.ToolCallLocation(place.path, place.line) for place in places)


def to_plan_entries(steps: Sequence[PlanEntry]) -> tuple[shared.PlanEntry, ...]:
    """The entries of a plan on the wire."""
    return tuple(shared.PlanEntry(step.content, step.priority, step.status) for step in steps)


def to_raw_output(ended: ToolCallEnded | None) -> Any:
    """What the model was told of a call's end, where the content does not say it already."""
    if ended is None or TextContent(ended.result) in ended.content:
        return None
    return {"text": shortened(ended.result, RAW_OUTPUT_CHARACTERS)}


def _from_block(block: WireBlock) -> PromptBlock:
    match block:
        case shared.TextContent(text):
            return TextBlock(text)
        case shared.ResourceLink():
            return LinkBlock(
                block.name, block.uri, block.title, block.description, block.mime_type, block.size
            )
        case shared.EmbeddedResource(resource):
            return ResourceBlock(resource.uri, resource.text, resource.mime_type)
        case v1.EmbeddedBlob(resource):
            # Bytes tell a text model nothing: it gets a note of what they are.
            size = len(resource.blob.rstrip("=")) * 3 // 4
            name = resource.uri.rsplit("/", 1)[-1] or resource.uri
            return LinkBlock(name, resource.uri, mime_type=resource.mime_type, size=size)


def _to_block(block: PromptBlock) -> SharedBlock:
    match block:
        case TextBlock(text):
            return shared.TextContent(text)
        case LinkBlock():
            return shared.ResourceLink(
                block.name, block.uri, block.title, block.description, block.mime_type, block.size
            )
        case ResourceBlock(uri, text, mime_type):
            return shared.EmbeddedResource(shared.TextResourceContents(uri, text, mime_type))
