"""The model's context as a projection of the event log (spec section 10)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from term2_acp.agent.model import (
    AssistantTurn,
    ModelMessage,
    ToolCall,
    ToolResult,
    UserTurn,
)
from term2_acp.eventlog import (
    AgentText,
    AgentThought,
    Compacted,
    Event,
    LinkBlock,
    PlannedCall,
    PromptBlock,
    StepEnded,
    StopReason,
    SystemPromptSet,
    TextBlock,
    ToolCallEnded,
    ToolStatus,
    TurnEnded,
    TurnStarted,
    UsageReported,
    UserMessage,
)

CONTEXT_EVENTS = (
    TurnStarted,
    UserMessage,
    AgentText,
    AgentThought,
    StepEnded,
    ToolCallEnded,
    SystemPromptSet,
    UsageReported,
    Compacted,
    TurnEnded,
)
"""The kinds of events that a `Conversation` is made of."""
_INTERRUPTED = "The call was interrupted before it gave a result."


@attrs.define
class _Step:
    """A model step that is being read."""

    texts: list[str] = attrs.Factory(list)
    thoughts: list[str] = attrs.Factory(list)
    end: StepEnded | None = None
    results: dict[str, ToolCallEnded] = attrs.Factory(dict)


@attrs.define
class _Turn:
    """A prompt and the steps that answered it."""

    prompt: UserTurn | None = None
    steps: list[_Step] = attrs.Factory(list)
    refused: bool = False
    ended: bool = False


@attrs.frozen
class Past:
    """
    What a compaction stands for: all but the prompt that is being answered.

    `requests` and `touched` are what earlier compactions kept, and the requests since.
    """

    messages: tuple[ModelMessage, ...]
    requests: tuple[str, ...]
    touched: tuple[str, ...]


class Conversation:
    """
    Folds events into the messages of the next request.

    Each call of a step has exactly one result, right after it, whatever happened
    to the process; a refused turn is left out. What came before the turn of the last
    compaction makes no difference. Not safe for concurrent use.
    """

    def __init__(self) -> None:
        self._turns: list[_Turn] = []
        self.used_tokens = 0
        self._compacted: Compacted | None = None
        # What each request begins with; after a compaction it may be made anew.
        self.system: str | None = None

    def apply(self, event: Event) -> None:
        """Take the next event of the log."""
        if isinstance(event, TurnStarted):
            self._turns.append(_Turn())
            return
        if not self._turns:
            return
        turn = self._turns[-1]
        if isinstance(event, Compacted):
            # What came before, and the running turn's steps so far, are in the summary.
            prompt = None if turn.ended else turn.prompt
            self._compacted = event
            self._turns = [_Turn(UserTurn(event.summary), ended=True), _Turn(prompt)]
            self.used_tokens = 0
            self.system = None
        elif isinstance(event, SystemPromptSet):
            self.system = event.text
        elif isinstance(event, UsageReported):
            self.used_tokens = event.used
        elif isinstance(event, UserMessage):
            turn.prompt = flatten(event.content)
        elif isinstance(event, AgentText):
            self._open_step(turn).texts.append(event.text)
        elif isinstance(event, AgentThought):
            self._open_step(turn).thoughts.append(event.text)
        elif isinstance(event, StepEnded):
            self._open_step(turn).end = event
        elif isinstance(event, ToolCallEnded) and turn.steps:
            turn.steps[-1].results[event.tool_call_id] = event
        elif isinstance(event, TurnEnded):
            turn.refused = event.stop_reason is StopReason.REFUSAL
            turn.ended = True

    def messages(self) -> tuple[ModelMessage, ...]:
        """Everything that the model is to see, oldest first."""
        messages: list[ModelMessage] = []
        for turn in self._turns:
            if turn.refused:
                continue
            if turn.prompt is not None:
                messages.append(turn.prompt)
            for step in turn.steps:
                messages += _render(step)
        return tuple(messages)

    def past(self) -> Past:
        """What a compaction in the running turn would stand for."""
        running = self._turns[-1] if self._turns and not self._turns[-1].ended else None
        prompt = running.prompt if running else None
        messages = [message for message in self.messages() if message is not prompt]
        kept = self._compacted or Compacted("")
        asked = [
            f"{turn.prompt.text}\n{turn.prompt.attached}".strip()
            for turn in self._turns
            if turn is not running and turn.prompt is not None and not turn.refused
        ]
        # The first turn after a compaction is its summary.
        since = asked[1:] if self._compacted else asked
        return Past(tuple(messages), (*kept.requests, *since), kept.touched)

    @staticmethod
    def _open_step(turn: _Turn) -> _Step:
        if not turn.steps or turn.steps[-1].end is not None:
            turn.steps.append(_Step())
        return turn.steps[-1]


def _render(step: _Step) -> list[ModelMessage]:
    end = step.end or StepEnded(finish="")
    assistant = AssistantTurn(
        text="".join(step.texts),
        thought="".join(step.thoughts),
        tool_calls=tuple(_as_call(call) for call in end.calls),
        provider=end.provider,
        state=end.state,
    )
    return [assistant, *(_as_result(call, step) for call in end.calls)]


def _as_call(call: PlannedCall) -> ToolCall:
    return ToolCall(call_id=call.tool_call_id, name=call.name, arguments=call.arguments)


def _as_result(call: PlannedCall, step: _Step) -> ToolResult:
    ended = step.results.get(call.tool_call_id)
    if ended is None:
        return ToolResult(call.tool_call_id, call.name, _INTERRUPTED, failed=True)
    failed = ended.status is not ToolStatus.COMPLETED
    return ToolResult(call.tool_call_id, call.name, ended.result, failed=failed)


def flatten(content: Sequence[PromptBlock]) -> UserTurn:
    """A prompt as text: what was typed, and what was attached."""
    typed = [block.text for block in content if isinstance(block, TextBlock)]
    attached = [_describe(block) for block in content if not isinstance(block, TextBlock)]
    return UserTurn(text="\n".join(typed), attached="\n\n".join(attached))


def _describe(block: PromptBlock) -> str:
    if isinstance(block, LinkBlock):
        notes = [block.title or "", block.description or ""]
        note = "".join(f" ({text})" for text in notes if text)
        return f"[resource {block.name}: {block.uri}{note}]"
    if isinstance(block, TextBlock):
        return block.text
    return f'<resource uri="{block.uri}">\n{block.text}\n</resource>'
