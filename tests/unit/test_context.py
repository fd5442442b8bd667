"""The model's context as a function of the log, wherever the log ends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from term2_acp.agent.context import Conversation, flatten
from term2_acp.agent.model import AssistantTurn, ToolResult, UserTurn
from term2_acp.eventlog import (
    AgentText,
    AgentThought,
    Compacted,
    LinkBlock,
    Notice,
    PlannedCall,
    ResourceBlock,
    StepEnded,
    StopReason,
    TextBlock,
    ToolCallEnded,
    ToolStatus,
    TurnEnded,
    TurnStarted,
    UsageReported,
    UserMessage,
)
from tests.unit.histories import cut_histories


def messages(events):
    """The context after some events."""
    conversation = Conversation()
    for event in events:
        conversation.apply(event)
    return conversation.messages()


def expected_prompts(events):
    """The texts of the user's side by the rule: no refused turn, nothing before a summary."""
    prompts, current = [], None
    for event in events:
        match event:
            case TurnStarted():
                current = None
            case UserMessage(content=(TextBlock(text),)):
                prompts.append(text)
                current = text
            case Compacted(summary):
                prompts = [summary] if current is None else [summary, current]
            case TurnEnded(stop_reason=StopReason.REFUSAL) if current is not None:
                prompts.remove(current)
    return prompts


@settings(deadline=None)
@given(cut_histories())
def test_each_call_has_exactly_one_result_right_after_it(events):
    """Whatever happened to the process: a service that checks the pairs never refuses them."""
    open_calls = []
    for message in messages(events):
        if isinstance(message, ToolResult):
            assert (open_calls.pop(0)) == (message.call_id, message.name)
        else:
            assert [] == open_calls
        if isinstance(message, AssistantTurn):
            open_calls = [(call.call_id, call.name) for call in message.tool_calls]
    assert [] == open_calls


@settings(deadline=None)
@given(cut_histories())
def test_a_result_is_what_the_call_ended_with(events):
    """One that never ended is told as failed, and only a completed one as a success."""
    ended = {event.tool_call_id: event for event in events if isinstance(event, ToolCallEnded)}
    for message in messages(events):
        if isinstance(message, ToolResult):
            event = ended.get(message.call_id)
            assert message.failed == (event is None or event.status is not ToolStatus.COMPLETED)
            assert message.text == event.result if event else "interrupted" in message.text


@settings(deadline=None)
@given(cut_histories())
def test_the_user_turns_are_the_prompts_that_still_count(events):
    """In order; a refused prompt is left out with all that followed it, a summary stands first."""
    shown = messages(events)
    assert expected_prompts(events) == [
        message.text for message in shown if isinstance(message, UserTurn)
    ]


@settings(deadline=None)
@given(cut_histories())
def test_texts_and_thoughts_are_whole_and_in_order(events):
    """Each step's pieces are one text; what term2 itself said is not told."""
    steps, refused = [], []
    text = thought = ""
    is_open = False
    for event in events:
        match event:
            case TurnStarted() | Compacted():
                if isinstance(event, Compacted):
                    steps = []
                refused, text, thought, is_open = steps, "", "", False
                steps = list(steps)
            case AgentText(text=piece):
                text, is_open = text + piece, True
            case AgentThought(text=piece):
                thought, is_open = thought + piece, True
            case StepEnded():
                steps.append((text, thought))
                text, thought, is_open = "", "", False
            case TurnEnded(stop_reason=reason):
                if is_open:
                    steps.append((text, thought))
                if reason is StopReason.REFUSAL:
                    steps = refused
                is_open = False
    if is_open:
        steps.append((text, thought))
    shown = [message for message in messages(events) if isinstance(message, AssistantTurn)]
    assert steps == [(message.text, message.thought) for message in shown]


@settings(deadline=None, max_examples=30)
@given(cut_histories())
def test_reading_the_context_changes_nothing(events):
    """It is the same whether it is kept up to date or read from the log at the end."""
    kept = Conversation()
    for count, event in enumerate(events, 1):
        kept.apply(event)
        assert messages(events[:count]) == kept.messages()


def turn(*events, reason=StopReason.END_TURN, text="hello"):
    """A whole turn."""
    return [
        TurnStarted("t"),
        UserMessage("m", (TextBlock(text),)),
        *events,
        TurnEnded("t", reason),
    ]


def test_the_providers_own_state_comes_back_with_its_step():
    """Unchanged, and under the name of the provider that gave it."""
    state = {"signature": ["x", None]}
    (_, assistant) = messages(turn(AgentText("a", "hi"), StepEnded("stop", (), "p", state)))
    assert AssistantTurn(text="hi", provider="p", state=state) == assistant


def test_a_refused_turn_takes_its_calls_and_results_with_it():
    """Nothing unpaired stays; the turns before and after it do."""
    call = PlannedCall("c", "n", "{}")
    refused = turn(
        StepEnded("tool_calls", (call,)),
        ToolCallEnded("c", ToolStatus.COMPLETED, "done"),
        StepEnded("refusal"),
        reason=StopReason.REFUSAL,
        text="refused",
    )
    shown = messages([*turn(text="before"), *refused, *turn(text="after")])
    assert (UserTurn("before"), UserTurn("after")) == shown


@pytest.mark.parametrize("reason", [reason for reason in StopReason if reason != "refusal"])
def test_a_turn_that_ended_otherwise_stays(reason):
    """The model sees what it said before it was stopped."""
    shown = messages(turn(AgentText("a", "half a sen"), reason=reason))
    assert (UserTurn("hello"), AssistantTurn(text="half a sen")) == shown


def test_what_term2_says_is_not_told_to_the_model():
    """A notice is for the user."""
    assert (UserTurn("hello"),) == messages(turn(Notice("n", "the model cannot be reached")))


def test_the_used_tokens_are_those_of_the_last_report():
    """A summary starts them anew."""
    conversation = Conversation()
    used = []
    for event in (*turn(), UsageReported(10, 100), UsageReported(70, 100), Compacted("short")):
        conversation.apply(event)
        used.append(conversation.used_tokens)
    assert [10, 70, 0] == used[-3:]


def test_a_prompt_is_what_was_typed_and_apart_from_it_what_was_attached():
    """Links by name and address, resources with their text."""
    prompt = flatten(
        [
            TextBlock("one"),
            LinkBlock("main.py", "file:///main.py", title="Main", description="the start"),
            TextBlock("two"),
            ResourceBlock("file:///notes", "the notes"),
        ]
    )
    assert "one\ntwo" == prompt.text
    assert prompt.attached == (
        "[resource main.py: file:///main.py (Main) (the start)]\n\n"
        '<resource uri="file:///notes">\nthe notes\n</resource>'
    )
