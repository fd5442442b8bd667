"""The stream of a Messages request as events of the loop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs
from anthropic.types import (
    ContentBlock,
    MessageDeltaUsage,
    RawContentBlockDelta,
    RawMessageStreamEvent,
)
from anthropic.types import Usage as MessageUsage

from term2_acp.agent.model import (
    Finish,
    FinishReason,
    ModelEvent,
    StateDelta,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    Usage,
)
from term2_acp.providers.history import FRESH
from term2_acp.providers.messages_input import BLOCKS
from term2_acp.surrogates import replace_in_value

_FINISHES = {
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.REFUSAL,
    "pause_turn": FinishReason.PAUSE,
}


@attrs.define
class _Block:
    """A content block in the making."""

    kind: str
    call: int | None = None
    given: Any = None
    text: list[str] = attrs.Factory(list)
    signature: str = ""
    data: str = ""
    closed: bool = False


class MessageEvents:
    """Reads the events of one message."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}
        self._calls = 0
        self._thought = False
        self._tokens: dict[str, int] = {}
        self._stop_reason = ""
        self._stopped = False

    @property
    def finished(self) -> bool:
        """Whether the service said that the message is over."""
        return self._stopped

    @property
    def complete(self) -> bool:
        """Nothing follows the event that ends a message."""
        return self._stopped

    def read(self, event: RawMessageStreamEvent) -> Iterator[ModelEvent]:
        """Take the next event; those of other kinds say nothing to the loop."""
        match event.type:
            case "message_start":
                self._count(event.message.usage)
            case "content_block_start":
                yield from self._open(event.index, event.content_block)
            case "content_block_delta":
                yield from self._delta(event.index, event.delta)
            case "content_block_stop":
                yield from self._close(event.index)
            case "message_delta":
                self._count(event.usage)
                self._stop_reason = event.delta.stop_reason or self._stop_reason
            case "message_stop":
                self._stopped = True

    def end(self, *, fresh: bool) -> Iterator[ModelEvent]:
        """What is known once the message is over; only if it is `finished`."""
        written = self._tokens.get("output_tokens", 0)
        cached = self._tokens.get("cache_read_input_tokens", 0)
        # The vendor counts what it read from the cache and wrote to it apart.
        read = cached + sum(
            self._tokens.get(name, 0) for name in ("input_tokens", "cache_creation_input_tokens")
        )
        if read or written:
            yield Usage(read, written, cached)
        state: dict[str, Any] = {}
        blocks = [_kept(block) for _, block in sorted(self._blocks.items()) if block.closed]
        if any(block["type"] in ("thinking", "redacted_thinking") for block in blocks):
            state[BLOCKS] = blocks
        if fresh:
            state[FRESH] = True
        if state:
            yield StateDelta(replace_in_value(state))
        finish = FinishReason.TOOL_CALLS if self._calls else FinishReason.STOP
        yield Finish(_FINISHES.get(self._stop_reason, finish))

    def _count(self, usage: MessageUsage | MessageDeltaUsage) -> None:
        """Take the totals so far, of which each event has only some."""
        for name in (
            "input_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
            "output_tokens",
        ):
            value = getattr(usage, name, None)
            if isinstance(value, int):
                self._tokens[name] = value

    def _open(self, index: int, content: ContentBlock) -> Iterator[ModelEvent]:
        block = _Block(content.type)
        self._blocks[index] = block
        # Usually empty here, but the format allows a beginning.
        match content.type:
            case "text":
                yield from self._text(block, content.text)
            case "thinking":
                block.signature = content.signature or ""
                yield from self._thinking(block, content.thinking)
            case "redacted_thinking":
                block.data = content.data
            case "tool_use":
                self._thought = False
                block.call = self._calls
                block.given = content.input
                self._calls += 1
                yield ToolCallDelta(block.call, call_id=content.id or "", name=content.name or "")

    def _delta(self, index: int, delta: RawContentBlockDelta) -> Iterator[ModelEvent]:
        block = self._blocks.get(index)
        if block is None:
            return
        match delta.type:
            case "text_delta":
                yield from self._text(block, delta.text)
            case "thinking_delta":
                yield from self._thinking(block, delta.thinking)
            case "signature_delta":
                block.signature += delta.signature or ""
            case "input_json_delta" if block.call is not None and delta.partial_json:
                block.text.append(delta.partial_json)
                yield ToolCallDelta(block.call, arguments=delta.partial_json)

    def _text(self, block: _Block, text: str | None) -> Iterator[ModelEvent]:
        if text:
            self._thought = False
            block.text.append(text)
            yield TextDelta(text)

    def _thinking(self, block: _Block, text: str | None) -> Iterator[ModelEvent]:
        if text:
            if self._thought and not block.text:
                # The blocks of one train of thought are paragraphs.
                yield ThoughtDelta("\n\n")
            self._thought = True
            block.text.append(text)
            yield ThoughtDelta(text)

    def _close(self, index: int) -> Iterator[ModelEvent]:
        block = self._blocks.get(index)
        if block is None or block.closed:
            return
        block.closed = True
        if block.call is not None and not block.text:
            # A call without arguments has no pieces; other servers send the whole at once.
            given = block.given if isinstance(block.given, dict) else {}
            yield ToolCallDelta(block.call, arguments=json.dumps(given))


def _kept(block: _Block) -> dict[str, Any]:
    """A block as a later request needs it; texts and calls are in the log already."""
    text = "".join(block.text)
    match block.kind:
        case "thinking":
            return {"type": "thinking", "thinking": text, "signature": block.signature}
        case "redacted_thinking":
            return {"type": "redacted_thinking", "data": block.data}
        case "text":
            return {"type": "text", "length": len(text)}
        case kind:
            return {"type": kind}
