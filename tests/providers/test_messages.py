"""The Messages API: blocks, signatures, cache marks, and what each model takes as effort."""

from __future__ import annotations

from typing import Any

import pytest

from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.model import (
    AssistantTurn,
    FinishReason,
    ModelMessage,
    ProviderError,
    TextDelta,
    ThoughtDelta,
    ToolCall,
    ToolResult,
    UserTurn,
)
from term2_acp.providers.messages import MessagesProvider
from term2_acp.providers.messages_thinking import Thinking, thinking_for
from tests.models.http import Reply, Then, json_reply
from tests.models.messages import (
    MESSAGE_STOP,
    MessagesServer,
    message_block,
    message_delta,
    message_event,
    message_start,
    message_stream,
)
from tests.models.steps import Call, ScriptedStep
from tests.providers.conftest import ask, request
from tests.providers.test_provider_streams import collect, take_step


def provider_for(server: MessagesServer, limit: int | None = None) -> MessagesProvider:
    """A provider for a scripted service."""
    return MessagesProvider(
        "scripted",
        base_url=server.base_url,
        api_key="k",
        idle_timeout_s=30.0,
        max_output_tokens=lambda _model: limit,
    )


def answer_to(server: MessagesServer, *events: bytes) -> Any:
    """What a provider makes of some events between the first and the last."""
    server.stream(message_start(), *events, MESSAGE_STOP)
    return collect(ask(provider_for(server), UserTurn("Hello")))


def test_the_limit_of_the_catalog_is_asked_for(messages):
    """The format requires a limit: the model's own, or a careful one."""
    for limit, expected in ((64_000, 64_000), (None, 32_000)):
        messages.step(ScriptedStep(text="Hi"))
        ask(provider_for(messages, limit), UserTurn("Hello"))
        assert expected == messages.requests[-1].body["max_tokens"]


def test_the_cache_is_marked_where_it_pays(messages):
    """The system prompt, the last tool and the last two messages of the user are marked."""
    history: list[ModelMessage] = [UserTurn("Hello")]
    for number in range(3):
        messages.step(ScriptedStep(calls=(Call.of("read", n=number), Call.of("read", n=-number))))
        take_step(provider_for(messages), history)
    sent = messages.requests[-1].body
    mark = {"type": "ephemeral"}
    assert mark == sent["system"][0]["cache_control"]
    assert mark == sent["tools"][-1]["cache_control"]
    marked = [
        (index, place)
        for index, message in enumerate(sent["messages"])
        for place, block in enumerate(message["content"])
        if "cache_control" in block
    ]
    assert [(2, 1), (4, 1)] == marked


def test_results_come_before_what_the_user_says(messages):
    """An interrupted turn and the next prompt are one message, results first."""
    history: list[ModelMessage] = [
        UserTurn("Hello"),
        AssistantTurn(tool_calls=(ToolCall("c1", "read", "{}"), ToolCall("c2", "read", "{}"))),
        ToolResult("c1", "read", "found"),
        ToolResult("c2", "read", "interrupted", failed=True),
        UserTurn("Go on"),
    ]
    messages.step(ScriptedStep(text="Hi"))
    take_step(provider_for(messages), history)
    blocks = messages.requests[0].body["messages"][-1]["content"]
    assert ["tool_result", "tool_result", "text"] == [block["type"] for block in blocks]
    assert [False, True] == [block["is_error"] for block in blocks[:2]]


def test_a_conversation_that_the_model_begins_has_a_user_before(messages):
    """The format begins with the user."""
    messages.step(ScriptedStep(text="Hi"))
    take_step(provider_for(messages), [AssistantTurn("I said"), UserTurn("Hello")])
    assert ["user", "assistant", "user"] == [
        m["role"] for m in messages.requests[0].body["messages"]
    ]


def test_blocks_go_back_in_their_order(messages):
    """Interleaved thinking, text and calls come back as they were, redacted thinking too."""
    redacted = {"type": "redacted_thinking", "data": "sealed"}
    signed: list[dict[str, Any]] = [
        {"type": "thinking_delta", "thinking": "Hm"},
        {"type": "signature_delta", "signature": "sig"},
        {"type": "signature_delta", "signature": "nature-x"},
    ]
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    text = [{"type": "text_delta", "text": "Look"}]
    call = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
    kept = {"type": "thinking", "thinking": "Hm", "signature": "signature-x"}
    messages.seal(kept)
    events = [
        message_start(),
        *message_block(0, redacted, []),
        *message_block(1, {"type": "text", "text": ""}, text),
        *message_block(2, thinking, signed),
        *message_block(3, call, [{"type": "input_json_delta", "partial_json": '{"a": 1}'}]),
        message_delta("tool_use"),
        MESSAGE_STOP,
    ]
    messages.reply(Reply(tuple(events), label="signature-x"))
    history: list[ModelMessage] = [UserTurn("Hello")]
    take_step(provider_for(messages), history)
    messages.step(ScriptedStep(text="Done"))
    take_step(provider_for(messages), history)
    blocks = messages.requests[1].body["messages"][1]["content"]
    assert [redacted, {"type": "text", "text": "Look"}, kept] == blocks[:3]
    assert ("tool_use", {"a": 1}) == (blocks[3]["type"], blocks[3]["input"])


def test_thinking_that_is_not_shown_is_still_sent_back(messages):
    """A block with an empty text and a signature is kept."""
    block = {"type": "thinking", "thinking": "", "signature": ""}
    signed = [{"type": "signature_delta", "signature": "s"}]
    answer = answer_to(messages, *message_block(0, block, signed), message_delta("end_turn"))
    assert "" == answer.thought
    assert {"blocks": [{"type": "thinking", "thinking": "", "signature": "s"}]} == answer.state


def test_thinking_alone_is_not_sent_back(messages):
    """A step that was cut in its thinking cannot spoil the next request."""
    messages.step(ScriptedStep(thought="long", finish="max_tokens"))
    history: list[ModelMessage] = [UserTurn("Hello")]
    assert FinishReason.LENGTH is take_step(provider_for(messages), history).finish
    history.append(UserTurn("Go on"))
    messages.step(ScriptedStep(text="Done"))
    take_step(provider_for(messages), history)
    assert b"long" not in messages.requests[1].raw


def test_a_step_does_not_end_with_thinking(messages):
    """Where the call that a thought led to was cut, the thought is not sent back either."""
    thinking = {"type": "thinking", "thinking": "Hm", "signature": "s"}
    state = {"blocks": [{"type": "text", "length": 2}, thinking, {"type": "tool_use"}]}
    history: list[ModelMessage] = [
        UserTurn("Hello"),
        AssistantTurn("So", provider="scripted", state=state),
        UserTurn("Go on"),
    ]
    messages.step(ScriptedStep(text="Done"))
    take_step(provider_for(messages), history)
    assert [{"type": "text", "text": "So"}] == messages.requests[0].body["messages"][1]["content"]


def test_a_call_without_arguments_is_an_empty_object(messages):
    """A block that ends without any piece is a call with no arguments."""
    call = {"type": "tool_use", "id": "t", "name": "list", "input": {}}
    empty = [{"type": "input_json_delta", "partial_json": ""}]
    answer = answer_to(messages, *message_block(0, call, empty), message_delta("tool_use"))
    assert (("t", "list", "{}"),) == answer.calls


def test_a_call_that_comes_whole_is_taken_whole(messages):
    """Other servers of the format put the input where the block starts."""
    call = {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "x"}}
    answer = answer_to(messages, *message_block(0, call, []), message_delta("tool_use"))
    assert (("t", "read", '{"path": "x"}'),) == answer.calls


def test_a_call_that_was_cut_is_not_completed(messages):
    """Without the end of its block a call has only the pieces that came."""
    call = {"type": "tool_use", "id": "t", "name": "list", "input": {}}
    start = message_block(0, call, [])[0]
    messages.stream(message_start(), start, Then.CUT)
    stream = provider_for(messages).stream(request(UserTurn("Hello")), CancelToken())
    events = []
    with pytest.raises(ProviderError):
        for event in stream:
            events.append(event)  # noqa: PERF402 (what came before the fault is looked at)
    assert "" == "".join(getattr(event, "arguments", "") for event in events)


def test_an_answer_without_its_last_event_broke_off(messages):
    """A stop reason is not the end; `message_stop` is."""
    text = [{"type": "text_delta", "text": "Hello"}]
    block = message_block(0, {"type": "text", "text": ""}, text)
    messages.stream(message_start(), *block, message_delta("end_turn"))
    with pytest.raises(ProviderError) as caught:
        ask(provider_for(messages), UserTurn("Hello"))
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("pause_turn", FinishReason.PAUSE),
        ("refusal", FinishReason.REFUSAL),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("something_new", FinishReason.STOP),
    ],
)
def test_stop_reasons(messages, reason, expected):
    """Each stop reason of the format is understood; a new one is a stop."""
    assert expected is answer_to(messages, message_delta(reason)).finish


@pytest.mark.parametrize(
    ("kind", "retryable"),
    [
        ("overloaded_error", True),
        ("api_error", True),
        ("rate_limit_error", True),
        ("invalid_request_error", False),
        ("authentication_error", False),
    ],
)
def test_an_error_in_the_middle_of_a_stream(messages, kind, retryable):
    """An error event is a fault with what it says, after what was shown."""
    text = [{"type": "text_delta", "text": "Hel"}]
    begun = message_block(0, {"type": "text", "text": ""}, text)[:2]
    error = message_event("error", error={"type": kind, "message": "Sorry"})
    messages.stream(message_start(), *begun, error)
    stream = provider_for(messages).stream(request(UserTurn("Hello")), CancelToken())
    assert TextDelta("Hel") == next(stream)
    with pytest.raises(ProviderError) as caught:
        next(stream)
    assert retryable is caught.value.retryable


def test_blocks_of_one_thought_are_paragraphs(messages):
    """Two thinking blocks in a row are told apart."""
    block = {"type": "thinking", "thinking": "", "signature": ""}
    events = [
        event
        for index, thought in enumerate("ab")
        for event in message_block(index, block, [{"type": "thinking_delta", "thinking": thought}])
    ]
    messages.stream(message_start(), *events, message_delta("end_turn"), MESSAGE_STOP)
    got = ask(provider_for(messages), UserTurn("Hello"))
    assert "a\n\nb" == "".join(event.text for event in got if isinstance(event, ThoughtDelta))


def test_a_finished_message_is_not_waited_for(messages):
    """Nothing follows the event that ends a message."""
    messages.stream(*message_stream(ScriptedStep(text="Hello")), Then.STALL)
    assert "Hello" == collect(ask(provider_for(messages), UserTurn("Hello"))).text


SUMMARIZED = {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(
    ("model", "effort", "thinking", "config"),
    [
        # The generation that decides for itself and shows nothing unless it is asked to.
        ("claude-opus-5-5", None, SUMMARIZED, None),
        ("claude-sonnet-5", "medium", SUMMARIZED, {"effort": "medium"}),
        ("claude-haiku-5-5", "minimal", SUMMARIZED, {"effort": "low"}),
        ("claude-opus-5", "xhigh", SUMMARIZED, {"effort": "xhigh"}),
        ("claude-fable-5-1", "none", None, {"effort": "low"}),
        ("claude-mythos-5", "none", None, {"effort": "low"}),
        ("claude-opus-5-5", "none", None, {"effort": "low"}),
        ("claude-sonnet-5-5", "none", {"type": "between_tools"}, None),
        ("claude-sonnet-5", "none", {"type": "disabled"}, None),
        ("claude-haiku-5-5", "none", {"type": "disabled"}, None),
        # The first that took an effort: off unless asked for.
        ("claude-opus-4-6", None, None, None),
        ("claude-sonnet-4-6", "xhigh", SUMMARIZED, {"effort": "max"}),
        ("claude-opus-4-8", "xhigh", SUMMARIZED, {"effort": "xhigh"}),
        ("claude-mythos-preview", "high", SUMMARIZED, {"effort": "high"}),
        ("us.anthropic.claude-opus-4-7-v1", "low", SUMMARIZED, {"effort": "low"}),
        # Before, and elsewhere: a budget.
        ("claude-haiku-4-5-20251001", "high", {"type": "enabled", "budget_tokens": 20_000}, None),
        ("claude-opus-4-20250514", "minimal", {"type": "enabled", "budget_tokens": 1024}, None),
        ("claude-3-7-sonnet-20250219", "low", {"type": "enabled", "budget_tokens": 4096}, None),
        ("glm-5", "xhigh", {"type": "enabled", "budget_tokens": 30_976}, None),
        ("glm-5", "none", {"type": "disabled"}, None),
        ("claude-sonnet-4-5", None, None, None),
    ],
)
def test_effort_in_the_words_of_each_generation(model, effort, thinking, config):
    """Each model gets the members that it accepts, and no others."""
    assert Thinking(thinking, config) == thinking_for(model, effort, 32_000)


def test_a_budget_leaves_room_for_the_answer():
    """A model that can write little is not asked to think."""
    assert Thinking() == thinking_for("glm-5", "high", 2000)


def test_thinking_is_not_asked_for_in_a_turn_that_began_without(messages):
    """A budget is refused where the turn under way called a tool before any thinking."""
    history: list[ModelMessage] = [UserTurn("Hello")]
    messages.step(ScriptedStep(calls=(Call.of("read", path="x"),)))
    take_step(provider_for(messages), history)
    messages.step(ScriptedStep(text="Done"))
    take_step(provider_for(messages), history, effort="low")
    history.append(UserTurn("Next"))
    messages.step(ScriptedStep(text="Done"))
    take_step(provider_for(messages), history, effort="low")
    assert [False, False, True] == ["thinking" in sent.body for sent in messages.requests]


def test_thinking_is_left_out_where_the_service_says_so(messages):
    """The service's own word on it counts, for that conversation alone."""
    refusal = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
    error = {"type": "invalid_request_error", "message": refusal}
    provider = provider_for(messages)
    messages.reply(json_reply(400, {"type": "error", "error": error}))
    for _ in range(2):
        messages.step(ScriptedStep(text="Done"))
        ask(provider, UserTurn("Hello"), effort="low")
    assert [True, False, True] == ["thinking" in sent.body for sent in messages.requests]


def test_the_window_is_not_asked_for(messages):
    """The catalog knows it."""
    assert provider_for(messages).context_window("m", CancelToken()) is None
    assert [] == messages.requests
