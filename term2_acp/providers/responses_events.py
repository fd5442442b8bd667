"""The stream of a Responses request as events of the loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
from openai.types.responses import (
    Response,
    ResponseOutputItem,
    ResponseReasoningItem,
    ResponseStreamEvent,
)

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
from term2_acp.providers.asking import StreamFailedError
from term2_acp.providers.history import FRESH
from term2_acp.providers.responses_input import ITEMS
from term2_acp.surrogates import replace_in_value


@attrs.define
class _Item:
    """An output item as far as it was shown."""

    call: int | None = None
    characters: int = 0
    arguments: int = 0
    thoughts: int = 0


class ResponseEvents:
    """
    Reads the events of one response.

    Whatever comes in pieces is repeated whole by later events; the whole is used
    only where the pieces were left out.
    """

    def __init__(self) -> None:
        self._items: dict[int, _Item] = {}
        self._state: dict[int, dict[str, Any]] = {}
        self._calls = 0
        self._thinking: int | None = None
        self._new_part = False
        self._refused = False
        self._last: Response | None = None

    @property
    def finished(self) -> bool:
        """Whether the service said that the response is over."""
        return self._last is not None

    @property
    def complete(self) -> bool:
        """Nothing follows the event that ends a response."""
        return self.finished

    def read(self, event: ResponseStreamEvent) -> Iterator[ModelEvent]:
        """
        Take the next event; those of other kinds say nothing to the loop.

        Raises:
            StreamFailedError: the service gave up.
        """
        match event.type:
            case "response.output_item.added":
                yield from self._open(event.output_index, event.item)
            case "response.output_text.delta" | "response.refusal.delta":
                self._refused = self._refused or event.type == "response.refusal.delta"
                yield from self._text(event.output_index, event.delta)
            case "response.reasoning_summary_part.added":
                self._new_part = True
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield from self._thought(event.output_index, event.delta)
            case "response.function_call_arguments.delta":
                yield from self._arguments(event.output_index, event.delta)
            case "response.output_item.done":
                yield from self._close(event.output_index, event.item)
            case "response.completed" | "response.incomplete":
                yield from self._end(event.response)
            case "response.failed":
                error = event.response.error
                raise StreamFailedError(
                    str(error.code) if error else "", error.message if error else ""
                )
            case "error":
                raise StreamFailedError(event.code or "", event.message or "")

    def end(self, *, fresh: bool) -> Iterator[ModelEvent]:
        """What is known once the response is over; only if it is `finished`."""
        if self._last is None:
            return
        usage = self._last.usage
        if usage is not None:
            # Typed as present, but not every server sends it.
            details: object = usage.input_tokens_details
            cached = getattr(details, "cached_tokens", None)
            yield Usage(usage.input_tokens or 0, usage.output_tokens or 0, cached or 0)
        state: dict[str, Any] = {}
        items = [self._state[index] for index in sorted(self._state)]
        if any(item["type"] == "reasoning" or "phase" in item for item in items):
            state[ITEMS] = items
        if fresh:
            state[FRESH] = True
        if state:
            yield StateDelta(replace_in_value(state))
        yield Finish(self._reason(self._last))

    def _reason(self, response: Response) -> FinishReason:
        if response.status == "incomplete":
            details = response.incomplete_details
            filtered = details is not None and details.reason == "content_filter"
            return FinishReason.REFUSAL if filtered else FinishReason.LENGTH
        if self._refused:
            return FinishReason.REFUSAL
        return FinishReason.TOOL_CALLS if self._calls else FinishReason.STOP

    def _item(self, index: int) -> _Item:
        return self._items.setdefault(index, _Item())

    def _open(self, index: int, item: ResponseOutputItem) -> Iterator[ModelEvent]:
        shown = self._item(index)
        if item.type == "function_call" and shown.call is None:
            shown.call = self._calls
            self._calls += 1
            yield ToolCallDelta(shown.call, call_id=item.call_id or "", name=item.name or "")

    def _text(self, index: int, text: str) -> Iterator[ModelEvent]:
        if text:
            self._thinking = None
            self._item(index).characters += len(text)
            yield TextDelta(text)

    def _thought(self, index: int, text: str) -> Iterator[ModelEvent]:
        if text:
            if self._thinking is not None and (self._new_part or self._thinking != index):
                # The parts of one train of thought are paragraphs.
                yield ThoughtDelta("\n\n")
            self._thinking, self._new_part = index, False
            self._item(index).thoughts += len(text)
            yield ThoughtDelta(text)

    def _arguments(self, index: int, text: str) -> Iterator[ModelEvent]:
        shown = self._item(index)
        if text and shown.call is not None:
            shown.arguments += len(text)
            yield ToolCallDelta(shown.call, arguments=text)

    def _close(self, index: int, item: ResponseOutputItem) -> Iterator[ModelEvent]:
        """Show what of an item did not come in pieces, and keep what is to be sent back."""
        shown = self._item(index)
        if item.type == "function_call":
            yield from self._open(index, item)
            if not shown.arguments:
                yield from self._arguments(index, item.arguments or "")
            self._state[index] = {"type": "function_call"}
        elif item.type == "message":
            if not shown.characters:
                for part in item.content or ():
                    yield from self._text(index, _part_text(part))
                    self._refused = self._refused or part.type == "refusal"
            self._state[index] = {"type": "message", "length": shown.characters}
            if item.phase is not None:
                self._state[index]["phase"] = item.phase
        elif item.type == "reasoning":
            if not shown.thoughts:
                summary = "\n\n".join(part.text for part in item.summary or ())
                yield from self._thought(index, summary)
            # Without its content the service would look for an item that it did not store.
            if item.encrypted_content or item.content:
                self._state[index] = _returned(item)

    def _end(self, response: Response) -> Iterator[ModelEvent]:
        if not self._items:
            for index, item in enumerate(response.output or ()):
                yield from self._close(index, item)
        self._last = response


def _part_text(part: Any) -> str:
    return part.refusal if part.type == "refusal" else getattr(part, "text", "")


def _returned(item: ResponseReasoningItem) -> dict[str, Any]:
    """A reasoning item as the next request has it."""
    members = item.to_dict(mode="json").items()
    kept = {name: value for name, value in members if name != "status" and value is not None}
    return {**kept, "summary": kept.get("summary") or []}
