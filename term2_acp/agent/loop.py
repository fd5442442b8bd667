"""The agent loop: ask the model, run its calls, repeat (spec section 5). Knows no JSON-RPC."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from typing import Protocol

import attrs

from term2_acp.agent.calls import CallRunner, TurnLog
from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.compaction import compact
from term2_acp.agent.context import Past
from term2_acp.agent.model import (
    Finish,
    FinishReason,
    ModelEvent,
    ModelMessage,
    ModelRequest,
    ProviderError,
    StateDelta,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolSpec,
    Usage,
)
from term2_acp.agent.ports import Provider
from term2_acp.agent.repetition import Repetition
from term2_acp.agent.retry import Retries
from term2_acp.eventlog import (
    AgentText,
    AgentThought,
    PlannedCall,
    StepEnded,
    StopReason,
    UsageReported,
)
from term2_acp.identifiers import new_id
from term2_acp.surrogates import SurrogateJoiner, replace_lone_surrogates

logger = logging.getLogger(__name__)

COMPACT_AT = 0.8
"""The share of the window at which the conversation is compacted."""
_SHOWN_TOGETHER = 64
"""More pieces of text are not kept back, however fast they arrive."""
_CUT = (
    "The model's answer broke off before its end. Nothing of an unfinished tool call was run;"
    " send the prompt again to go on."
)


class TurnContext(TurnLog, Protocol):
    """A turn as the loop sees it: its log, and what the model is to see."""

    def messages(self) -> tuple[ModelMessage, ...]:
        """The conversation so far, for the next request."""
        ...

    def past(self) -> Past:
        """What a compaction would stand for."""
        ...

    def used_tokens(self) -> int:
        """Tokens in the context as the last step reported them."""
        ...


@attrs.frozen
class LoopSettings:
    """How the model is asked."""

    model: str
    system: str
    tools: tuple[ToolSpec, ...]
    effort: str | None = None
    max_turn_requests: int = 100
    # The context window in tokens, None if nobody knows it; may ask the service once.
    window: Callable[[CancelToken], int | None] = lambda _cancel: None


@attrs.define
class _CallPieces:
    name: str = ""
    arguments: list[str] = attrs.Factory(list)


class _Stream:
    """
    One streamed step: shows text as it comes and collects the rest.

    What arrived together is logged and shown together, once the provider is about to
    wait for more; so a piece that comes alone waits for nothing.
    """

    def __init__(self, log: TurnLog) -> None:
        self._log = log
        self._arrived: list[AgentText | AgentThought] = []
        self._message_id = ""
        self._kind: type[AgentText | AgentThought] | None = None
        self._joiner = SurrogateJoiner()
        self._calls: dict[int, _CallPieces] = {}
        self.state: object = None
        self.usage: Usage | None = None
        self.finish: FinishReason | None = None
        # Whether the client saw anything of it: then it is not tried again.
        self.shown = False

    def take(self, event: ModelEvent) -> None:
        """Take the next event of the step."""
        match event:
            case TextDelta(text):
                self._text(AgentText, text)
            case ThoughtDelta(text):
                self._text(AgentThought, text)
            case ToolCallDelta():
                pieces = self._calls.setdefault(event.index, _CallPieces())
                pieces.name = pieces.name or event.name
                pieces.arguments.append(event.arguments)
            case StateDelta(state):
                self.state = state
            case Usage():
                self.usage = event
            case Finish(reason):
                self.finish = reason

    def _text(self, kind: type[AgentText | AgentThought], text: str) -> None:
        """Show a piece; a change between thought and answer starts a new message."""
        if kind is not self._kind:
            self._keep(self._joiner.finish())
            self._kind = kind
            self._message_id = new_id("msg")
        self._keep(self._joiner.feed(text))

    def show_arrived(self) -> None:
        """Show what arrived until now."""
        arrived = self.take_arrived()
        if arrived:
            self._log.emit(*arrived)

    def take_arrived(self) -> list[AgentText | AgentThought]:
        """What arrived until now and was not shown; the caller shows it."""
        arrived, self._arrived = self._arrived, []
        return arrived

    def end(self) -> None:
        """Nothing more comes: what was held back of a split character has arrived, too."""
        self._keep(self._joiner.finish())

    def calls(self) -> tuple[PlannedCall, ...]:
        """The calls in the model's order, each with an id that is unique in the session."""
        return tuple(
            PlannedCall(
                new_id("call"),
                replace_lone_surrogates(pieces.name),
                replace_lone_surrogates("".join(pieces.arguments)),
            )
            for _index, pieces in sorted(self._calls.items())
        )

    def _keep(self, text: str) -> None:
        if text and self._kind is not None:
            self.shown = True
            self._arrived.append(self._kind(self._message_id, text))
            if len(self._arrived) >= _SHOWN_TOGETHER:
                self.show_arrived()


class AgentLoop:
    """Runs turns with one provider; keeps nothing between them."""

    def __init__(self, provider: Provider, settings: LoopSettings) -> None:
        self._provider = provider
        self._settings = settings

    def run(self, context: TurnContext, calls: CallRunner) -> StopReason:
        """
        Run one turn to its end.

        Raises:
            Cancelled: the turn was cancelled.
            ProviderError: the model failed; the message is for the user.
            StoreError: the log cannot be written.
        """
        repetition = Repetition()
        for _ in range(self._settings.max_turn_requests):
            stream = self._step(context)
            finish = stream.finish
            runs = finish in (FinishReason.STOP, FinishReason.TOOL_CALLS)
            planned = stream.calls() if runs else ()
            logged = calls.as_logged(planned)
            ended = StepEnded(str(finish), logged, self._provider.name, stream.state)
            context.emit(*stream.take_arrived(), ended, *self._usage(stream.usage, context))
            if finish is FinishReason.LENGTH:
                return StopReason.MAX_TOKENS
            if finish is FinishReason.REFUSAL:
                return StopReason.REFUSAL
            if planned:
                note = repetition.note(planned)
                repetition.record(planned, all_failed=not any(calls.run_all(planned, note)))
                if repetition.is_stuck:
                    return StopReason.MAX_TURN_REQUESTS
            elif finish is not FinishReason.PAUSE:
                return StopReason.END_TURN
        return StopReason.MAX_TURN_REQUESTS

    def _step(self, context: TurnContext) -> _Stream:
        """One model step, tried again where nothing of it was shown yet."""
        window = self._settings.window(context.cancel)
        if window and context.used_tokens() > window * COMPACT_AT:
            self._compact(context, window)
        retries = Retries()
        compacted = False
        while True:
            stream = _Stream(context)
            try:
                return self._attempt(context, stream)
            except ProviderError as error:
                if stream.shown:
                    raise
                if error.context_overflow and not compacted:
                    compacted = True
                    self._compact(context, window)
                else:
                    retries.wait(error, context.cancel)

    def _attempt(self, context: TurnContext, stream: _Stream) -> _Stream:
        context.cancel.raise_if_cancelled()
        request = ModelRequest(
            model=self._settings.model,
            system=self._settings.system,
            messages=context.messages(),
            tools=self._settings.tools,
            effort=self._settings.effort,
        )
        provided = self._provider.stream(request, context.cancel, stream.show_arrived)
        try:
            with closing(provided) as events:
                for event in events:
                    context.cancel.raise_if_cancelled()
                    stream.take(event)
            stream.end()
            context.cancel.raise_if_cancelled()
            if stream.finish is None:
                raise ProviderError(_CUT, retryable=True)
        except ProviderError:
            stream.show_arrived()
            raise
        return stream

    def _compact(self, context: TurnContext, window: int | None) -> None:
        logger.info("compacting the conversation")
        context.emit(
            compact(self._provider, self._settings.model, context.past(), window, context.cancel)
        )

    def _usage(self, usage: Usage | None, context: TurnContext) -> list[UsageReported]:
        window = self._settings.window(context.cancel) if usage else None
        if usage and window:
            return [UsageReported(usage.input_tokens + usage.output_tokens, window)]
        return []
