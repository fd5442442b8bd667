"""Chat Completions as servers really speak it: gaps, repetitions, fields of their own."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from term2_acp.agent.cancel import Cancelled, CancelToken
from term2_acp.agent.model import (
    AssistantTurn,
    Finish,
    FinishReason,
    ModelMessage,
    ProviderError,
    StateDelta,
    TextDelta,
    ThoughtDelta,
    ToolCall,
    ToolResult,
    Usage,
    UserTurn,
)
from term2_acp.providers.chat_completions import ChatCompletionsProvider
from tests.models.chat import CHAT_DONE, ChatServer, chat_chunk, chat_usage
from tests.models.http import Reply, Then, json_reply, server_sent_event
from tests.models.steps import Call, ScriptedStep
from tests.providers.conftest import KEY, ask, request
from tests.providers.test_provider_streams import collect, take_step


def provider_for(server: ChatServer, **options: Any) -> ChatCompletionsProvider:
    """A provider for a scripted service."""
    given = {"base_url": server.base_url, "api_key": None, "idle_timeout_s": 30.0, **options}
    return ChatCompletionsProvider("scripted", **given)


def calls_of(server: ChatServer, *pieces: Any, finish: str = "tool_calls") -> list[tuple[str, str]]:
    """The names and arguments of the calls that some pieces make."""
    chunks = [chat_chunk({"tool_calls": [piece]}) for piece in pieces]
    server.stream(b"".join([*chunks, chat_chunk({}, finish), chat_usage(), CHAT_DONE]))
    answer = collect(ask(provider_for(server), UserTurn("Hello")))
    assert FinishReason.TOOL_CALLS is answer.finish
    return [(name, arguments) for _, name, arguments in answer.calls]


def piece(arguments: Any = None, **members: Any) -> dict[str, Any]:
    """A piece of a call; `name` is a member of its function."""
    function = {"name": members.pop("name", None), "arguments": arguments}
    return {"function": function, **members}


TWO = [("read", '{"a": 1}'), ("grep", '{"b": 2}')]


@pytest.mark.parametrize(
    "pieces",
    [
        # As documented.
        [
            piece("", index=0, id="x", name="read"),
            piece('{"a": 1}', index=0),
            piece("", index=1, id="y", name="grep"),
            piece('{"b": 2}', index=1),
        ],
        # Interleaved.
        [
            piece("", index=0, id="x", name="read"),
            piece("", index=1, id="y", name="grep"),
            piece('{"a"', index=0),
            piece('{"b"', index=1),
            piece(": 1}", index=0),
            piece(": 2}", index=1),
        ],
        # Whole calls, one index for all.
        [
            piece('{"a": 1}', index=0, id="x", name="read"),
            piece('{"b": 2}', index=0, id="y", name="grep"),
        ],
        # No index at all.
        [piece('{"a": 1}', id="x", name="read"), piece('{"b": 2}', id="y", name="grep")],
        # Neither ids nor an index.
        [piece('{"a": 1}', name="read"), piece('{"b": 2}', name="grep")],
        # One index, no ids.
        [piece('{"a": 1}', index=0, name="read"), piece('{"b": 2}', index=0, name="grep")],
        # Id and name repeated with every piece.
        [
            piece('{"a"', index=0, id="x", name="read"),
            piece(": 1}", index=0, id="x", name="read"),
            piece('{"b"', index=1, id="y", name="grep"),
            piece(": 2}", index=1, id="y", name="grep"),
        ],
        # Only the name repeated, and something empty at the end.
        [
            piece('{"a"', index=0, name="read"),
            piece(": 1}", index=0, name="read"),
            piece("", index=0, name="read"),
            piece('{"b": 2}', index=1, name="grep"),
        ],
        # The index starts at one.
        [
            piece('{"a": 1}', index=1, id="x", name="read"),
            piece('{"b": 2}', index=2, id="y", name="grep"),
        ],
        # Arguments as objects.
        [piece({"a": 1}, index=0, id="x", name="read"), piece({"b": 2}, index=1, name="grep")],
    ],
)
def test_parallel_calls_are_told_apart(chat, pieces):
    """However a server numbers and repeats, two calls are two calls."""
    assert TWO == calls_of(chat, *pieces)


def test_calls_without_arguments_are_told_apart(chat):
    """Calls that have neither ids nor arguments differ by their names."""
    pieces = [piece(name="read"), piece(name="grep")]
    assert [("read", ""), ("grep", "")] == calls_of(chat, *pieces)


def test_the_same_call_twice_is_two_calls(chat):
    """Whole calls of one name after another are not one call."""
    pieces = [piece('{"a": 1}', index=0, name="read"), piece('{"a": 1}', index=0, name="read")]
    assert [("read", '{"a": 1}')] * 2 == calls_of(chat, *pieces)


def test_ids_tell_calls_apart_where_nothing_else_does(chat):
    """Two calls of one name under one index are two, because their ids differ."""
    pieces = [
        piece("", index=0, id="x", name="read"),
        piece('{"a": 1}', index=0),
        piece("", index=0, id="y", name="read"),
        piece('{"a": 2}', index=0),
    ]
    assert [("read", '{"a": 1}'), ("read", '{"a": 2}')] == calls_of(chat, *pieces)


def test_a_stop_with_calls_is_a_call_for_tools(chat):
    """Some servers end with `stop` although they ask for tools."""
    pieces = [piece('{"a": 1}', index=0, id="x", name="read")]
    assert [("read", '{"a": 1}')] == calls_of(chat, *pieces, finish="stop")


def test_odd_members_do_no_harm(chat):
    """Nulls and members of a wrong kind are passed over."""
    chat.stream(
        server_sent_event({"choices": None}),
        server_sent_event({"choices": [{"delta": None}, None]}),
        chat_chunk({"content": None, "tool_calls": None}),
        chat_chunk({"tool_calls": [None, {"index": "0", "function": None}]}),
        server_sent_event({"choices": [{"index": 1, "delta": {"content": "another choice"}}]}),
        chat_chunk({"content": "Hello"}, ""),
        chat_chunk({}, "stop", usage=None),
        chat_usage(),
    )
    assert "Hello" == collect(ask(provider_for(chat), UserTurn("Hello"))).text


def test_content_in_parts_is_text_and_thought(chat):
    """Mistral's servers send a list of typed parts."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}
    chat.stream(
        chat_chunk({"content": [thinking]}),
        chat_chunk({"content": [{"type": "text", "text": "Hello"}]}),
        chat_chunk({}, "stop"),
        chat_usage(),
    )
    events = ask(provider_for(chat), UserTurn("Hello"))
    assert [ThoughtDelta("Hm"), TextDelta("Hello")] == events[:2]


def test_reasoning_in_two_fields_is_shown_once(chat):
    """A server that says its reasoning in two fields says it once to the user."""
    chat.stream(
        chat_chunk({"reasoning": "Hm", "reasoning_content": "Hm"}),
        chat_chunk({"content": "Hello"}, "stop"),
        chat_usage(),
    )
    assert "Hm" == collect(ask(provider_for(chat), UserTurn("Hello"))).thought


def test_reasoning_goes_back_in_its_own_field(chat):
    """OpenRouter's details are joined and sent back; so is a `reasoning` without them."""
    details = [
        {"type": "reasoning.text", "index": 0, "text": "I ", "format": "f"},
        {"type": "reasoning.text", "index": 0, "text": "think", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "sealed"},
    ]
    call = chat_chunk({"tool_calls": [piece("{}", index=0, id="x", name="read")]}, "tool_calls")
    joined = [
        {**details[0], "text": "I think", "signature": "s"},
        details[2],
    ]
    for chunks, expected in (
        ([{"reasoning_details": [d], "reasoning": "t"} for d in details], joined),
        ([{"reasoning": "I "}, {"reasoning": "think"}], "I think"),
    ):
        chat.stream(*(chat_chunk(chunk) for chunk in chunks), call, chat_usage())
        history: list[ModelMessage] = [UserTurn("Hello")]
        take_step(provider_for(chat), history)
        chat.step(ScriptedStep(text="Done"))
        take_step(provider_for(chat), history)
        [assistant] = [m for m in chat.requests[-1].body["messages"] if m["role"] == "assistant"]
        sent = {name: value for name, value in assistant.items() if "reasoning" in name}
        assert [expected] == list(sent.values())


def test_reasoning_is_not_sent_back_where_no_tool_was_called(chat):
    """Without calls nobody wants it, and it costs."""
    history: list[ModelMessage] = [UserTurn("Hello")]
    chat.step(ScriptedStep(text="Hi", thought="Because"))
    take_step(provider_for(chat), history)
    history.append(UserTurn("Again"))
    chat.step(ScriptedStep(text="Hi"))
    take_step(provider_for(chat), history)
    assert b"Because" not in chat.requests[-1].raw


def test_a_server_that_wants_reasoning_gets_it_for_every_call():
    """A history of another provider gets what DeepSeek wants once it says so."""
    server = ChatServer(wants_reasoning=True)
    provider = provider_for(server)
    history: list[ModelMessage] = [
        UserTurn("Hello"),
        AssistantTurn(tool_calls=(ToolCall("c", "read", "{}"),), provider="other", state={"x": 1}),
        ToolResult("c", "read", "found"),
    ]
    for number in range(2):
        server.step(ScriptedStep(thought="Hm", calls=(Call.of("read", n=number),)))
        take_step(provider, history)
    server.close()
    # Refused once; then known.
    assert 3 == len(server.requests)
    assert 1 == len(server.faults)


def test_a_server_without_stream_options_is_asked_without_them(chat):
    """A refusal of `stream_options` is remembered for that model."""
    refusal = {"error": {"message": "Unrecognized request argument supplied: stream_options"}}
    chat.reply(json_reply(400, refusal))
    provider = provider_for(chat)
    for _ in range(2):
        chat.step(ScriptedStep(text="Hi"))
        ask(provider, UserTurn("Hello"))
    asked = ["stream_options" in sent.body for sent in chat.requests]
    assert [True, False, False] == asked


def test_a_server_that_wants_an_answer_after_results_gets_one(chat):
    """Where a user message may not follow tool results, something stands between."""
    refusal = {"message": "Unexpected role 'user' after role 'tool'"}
    chat.reply(json_reply(400, refusal))
    chat.step(ScriptedStep(text="Hi"))
    history: list[ModelMessage] = [
        UserTurn("Hello"),
        AssistantTurn(tool_calls=(ToolCall("c", "read", "{}"),)),
        ToolResult("c", "read", "interrupted"),
        UserTurn("Go on"),
    ]
    take_step(provider_for(chat), history)
    roles = [message["role"] for message in chat.requests[-1].body["messages"]]
    assert ["system", "user", "assistant", "tool", "assistant", "user"] == roles


def test_a_refusal_that_nothing_helps_against_is_told(chat):
    """A request is not sent again and again."""
    refusal = {"error": {"message": "stream_options: unknown"}}
    chat.reply(json_reply(400, refusal), json_reply(400, refusal))
    with pytest.raises(ProviderError):
        ask(provider_for(chat), UserTurn("Hello"))
    assert 2 == len(chat.requests)


def test_a_refusal_in_its_own_field_is_shown_and_ends_so(chat):
    """The model's own refusal is text for the user, and a refusal for the loop."""
    chat.stream(chat_chunk({"refusal": "I will not."}), chat_chunk({}, "stop"), chat_usage())
    answer = collect(ask(provider_for(chat), UserTurn("Hello")))
    assert ("I will not.", FinishReason.REFUSAL) == (answer.text, answer.finish)


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_a_server_that_gives_up_did_not_finish(chat, reason):
    """A finish that is none is a stream that broke off."""
    chat.stream(chat_chunk({"content": "Hel"}), chat_chunk({}, reason), CHAT_DONE)
    with pytest.raises(ProviderError) as caught:
        ask(provider_for(chat), UserTurn("Hello"))
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("error", "retryable", "overflow"),
    [
        ({"message": "Provider returned error", "code": 502}, True, False),
        ({"message": "Overloaded", "type": "overloaded_error"}, True, False),
        ({"message": "bad tool", "type": "invalid_request_error", "code": "bad"}, False, False),
        ({"message": "long", "code": "context_length_exceeded"}, False, True),
        ("just text", True, False),
    ],
)
def test_an_error_in_the_middle_of_a_stream(chat, error, retryable, overflow):
    """An error event is a fault with what it says, after what was shown."""
    chat.stream(chat_chunk({"content": "Hel"}), server_sent_event({"error": error}), CHAT_DONE)
    stream = provider_for(chat).stream(request(UserTurn("Hello")), CancelToken())
    assert TextDelta("Hel") == next(stream)
    with pytest.raises(ProviderError) as caught:
        next(stream)
    assert (retryable, overflow) == (caught.value.retryable, caught.value.context_overflow)


def test_usage_wherever_a_server_puts_it(chat):
    """With the choice, in every chunk, or in the words of DeepSeek."""
    usage = {"prompt_tokens": 20, "completion_tokens": 3, "prompt_cache_hit_tokens": 8}
    choice = {"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage}
    early = {"prompt_tokens": 20, "completion_tokens": 1}
    chat.stream(
        chat_chunk({"content": "Hi"}, usage=early), server_sent_event({"choices": [choice]})
    )
    assert Usage(20, 3, 8) == collect(ask(provider_for(chat), UserTurn("Hello"))).usage


def test_an_answer_is_whole_without_the_last_words(chat):
    """After its finish reason an answer is whole, whatever the server does then."""
    for then in (Then.CUT, Then.RESET):
        chat.stream(chat_chunk({"content": "Hi"}), chat_chunk({}, "stop"), then)
        events = ask(provider_for(chat), UserTurn("Hello"))
        assert [TextDelta("Hi"), Finish(FinishReason.STOP)] == events


def test_a_server_that_never_ends_its_stream_is_not_waited_for(chat):
    """After the finish reason and the usage nothing more is waited for."""
    chat.stream(chat_chunk({"content": "Hi"}), chat_chunk({}, "stop"), chat_usage(), Then.STALL)
    assert Finish(FinishReason.STOP) == ask(provider_for(chat), UserTurn("Hello"))[-1]
    # Without the usage it is given a moment, far below the time-out of a silence.
    chat.stream(chat_chunk({"content": "Hi"}), chat_chunk({}, "stop"), Then.STALL)
    assert Finish(FinishReason.STOP) == ask(provider_for(chat), UserTurn("Hello"))[-1]


@pytest.mark.parametrize("effort", [None, "none", "minimal", "low", "medium", "high", "xhigh"])
def test_effort_is_said_only_where_it_is_set(chat, effort):
    """The effort goes out under the name that the format has for it."""
    chat.step(ScriptedStep(text="Hi"))
    ask(provider_for(chat), UserTurn("Hello"), effort=effort)
    assert effort == chat.requests[0].body.get("reasoning_effort")


def test_a_request_without_tools_or_system_prompt_has_neither(chat):
    """Nothing empty is sent."""
    chat.step(ScriptedStep(text="Hi"))
    ask(provider_for(chat), UserTurn("Hello"), tools=(), effort=None)
    assert "tools" not in chat.requests[0].body


class UnlistedServer(ChatServer):
    """Answers with its script, whatever it is asked."""

    def judge(self, request):
        return None


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"max_model_len": 4096}, 4096),
        ({"context_length": 8192, "top_provider": {"context_length": 1}}, 8192),
        ({"top_provider": {"context_length": 131072}}, 131072),
        ({"meta": {"n_ctx_train": 32768}}, 32768),
        ({"meta": {"n_ctx_train": 32768, "n_ctx": 2048}}, 2048),
        ({"loaded_context_length": 4096, "max_context_length": 131072}, 4096),
        ({"max_context_length": 131072}, 131072),
        ({"context_window": 131072}, 131072),
        ({"context_length": "many"}, None),
        ({"context_length": 0}, None),
        ({"context_length": True}, None),
        ({}, None),
    ],
)
def test_the_window_as_servers_tell_it(entry, expected):
    """vLLM, OpenRouter, llama.cpp, LM Studio, Mistral and Groq each have their own word."""
    other = {"id": "other", "context_length": 7}
    server = ChatServer(models={"object": "list", "data": [other, {"id": "m", **entry}]})
    assert expected == provider_for(server).context_window("m", CancelToken())
    server.close()


def test_the_window_is_asked_for_once_and_with_the_key():
    """One list answers for every model; a list without an envelope is fine, too."""
    server = ChatServer(models=[{"id": "a", "context_length": 5}, {"id": "b"}])
    provider = provider_for(server, api_key=KEY)
    windows = [provider.context_window(model, CancelToken()) for model in ("a", "b", "c", "a")]
    assert [5, None, None, 5] == windows
    [sent] = server.requests
    assert ("GET", f"Bearer {KEY}") == (sent.method, sent.headers["authorization"])
    server.close()


def test_the_only_model_of_a_server_is_meant_by_any_name():
    """A local server answers for whatever id it is asked."""
    server = ChatServer(models={"data": [{"id": "/models/x.gguf", "meta": {"n_ctx_train": 9}}]})
    assert 9 == provider_for(server).context_window("x", CancelToken())
    server.close()


@pytest.mark.parametrize(
    "reply",
    [
        json_reply(404, {"error": "no"}),
        Reply((b"<html>",), 200, "text/html"),
        Reply((b"[" * 100_000,), 200, "application/json"),
        json_reply(200, {"data": "none"}),
        json_reply(200, [1, None]),
        Reply(before_headers=Then.CUT),
    ],
)
def test_a_server_that_does_not_list_its_models_has_no_known_window(reply):
    """A failure is no window, never an error."""
    server = UnlistedServer()
    server.reply(reply)
    assert provider_for(server).context_window("m", CancelToken()) is None
    server.close()


def test_a_cancel_ends_the_question_for_the_window():
    """A server that does not answer is left at once."""
    server = UnlistedServer()
    server.reply(Reply(before_headers=Then.STALL))
    cancel = CancelToken()
    timer = threading.Timer(0.2, cancel.cancel)
    timer.start()
    with pytest.raises(Cancelled):
        provider_for(server).context_window("m", cancel)
    server.wait_for_hang_up()
    timer.join()
    server.close()


def test_a_state_is_kept_only_where_there_is_reasoning(chat):
    """A plain answer has nothing to keep."""
    chat.step(ScriptedStep(text="Hi"))
    events = ask(provider_for(chat), UserTurn("Hello"))
    assert not any(isinstance(event, StateDelta) for event in events)
