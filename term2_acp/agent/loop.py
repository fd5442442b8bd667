"""The agent loop: ask the model, run its calls, repeat (spec section 5). Knows no JSON-RPC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

import attrs

from term2_acp.agent.calls import CallRunner, TurnLog
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

_CUT = (
    "The model's answer broke off before its end. Nothing of an unfinished tool call was run;"
    " send the prompt again to go on."
)


@attrs.frozen
class LoopSettings:
    """How the model is asked."""

    model: str
    system: str
    tools: tuple[ToolSpec, ...]
    effort: str | None = None
    max_turn_requests: int = 100
    # Tokens; None while it is not known.
    window: int | None = None


@attrs.define
class _CallPieces:
    name: str = ""
    arguments: list[str] = attrs.Factory(list)


class _Stream:
    """One streamed step: shows text as it comes and collects the rest."""

    def __init__(self, log: TurnLog) -> None:
        self._log = log
        self._message_id = ""
        self._kind: type[AgentText | AgentThought] | None = None
        self._joiner = SurrogateJoiner()
        self._calls: dict[int, _CallPieces] = {}
        self.state: object = None
        self.usage: Usage | None = None
        self.finish: FinishReason | None = None

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
            self.flush()
            self._kind = kind
            self._message_id = new_id("msg")
        self._show(self._joiner.feed(text))

    def flush(self) -> None:
        """Show what was held back of a split character."""
        self._show(self._joiner.finish())

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

    def _show(self, text: str) -> None:
        if text and self._kind is not None:
            self._log.emit(self._kind(self._message_id, text))


class AgentLoop:
    """Runs turns with one provider; stateless, so any thread may run any turn."""

    def __init__(self, provider: Provider, settings: LoopSettings) -> None:
        self._provider = provider
        self._settings = settings

    def run(
        self,
        messages: Callable[[], Sequence[ModelMessage]],
        calls: CallRunner,
        log: TurnLog,
    ) -> StopReason:
        """
        Run one turn to its end.

        Args:
            messages: gives the context, anew for each step.

        Raises:
            Cancelled: the turn was cancelled.
            ProviderError: the model failed; the message is for the user.
            StoreError: the log cannot be written.
        """
        for _ in range(self._settings.max_turn_requests):
            stream = self._step(messages(), log)
            planned = stream.calls()
            finish = stream.finish
            runnable = planned if finish in (FinishReason.STOP, FinishReason.TOOL_CALLS) else ()
            log.emit(
                StepEnded(
                    finish=str(finish),
                    calls=runnable,
                    provider=self._provider.name,
                    state=stream.state,
                )
            )
            if stream.usage and self._settings.window:
                used = stream.usage.input_tokens + stream.usage.output_tokens
                log.emit(UsageReported(used, self._settings.window))
            if finish is FinishReason.LENGTH:
                return StopReason.MAX_TOKENS
            if finish is FinishReason.REFUSAL:
                return StopReason.REFUSAL
            if runnable:
                calls.run_all(runnable)
            elif finish is not FinishReason.PAUSE:
                return StopReason.END_TURN
        return StopReason.MAX_TURN_REQUESTS

    def _step(self, messages: Sequence[ModelMessage], log: TurnLog) -> _Stream:
        log.cancel.raise_if_cancelled()
        request = ModelRequest(
            model=self._settings.model,
            system=self._settings.system,
            messages=tuple(messages),
            tools=self._settings.tools,
            effort=self._settings.effort,
        )
        stream = _Stream(log)
        with closing(self._provider.stream(request, log.cancel)) as events:
            for event in events:
                log.cancel.raise_if_cancelled()
                stream.take(event)
        stream.flush()
        log.cancel.raise_if_cancelled()
        if stream.finish is None:
            raise ProviderError(_CUT)
        return stream
