"""What each provider makes of well-formed answers, and what it sends back afterwards."""

from __future__ import annotations

import itertools
import json
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.model import (
    AssistantTurn,
    Finish,
    FinishReason,
    ModelEvent,
    ModelMessage,
    StateDelta,
    TextDelta,
    ThoughtDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    Usage,
    UserTurn,
)
from term2_acp.agent.ports import Provider
from term2_acp.identifiers import new_id
from tests.models.http import HttpServer, in_pieces
from tests.models.steps import Call, ScriptedStep
from tests.providers.conftest import FORMATS, KEY, Format, Service, ask, request


@attrs.frozen
class Answer:
    """The events of an answer, put together as the loop does."""

    text: str
    thought: str
    calls: tuple[tuple[str, str, str], ...]
    state: Any
    usage: Usage | None
    finish: FinishReason


def collect(events: list[ModelEvent]) -> Answer:
    """Put an answer together; its finish comes last, and once."""
    calls: dict[int, list[str]] = {}
    for event in events:
        if isinstance(event, ToolCallDelta):
            pieces = calls.setdefault(event.index, ["", "", ""])
            pieces[0] += event.call_id
            pieces[1] += event.name
            pieces[2] += event.arguments
    finishes = [event.reason for event in events if isinstance(event, Finish)]
    assert isinstance(events[-1], Finish)
    assert 1 == len(finishes)
    states = [event.state for event in events if isinstance(event, StateDelta)]
    usages = [event for event in events if isinstance(event, Usage)]
    assert len(states) <= 1
    assert len(usages) <= 1
    return Answer(
        "".join(event.text for event in events if isinstance(event, TextDelta)),
        "".join(event.text for event in events if isinstance(event, ThoughtDelta)),
        tuple((p[0], p[1], p[2]) for _, p in sorted(calls.items())),
        states[0] if states else None,
        usages[0] if usages else None,
        finishes[0],
    )


def take_step(provider: Provider, history: list[ModelMessage], **members: Any) -> Answer:
    """Ask for the next step, and write it into the history as the loop would."""
    events = list(provider.stream(request(*history, **members), CancelToken()))
    answer = collect(events)
    # The loop gives every call an id of its own.
    calls = tuple(ToolCall(new_id("call"), name, text) for _, name, text in answer.calls)
    # The log is JSON, so the state has to be.
    state = json.loads(json.dumps(answer.state))
    history.append(AssistantTurn(answer.text, answer.thought, calls, provider.name, state))
    history.extend(ToolResult(call.call_id, call.name, f"result of {call.name}") for call in calls)
    return answer


def test_a_whole_step_arrives_in_pieces(service):
    """Text, reasoning and parallel calls come as they are sent, and exactly once."""
    calls = (Call.of("read_file", path="ä.txt"), Call("list_all", "{}"))
    service.step(text="Héllo €", thought="I think", calls=calls)
    events = service.ask()
    answer = collect(events)
    assert ("Héllo €", "I think") == (answer.text, answer.thought)
    assert tuple((c.name, c.arguments) for c in calls) == tuple(c[1:] for c in answer.calls)
    assert all(call_id for call_id, _, _ in answer.calls)
    assert 2 == len({call_id for call_id, _, _ in answer.calls})
    assert 2 == sum(isinstance(event, TextDelta) for event in events)
    assert FinishReason.TOOL_CALLS is answer.finish
    assert Usage(11, 7, 5) == answer.usage


def test_an_answer_without_calls_is_a_stop(service):
    """A plain answer ends with stop."""
    service.step(text="Hello")
    assert FinishReason.STOP is collect(service.ask()).finish


def test_an_empty_answer_is_still_an_answer(service):
    """A model may say nothing; that is a finish, and no text."""
    service.step()
    answer = collect(service.ask())
    assert ("", FinishReason.STOP) == (answer.text, answer.finish)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("length", "max_output_tokens", "max_tokens"), FinishReason.LENGTH),
        (("content_filter", "content_filter", "refusal"), FinishReason.REFUSAL),
    ],
)
def test_why_the_model_stopped(service, words, expected):
    """Each vendor's words for a cut and for a refusal are understood."""
    word = dict(zip(("chat", "responses", "messages"), words, strict=True))[service.format.name]
    service.step(text="Hello", finish=word)
    assert expected is collect(service.ask()).finish


def test_line_separators_of_unicode_are_text(service):
    """U+2028, U+2029 and U+0085 inside an event do not end it."""
    text = "a\u2028b\u2029c\u0085d\x0be\x1cf"
    service.step(text=text, calls=(Call.of("write", text=text),))
    answer = collect(service.ask())
    assert text == answer.text
    assert {"text": text} == json.loads(answer.calls[0][2])


def _session(format_: Format) -> tuple[HttpServer, Provider, list[ModelEvent]]:
    server = format_.make_server()
    provider = format_.make_provider(
        "scripted", base_url=server.url + format_.path, api_key=KEY, idle_timeout_s=30.0
    )
    whole = b"".join(format_.encode(RICH_STEP))
    Service(format_, server).stream(whole)
    return server, provider, ask(provider, UserTurn("Hello"))


RICH_STEP = ScriptedStep(
    text="Grüße, 世界 🌍\r\n" * 2,
    thought="höchst 🤔",
    calls=(Call.of("read_file", path="ü🌍.txt"), Call.of("grep", pattern="\u2028")),
)


@pytest.mark.parametrize("format_", FORMATS, ids=[format_.name for format_ in FORMATS])
def test_where_the_bytes_are_cut_changes_nothing(format_):
    """The same stream in any chunks, inside characters and events too, gives the same events."""
    server, provider, expected = _session(format_)
    whole = b"".join(format_.encode(RICH_STEP))

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.integers(1, 90), min_size=1, max_size=60))
    def check(sizes):
        Service(format_, server).stream(*in_pieces(whole, sizes))
        assert expected == ask(provider, UserTurn("Hello"))

    check()
    # The hardest of them all: every byte on its own.
    Service(format_, server).stream(*in_pieces(whole, [1]))
    assert expected == ask(provider, UserTurn("Hello"))
    server.close()
    assert [] == server.faults


def test_lines_may_end_with_carriage_returns(service):
    """A stream with CRLF line ends is the same stream."""
    whole = b"".join(service.format.encode(ScriptedStep(text="Hello", thought="Hm")))
    service.stream(*in_pieces(whole.replace(b"\n", b"\r\n"), [7, 1, 3]))
    assert "Hello" == collect(service.ask()).text


def test_a_long_session_is_accepted_at_every_step(service):
    """30 steps with 20 calls, resumed in the middle, keep to every rule of the format."""
    provider = service.provider()
    history: list[ModelMessage] = [UserTurn("Do it.", attached="[resource a: file:///a]")]
    for number in range(30):
        calls = () if number % 3 == 2 else (Call.of("read_file", path=f"f{number}"),)
        service.step(text=f"step {number}" if number % 2 else "", thought=f"t{number}", calls=calls)
        take_step(provider, history)
        if not calls:
            history.append(UserTurn(f"Go on after {number}."))
        if number == 15:
            # As a new process would.
            provider = service.provider()
    assert 30 == len(service.server.requests)


def test_reasoning_comes_back_unchanged(service):
    """What the vendor needs of a step with calls is in the next request, also after a resume."""
    history: list[ModelMessage] = [UserTurn("Hello")]
    service.step(text="So", thought="Because", calls=(Call.of("read_file", path="x"),))
    take_step(service.provider(), history)
    service.step(text="Done")
    take_step(service.provider(), history)
    sent = service.server.requests[1].body
    expected = {
        "chat": ("messages", {"reasoning_content": "Because"}),
        "responses": ("input", {"type": "reasoning", "encrypted_content": "sealed-0-Because"}),
        "messages": ("messages", {"type": "thinking", "signature": "signature-0"}),
    }
    member, wanted = expected[service.format.name]
    items = [item for item in sent[member] if isinstance(item.get("content"), list)]
    flat = [*sent[member], *(block for item in items for block in item["content"])]
    assert [] != [item for item in flat if wanted.items() <= item.items()]


def test_reasoning_of_another_provider_is_left_out(service):
    """A state of a provider with another name is ignored, and the history is accepted."""
    for other in FORMATS:
        server = other.make_server()
        elsewhere = Service(other, server)
        history: list[ModelMessage] = [UserTurn("Hello")]
        elsewhere.step(text="So", thought="Because", calls=(Call.of("read_file", path="x"),))
        take_step(elsewhere.provider(name="elsewhere"), history)
        elsewhere.step(text="Then", thought="Also")
        take_step(elsewhere.provider(name="elsewhere"), history)
        server.close()
        history.append(UserTurn("Now you."))
        service.step(text="Done")
        take_step(service.provider(), history)
    sent = b"".join(request_.raw for request_ in service.server.requests)
    assert b"Because" not in sent
    assert b"signature" not in sent


@pytest.mark.parametrize("service", FORMATS[1:], ids=["responses", "messages"], indirect=True)
def test_refused_reasoning_is_left_out_from_then_on(service):
    """Where the vendor no longer accepts old reasoning, the conversation goes on without it."""
    history: list[ModelMessage] = [UserTurn("Hello")]
    service.step(thought="Because", calls=(Call.of("read_file", path="x"),))
    take_step(service.provider(), history)
    service.server.forget_reasoning()
    service.step(text="Later", thought="New", calls=(Call.of("read_file", path="y"),))
    take_step(service.provider(), history)
    # Refused once, then sent without; and from then on at once.
    assert 3 == len(service.server.requests)
    service.step(text="Done")
    take_step(service.provider(), history)
    assert 4 == len(service.server.requests)
    assert b"Because" not in service.server.requests[3].raw
    assert b"New" in service.server.requests[3].raw


def test_nothing_blank_and_nothing_malformed_is_sent_back(service):
    """Blank texts, made-up names, broken arguments and surrogates cannot spoil a session."""
    calls = (
        ToolCall("call_1", "no such tool!", '{"path": "\\ud99c"}'),
        ToolCall("call_2", "", '{"command": "touch A'),
        ToolCall("call_3", "x" * 200, "[1, 2]"),
        ToolCall("call_4", "grep", ""),
        ToolCall("call_5", "grep", '{"a": NaN}'),
    )
    results = (
        ToolResult("call_1", "no such tool!", "\ud800", failed=True),
        ToolResult("call_2", "", ""),
        ToolResult("call_3", "x", " \n"),
        ToolResult("call_4", "grep", "found"),
        ToolResult("call_5", "grep", "found"),
    )
    history: list[ModelMessage] = [
        UserTurn("a\ud83d", attached=" "),
        AssistantTurn(),
        UserTurn(" ", attached="[b]"),
        AssistantTurn(" \n", thought="hm", tool_calls=calls),
        *results,
        AssistantTurn("text \udc00"),
        AssistantTurn("and more"),
        UserTurn("c"),
        AssistantTurn(thought="only thoughts", provider="scripted", state={"items": 3}),
        UserTurn("d"),
    ]
    service.step(text="Done")
    take_step(service.provider(), history)
    [sent] = service.server.requests
    assert "\ufffd" in sent.raw.decode()
    assert "malformed_arguments" in sent.raw.decode()
    assert '"text":""' not in sent.raw.decode()


def test_a_state_that_makes_no_sense_is_ignored(service):
    """A log from another version cannot spoil a request."""
    states: list[Any] = [
        None,
        "x",
        [],
        {"blocks": None, "items": None},
        {"blocks": [1, {}], "items": [1, {}]},
        {"reasoning_content": ""},
    ]
    history: list[ModelMessage] = [UserTurn("Hello")]
    for number, state in enumerate(states):
        call = ToolCall(f"call_{number}", "grep", "{}")
        history.append(AssistantTurn("So", tool_calls=(call,), provider="scripted", state=state))
        history.append(ToolResult(call.call_id, "grep", "found"))
    service.step(text="Done")
    take_step(service.provider(), history)
    assert 1 == len(service.server.requests)


def test_the_user_and_what_is_attached_are_both_sent(service):
    """What was typed comes first, what was attached after it."""
    service.step(text="Done")
    take_step(service.provider(), [UserTurn("typed", attached="attached")])
    sent = service.server.requests[0].raw.decode()
    assert sent.index("typed") < sent.index("attached")


def test_the_same_conversation_is_always_begun_the_same_way(service):
    """A longer request begins with all of the shorter one, so that caches hold."""
    history: list[ModelMessage] = [UserTurn("Hello")]
    for number in range(4):
        service.step(
            text=f"step {number}", thought="Hm", calls=(Call.of("read_file", path=str(number)),)
        )
        take_step(service.provider(), history)
    bodies = [request_.body for request_ in service.server.requests]
    member = "input" if service.format.name == "responses" else "messages"
    for before, after in itertools.pairwise(bodies):
        shorter = _without_marks(before[member])
        assert shorter == _without_marks(after[member])[: len(shorter)]


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_marks(v) for k, v in value.items() if k != "cache_control"}
    return [_without_marks(item) for item in value] if isinstance(value, list) else value


def test_a_rehearsal_needs_no_network(service):
    """Warming up loads the SDK, asks nobody, and never fails."""
    service.provider().warm()
    service.provider(base_url="http://[::1").warm()
    service.provider(api_key="sk-tëst").warm()
    assert [] == service.server.requests
