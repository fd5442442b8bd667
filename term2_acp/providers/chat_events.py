"""
The stream of a Chat Completions request as events of the loop.

Servers differ in how they number and name parallel calls, in where they put
reasoning, and in what they leave out; nothing of a chunk is taken for granted. So it is
read as the JSON that it is: the SDK's types would not be relied on, and to build them
takes most of the time of a chunk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs

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
from term2_acp.surrogates import replace_in_value

_FINISHES = {
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "content_filter": FinishReason.REFUSAL,
    "refusal": FinishReason.REFUSAL,
    "safety": FinishReason.REFUSAL,
}
# Words with which a server says that it gave up.
_FAILURES = frozenset({"error", "abort", "network_error"})


@attrs.define(eq=False)
class _Call:
    """A call in the making; `key` is what its pieces are numbered with."""

    key: int | None
    call_id: str
    name: str
    arguments: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether its arguments are a complete JSON object, so that nothing can follow."""
        try:
            return isinstance(json.loads(self.arguments), dict)
        except (ValueError, RecursionError):
            return False


class ChatEvents:
    """Reads the chunks of one answer."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._reasoning: dict[str, str] = {}
        self._details: list[dict[str, Any]] = []
        self._usage: Usage | None = None
        self._finish: str = ""
        self._refused = False

    @property
    def finished(self) -> bool:
        """Whether the server said that the answer is complete."""
        return bool(self._finish) and self._finish not in _FAILURES

    @property
    def complete(self) -> bool:
        """Whether nothing more can come that matters."""
        return self.finished and self._usage is not None

    def read(self, chunk: Any) -> Iterator[ModelEvent]:
        """
        Take the next chunk, as JSON.

        Raises:
            AttributeError: it is no object.
        """
        self._take_usage(chunk.get("usage"))
        # Some servers send `null`.
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict) or choice.get("index"):
                continue
            self._take_usage(choice.get("usage"))
            delta = choice.get("delta")
            if isinstance(delta, dict):
                yield from self._delta(delta)
            self._take_finish(choice.get("finish_reason"))

    def end(self, *, fresh: bool) -> Iterator[ModelEvent]:
        """What is known once the stream is over; only for an answer that is `finished`."""
        if self._usage is not None:
            yield self._usage
        state: dict[str, Any] = dict(self._reasoning)
        if self._details:
            state["reasoning_details"] = self._details
        if fresh:
            state[FRESH] = True
        if state:
            yield StateDelta(replace_in_value(state))
        yield Finish(self._reason())

    def _reason(self) -> FinishReason:
        reason = _FINISHES.get(self._finish)
        if reason is not None:
            return reason
        if self._refused:
            return FinishReason.REFUSAL
        return FinishReason.TOOL_CALLS if self._calls else FinishReason.STOP

    def _take_usage(self, usage: Any) -> None:
        # Most chunks have none; some servers put other things there.
        if not isinstance(usage, dict):
            return
        read = _count(usage, "prompt_tokens")
        written = _count(usage, "completion_tokens")
        if read or written:
            details = usage.get("prompt_tokens_details")
            cached = _count(details, "cached_tokens") or _count(usage, "prompt_cache_hit_tokens")
            self._usage = Usage(read, written, cached)

    def _take_finish(self, reason: Any) -> None:
        # Not every server keeps to the words of the format.
        if isinstance(reason, str) and reason:
            self._finish = reason.lower()

    def _delta(self, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        yield from self._thoughts(delta)
        content = delta.get("content")
        if isinstance(content, list):
            yield from self._parts(content)
        elif isinstance(content, str) and content:
            yield TextDelta(content)
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._refused = True
            yield TextDelta(refusal)
        pieces = delta.get("tool_calls")
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                yield from self._call(piece)

    def _thoughts(self, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        shown = False
        for field in ("reasoning_content", "reasoning"):
            text = delta.get(field)
            if not isinstance(text, str):
                continue
            # Also empty: that a server has the field says that it wants it back.
            self._reasoning[field] = self._reasoning.get(field, "") + text
            # Servers that have both fields say the same in both.
            if text and not shown:
                shown = True
                yield ThoughtDelta(text)
        details = delta.get("reasoning_details")
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, dict):
                self._take_detail(detail)

    def _parts(self, parts: list[Any]) -> Iterator[ModelEvent]:
        """Content as a list of typed parts, which is Mistral's way."""
        for part in parts:
            if not isinstance(part, dict):
                continue
            text, thinking = part.get("text"), part.get("thinking")
            if isinstance(text, str) and text:
                yield TextDelta(text)
            for inner in thinking if isinstance(thinking, list) else ():
                if isinstance(inner, dict) and isinstance(inner.get("text"), str):
                    yield ThoughtDelta(inner["text"])

    def _take_detail(self, detail: dict[str, Any]) -> None:
        """Join the pieces of one reasoning detail (OpenRouter)."""
        last = self._details[-1] if self._details else {}
        same = ("type" in detail) and all(
            last.get(key) == detail.get(key) for key in ("type", "index")
        )
        if not same:
            self._details.append(dict(detail))
            return
        for key, value in detail.items():
            if key in ("text", "summary") and isinstance(last.get(key), str) and value:
                last[key] += value
            elif value is not None:
                last[key] = value

    def _call(self, piece: dict[str, Any]) -> Iterator[ModelEvent]:
        function = piece.get("function")
        known = function if isinstance(function, dict) else {}
        name, arguments = _text(known.get("name")), _arguments(known.get("arguments"))
        # Some servers leave it out.
        key = piece.get("index")
        number = key if isinstance(key, int) else None
        call_id = _text(piece.get("id"))
        call = self._known(number, call_id, name, arguments)
        if call is None:
            call = _Call(number, call_id, name)
            self._calls.append(call)
            index = len(self._calls) - 1
            yield ToolCallDelta(index, call_id=call.call_id, name=name, arguments=arguments)
        else:
            index = self._calls.index(call)
            first_name = "" if call.name else name
            call.name = call.name or name
            call.call_id = call.call_id or call_id
            if first_name or arguments:
                yield ToolCallDelta(index, name=first_name, arguments=arguments)
        call.arguments += arguments

    def _known(self, key: int | None, call_id: str, name: str, arguments: str) -> _Call | None:
        """The call that a piece goes on with; None if it begins one."""
        if call_id:
            for call in self._calls:
                # Some servers say the same id for every call of a step.
                if call.call_id == call_id and (None in (key, call.key) or key == call.key):
                    return call
        same_key = [call for call in self._calls if key is None or call.key == key]
        if not same_key:
            return None
        last = same_key[-1]
        if call_id and last.call_id:
            return None
        # Without ids, a name tells calls apart; some servers repeat it with every piece.
        begins = bool(name and last.name) and (
            (last.is_whole and (arguments or name != last.name))
            or (not last.arguments and name != last.name)
        )
        return None if begins else last


def _arguments(value: object) -> str:
    """Arguments are text; some servers send the object itself."""
    if isinstance(value, dict):
        return json.dumps(value)
    return _text(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(owner: object, name: str) -> int:
    value = owner.get(name) if isinstance(owner, dict) else None
    return value if isinstance(value, int) and value > 0 else 0
