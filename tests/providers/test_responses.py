"""The Responses API: its items, their order, and servers that leave events out."""

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
    UserTurn,
)
from term2_acp.providers.responses import ResponsesProvider
from tests.models.http import Then, json_reply, server_sent_event
from tests.models.responses import (
    USAGE,
    ResponsesServer,
    ResponseStream,
    reasoning_item,
    response_body,
    response_stream,
)
from tests.models.steps import Call, ScriptedStep
from tests.providers.conftest import ask, request
from tests.providers.test_provider_streams import collect, take_step


def provider_for(server: ResponsesServer) -> ResponsesProvider:
    """A provider for a scripted service."""
    return ResponsesProvider("scripted", base_url=server.base_url, api_key="k", idle_timeout_s=30.0)


def completed(writer: ResponseStream, output: list[dict[str, Any]]) -> bytes:
    """The event that ends a response."""
    return writer.event(
        "response.completed", response=response_body("completed", output, usage=USAGE)
    )


def test_nothing_is_stored_and_the_reasoning_comes_back_sealed(responses):
    """A request asks for sealed reasoning, a summary and no storage."""
    responses.step(ScriptedStep(text="Hi"))
    ask(provider_for(responses), UserTurn("Hello"))
    sent = responses.requests[0].body
    assert False is sent["store"]
    assert ["reasoning.encrypted_content"] == sent["include"]
    assert {"summary": "auto"} == sent["reasoning"]
    assert "Be brief." == sent["instructions"]
    assert False is sent["tools"][0]["strict"]


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh"])
def test_effort_goes_with_a_summary(responses, effort):
    """The effort is passed on; without reasoning there is nothing to summarize."""
    responses.step(ScriptedStep(text="Hi"))
    ask(provider_for(responses), UserTurn("Hello"), effort=effort)
    expected = {"effort": effort} | ({} if effort == "none" else {"summary": "auto"})
    assert expected == responses.requests[0].body["reasoning"]


def test_a_model_that_does_not_reason_is_not_asked_to(responses):
    """Earlier models refuse both members."""
    responses.step(ScriptedStep(text="Hi"))
    list(provider_for(responses).stream(request(UserTurn("Hello"), model="gpt-4.1"), CancelToken()))
    assert {"reasoning", "include"}.isdisjoint(responses.requests[0].body)


def test_requests_of_one_conversation_meet_in_one_cache(responses):
    """The cache key is that of the conversation, not of the step."""
    history: list[ModelMessage] = [UserTurn("Hello")]
    for _ in range(2):
        responses.step(ScriptedStep(calls=(Call.of("read", path="x"),)))
        take_step(provider_for(responses), history)
    responses.step(ScriptedStep(text="Hi"))
    ask(provider_for(responses), UserTurn("Another"))
    keys = [sent.body["prompt_cache_key"] for sent in responses.requests]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    ("refusal", "member"),
    [
        ("Encrypted content is not supported with this model.", "include"),
        ("Your organization must be verified to generate reasoning summaries.", "reasoning"),
        (
            "Unsupported parameter: 'reasoning.summary' is not supported with this model",
            "reasoning",
        ),
    ],
)
def test_a_model_without_a_feature_is_asked_without_it(responses, refusal, member):
    """What a model refuses is left out, and that is remembered."""
    responses.reply(json_reply(400, {"error": {"message": refusal}}))
    provider = provider_for(responses)
    for _ in range(2):
        responses.step(ScriptedStep(text="Hi"))
        ask(provider, UserTurn("Hello"))
    assert [True, False, False] == [member in sent.body for sent in responses.requests]


def test_items_go_back_in_their_order_with_their_phase(responses):
    """Reasoning, commentary, reasoning, call and text come back as they were."""
    writer = ResponseStream()
    seals = [reasoning_item(0, "one"), reasoning_item(1, "two")]
    responses.seal(*seals)
    content = [{"type": "output_text", "text": "Look: ", "annotations": []}]
    commentary = {"id": "m", "type": "message", "content": content, "phase": "commentary"}
    call = {"id": "f", "type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
    items = [seals[0], commentary, seals[1], call]
    responses.stream(
        *(
            writer.event("response.output_item.done", output_index=index, item=item)
            for index, item in enumerate(items)
        ),
        completed(writer, items),
    )
    history: list[ModelMessage] = [UserTurn("Hello")]
    take_step(provider_for(responses), history)
    responses.step(ScriptedStep(text="Done"))
    take_step(provider_for(responses), history)
    sent = responses.requests[1].body["input"]
    kinds = [item.get("type", item.get("role")) for item in sent]
    assert [
        "user",
        "reasoning",
        "assistant",
        "reasoning",
        "function_call",
        "function_call_output",
    ] == kinds
    assert {"role": "assistant", "content": "Look: ", "phase": "commentary"} == sent[2]


def test_reasoning_that_led_to_nothing_is_not_sent_back(responses):
    """A step that was cut after its reasoning cannot spoil the next request."""
    seal = reasoning_item(0, "long")
    cut = response_stream(ScriptedStep(thought="long", finish="max_output_tokens"), seal)
    responses.stream(b"".join(cut))
    history: list[ModelMessage] = [UserTurn("Hello")]
    assert FinishReason.LENGTH is take_step(provider_for(responses), history).finish
    history.append(UserTurn("Go on"))
    responses.step(ScriptedStep(text="Done"))
    take_step(provider_for(responses), history)
    assert b"reasoning" not in b"".join(
        str(item).encode() for item in responses.requests[1].body["input"]
    )


def test_a_step_does_not_end_with_reasoning(responses):
    """Where the call that a thought led to was cut, the thought is not sent back either."""
    items = [{"type": "message", "length": 2}, reasoning_item(0, "Hm"), {"type": "function_call"}]
    history: list[ModelMessage] = [
        UserTurn("Hello"),
        AssistantTurn("So", provider="scripted", state={"items": items}),
        UserTurn("Go on"),
    ]
    responses.step(ScriptedStep(text="Done"))
    take_step(provider_for(responses), history)
    assert {"role": "assistant", "content": "So"} == responses.requests[0].body["input"][1]


def test_reasoning_that_was_not_sealed_is_not_sent_back(responses):
    """The vendor would look for an item that it did not store."""
    writer = ResponseStream()
    bare = {"id": "rs_1", "type": "reasoning", "summary": []}
    call = {"id": "f", "type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
    responses.stream(
        *(
            writer.event("response.output_item.done", output_index=index, item=item)
            for index, item in enumerate([bare, call])
        ),
        completed(writer, [bare, call]),
    )
    history: list[ModelMessage] = [UserTurn("Hello")]
    take_step(provider_for(responses), history)
    responses.step(ScriptedStep(text="Done"))
    take_step(provider_for(responses), history)
    assert b"rs_1" not in responses.requests[1].raw


def test_what_was_not_sent_in_pieces_is_taken_from_the_whole(responses):
    """A server may leave out the deltas, or send nothing but the end."""
    step = ScriptedStep(text="Hello", thought="Hm", calls=(Call.of("read", path="x"),))
    events = response_stream(step, reasoning_item(0, "Hm"))
    without_deltas = [event for event in events if b".delta" not in event]
    only_the_end = [events[0], events[-1]]
    whole = collect(_answers(responses, events))
    for sent in (without_deltas, only_the_end):
        assert whole == collect(_answers(responses, sent))


def _answers(server: ResponsesServer, events: list[bytes]) -> list[Any]:
    server.stream(*events)
    return ask(provider_for(server), UserTurn("Hello"))


def test_paragraphs_of_reasoning_stay_apart(responses):
    """The parts of a summary, and the reasoning of several items, are paragraphs."""
    writer = ResponseStream()
    kind = "response.reasoning_summary"
    events = []
    for index, parts in enumerate((("a", "b"), ("c",))):
        for number, part in enumerate(parts):
            place = {"output_index": index, "item_id": f"r{index}", "summary_index": number}
            empty = {"type": "summary_text", "text": ""}
            events.append(writer.event(f"{kind}_part.added", part=empty, **place))
            events.append(writer.event(f"{kind}_text.delta", delta=part, **place))
    answers = _answers(responses, [*events, completed(writer, [])])
    thoughts = "".join(event.text for event in answers if isinstance(event, ThoughtDelta))
    assert "a\n\nb\n\nc" == thoughts


def test_a_refusal_is_shown_and_ends_so(responses):
    """The model's own refusal is text for the user, and a refusal for the loop."""
    writer = ResponseStream()
    place = {"output_index": 0, "item_id": "m", "content_index": 0}
    refusal = writer.event("response.refusal.delta", delta="I will not.", **place)
    answer = collect(_answers(responses, [refusal, completed(writer, [])]))
    assert ("I will not.", FinishReason.REFUSAL) == (answer.text, answer.finish)


@pytest.mark.parametrize(
    ("error", "retryable", "overflow"),
    [
        ({"code": "server_error", "message": "Sorry"}, True, False),
        ({"code": "rate_limit_exceeded", "message": "Slow"}, True, False),
        ({"code": "invalid_prompt", "message": "Bad"}, False, False),
        ({"code": "context_length_exceeded", "message": "Long"}, False, True),
    ],
)
@pytest.mark.parametrize("form", ["failed", "event", "nested"])
def test_an_error_in_the_middle_of_a_stream(responses, form, error, retryable, overflow):
    """A response that fails, and both forms of an error event, are faults with what they say."""
    writer = ResponseStream()
    place = {"output_index": 0, "item_id": "m", "content_index": 0}
    begun = writer.event("response.output_text.delta", delta="Hel", logprobs=[], **place)
    end = {
        "failed": writer.event(
            "response.failed", response=response_body("failed", [], error=error)
        ),
        "event": writer.event("error", param=None, **error),
        "nested": server_sent_event({"type": "error", "error": error}, "error"),
    }
    responses.stream(begun, end[form])
    stream = provider_for(responses).stream(request(UserTurn("Hello")), CancelToken())
    assert TextDelta("Hel") == next(stream)
    with pytest.raises(ProviderError) as caught:
        next(stream)
    assert (retryable, overflow) == (caught.value.retryable, caught.value.context_overflow)
    assert error["message"] in caught.value.message


def test_a_finished_response_is_not_waited_for(responses):
    """Nothing follows the event that ends a response."""
    responses.stream(*response_stream(ScriptedStep(text="Hello")), Then.STALL)
    assert "Hello" == collect(ask(provider_for(responses), UserTurn("Hello"))).text


def test_the_window_is_not_asked_for(responses):
    """The service does not tell it."""
    assert provider_for(responses).context_window("m", CancelToken()) is None
    assert [] == responses.requests
