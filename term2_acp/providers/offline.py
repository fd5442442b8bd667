"""
The model that needs no network: it obeys directives, and says so otherwise.

It keeps no state. A request says everything: the last user turn is parsed again
for each step, and the assistant turns after it are the steps that were done.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable

import attrs

from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.model import (
    AssistantTurn,
    Finish,
    FinishReason,
    ModelEvent,
    ModelMessage,
    ModelRequest,
    ProviderError,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolResult,
    Usage,
    UserTurn,
)
from term2_acp.agent.ports import nothing_waits
from term2_acp.providers.offline_calls import PlannedCall, call_for, list_workspace, read_whole
from term2_acp.providers.offline_directives import (
    Directive,
    Fail,
    Malformed,
    Say,
    Sleep,
    Think,
    Unknown,
)
from term2_acp.providers.offline_grammar import parse_directives
from term2_acp.providers.offline_reports import (
    find_readme,
    introduction,
    malformed_answer,
    missing_tool_answer,
    report_results,
    unknown_answer,
)

_CHARACTERS_PER_TOKEN = 4
# A call arrives in this many pieces, as it does from a real service.
_CALL_PIECES = 4
_WORD = re.compile(r"\S+\s*|\s+")
_LINE = re.compile(r".*\n|.+")


@attrs.frozen
class _Turn:
    """The current turn as far as it went: steps done, results got, tools offered."""

    text: str
    step: int
    results: tuple[ToolResult, ...]
    tools: frozenset[str]
    call_id: str


@attrs.frozen
class _Step:
    """What the model does next, and how it ends."""

    events: Iterable[ModelEvent]
    finish: FinishReason


class OfflineProvider:
    """
    The deterministic `Provider` of spec section 2.

    It has no state and may be used from any thread.
    """

    name = "offline"

    def stream(
        self,
        request: ModelRequest,
        cancel: CancelToken,
        # A step that sleeps says nothing before.
        _before_wait: Callable[[], None] = nothing_waits,
    ) -> Generator[ModelEvent, None, None]:
        """
        Do the next step of the last user turn.

        Raises:
            ProviderError: the step is a `/fail`.
            Cancelled: `cancel` was set; also in the middle of a `/sleep`.
        """
        cancel.raise_if_cancelled()
        step = _next_step(_current_turn(request), cancel)
        written = 0
        for event in step.events:
            written += _characters(event)
            yield event
            cancel.raise_if_cancelled()
        yield Usage(
            input_tokens=_request_characters(request) // _CHARACTERS_PER_TOKEN,
            output_tokens=written // _CHARACTERS_PER_TOKEN,
        )
        yield Finish(step.finish)

    def context_window(self, _model: str, _cancel: CancelToken) -> int | None:
        """The rules read a conversation of any length."""
        return None


def _current_turn(request: ModelRequest) -> _Turn:
    messages = request.messages
    start = max(
        (index for index, message in enumerate(messages) if isinstance(message, UserTurn)),
        default=-1,
    )
    user = messages[start] if start >= 0 else None
    answers = messages[start + 1 :]
    return _Turn(
        text=user.text if isinstance(user, UserTurn) else "",
        step=sum(isinstance(message, AssistantTurn) for message in answers),
        results=tuple(message for message in answers if isinstance(message, ToolResult)),
        tools=frozenset(tool.name for tool in request.tools),
        # Unique in the session, since every call adds messages.
        call_id=f"offline_{len(messages)}",
    )


def _next_step(turn: _Turn, cancel: CancelToken) -> _Step:
    directives = parse_directives(turn.text)
    if not directives:
        return _introduce(turn)
    if turn.step >= len(directives):
        return _Step(_answer(report_results(turn.results)), FinishReason.STOP)
    directive = directives[turn.step]
    call = call_for(directive)
    if call is not None and call.tool in turn.tools:
        return _call(call, turn)
    last = turn.step == len(directives) - 1
    events = _answer(missing_tool_answer(call.tool)) if call else _perform(directive, cancel)
    return _Step(events, FinishReason.STOP if last else FinishReason.PAUSE)


def _introduce(turn: _Turn) -> _Step:
    """List the workspace, read the README that the listing shows, then report both."""
    if turn.step == 0 and "glob" in turn.tools:
        return _call(list_workspace(), turn)
    if turn.step == 1 and turn.results and "read_file" in turn.tools:
        readme = find_readme(turn.results[0])
        if readme is not None:
            return _call(read_whole(readme), turn)
    missing = () if "glob" in turn.tools else ("glob",)
    return _Step(_answer(introduction(turn.results, missing_tools=missing)), FinishReason.STOP)


def _perform(directive: Directive, cancel: CancelToken) -> Generator[ModelEvent, None, None]:
    match directive:
        case Say(text):
            yield from _stream_words(text, TextDelta)
        case Think(text):
            yield from _stream_words(text, ThoughtDelta)
        case Sleep(seconds):
            cancel.wait(seconds)
            cancel.raise_if_cancelled()
        case Fail():
            raise ProviderError("The offline model failed, as requested by /fail; remove the line.")
        case Unknown():
            yield from _answer(unknown_answer(directive))
        case Malformed():
            yield from _answer(malformed_answer(directive))


def _call(call: PlannedCall, turn: _Turn) -> _Step:
    return _Step(_stream_call(call, turn.call_id), FinishReason.TOOL_CALLS)


def _stream_call(call: PlannedCall, call_id: str) -> Generator[ModelEvent, None, None]:
    yield ToolCallDelta(index=0, call_id=call_id, name=call.tool)
    size = -(-len(call.arguments) // _CALL_PIECES)
    for start in range(0, len(call.arguments), size):
        yield ToolCallDelta(index=0, arguments=call.arguments[start : start + size])


def _answer(text: str) -> Generator[ModelEvent, None, None]:
    for line in _LINE.finditer(text):
        yield TextDelta(line[0])


def _stream_words(
    text: str, delta: Callable[[str], ModelEvent]
) -> Generator[ModelEvent, None, None]:
    for word in _WORD.finditer(text):
        yield delta(word[0])


def _characters(event: ModelEvent) -> int:
    match event:
        case TextDelta(text) | ThoughtDelta(text):
            return len(text)
        case ToolCallDelta():
            return len(event.name) + len(event.arguments)
        case _:
            return 0


def _request_characters(request: ModelRequest) -> int:
    return len(request.system) + sum(_message_characters(item) for item in request.messages)


def _message_characters(message: ModelMessage) -> int:
    match message:
        case AssistantTurn():
            calls = sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
            return len(message.text) + len(message.thought) + calls
        case UserTurn(text, attached):
            return len(text) + len(attached)
        case ToolResult():
            return len(message.text)
