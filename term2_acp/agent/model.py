"""
What passes between the loop and a model: requests, streamed events, faults.

No vendor's words and no protocol version appear here; each provider translates.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import attrs


@attrs.frozen
class ToolSpec:
    """A tool as a model is told of it; `parameters` is a JSON schema (object)."""

    name: str
    description: str
    parameters: dict[str, Any]


@attrs.frozen
class ToolCall:
    """A call that a model asked for; `arguments` is the JSON text it sent."""

    call_id: str
    name: str
    arguments: str


@attrs.frozen
class UserTurn:
    """What the user typed, and apart from it what the client attached, as text."""

    text: str
    attached: str = ""


@attrs.frozen
class AssistantTurn:
    """
    One model step: its thoughts, text and calls.

    `state` is the provider's own opaque data (signatures, reasoning items), given
    back unchanged to the provider named `provider` and to no other.
    """

    text: str = ""
    thought: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    provider: str = ""
    state: Any = None


@attrs.frozen
class ToolResult:
    """The one answer to a call, as the model reads it."""

    call_id: str
    name: str
    text: str
    failed: bool = False


ModelMessage = UserTurn | AssistantTurn | ToolResult


@attrs.frozen
class ModelRequest:
    """One model step: everything the model is to see."""

    model: str
    system: str
    messages: tuple[ModelMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    effort: str | None = None


@attrs.frozen
class TextDelta:
    """A piece of the answer."""

    text: str


@attrs.frozen
class ThoughtDelta:
    """A piece of the reasoning that may be shown."""

    text: str


@attrs.frozen
class ToolCallDelta:
    """
    A piece of a tool call.

    Pieces with the same `index` belong together; `call_id` and `name` come with
    the first one, `arguments` are appended.
    """

    index: int
    call_id: str = ""
    name: str = ""
    arguments: str = ""


@attrs.frozen
class StateDelta:
    """Opaque provider data to keep with this step (see `AssistantTurn.state`)."""

    state: Any


@attrs.frozen
class Usage:
    """Tokens of one step: what the model read (cached or not) and what it wrote."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0


class FinishReason(StrEnum):
    """Why the model stopped."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    # The model has more to say and is to be called again (Anthropic: pause_turn).
    PAUSE = "pause"
    LENGTH = "length"
    REFUSAL = "refusal"


@attrs.frozen
class Finish:
    """The end of a step. A stream that ends without one was cut."""

    reason: FinishReason


ModelEvent = TextDelta | ThoughtDelta | ToolCallDelta | StateDelta | Usage | Finish


class ProviderError(Exception):
    """
    The model could not be asked or did not answer properly.

    Args:
        message: for the user: what went wrong and what to do. No secrets.
        retryable: whether the same request may succeed a little later.
        retry_after_s: the pause that the service asked for, in seconds.
        context_overflow: the request was longer than the model's window.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        retry_after_s: float | None = None,
        context_overflow: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.context_overflow = context_overflow
