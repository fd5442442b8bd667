"""The scripted services refuse what the vendors refuse; a provider that passes has met them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models.chat import chat_fault
from tests.models.http import in_pieces
from tests.models.messages import messages_fault
from tests.models.responses import responses_fault


def _user(content: Any = "Hello") -> dict[str, Any]:
    return {"role": "user", "content": content}


def _chat_call(call_id: str = "c", name: str = "read", arguments: str = "{}") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _chat_result(call_id: str = "c", content: str = "found") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def test_a_good_chat_request_is_accepted():
    """System, user, call, result, answer, user."""
    answer = {"role": "assistant", "content": "Hi"}
    messages = [_user(), _chat_call(), _chat_result(), answer, _user()]
    assert chat_fault({"messages": messages, "stream": True}) is None


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [_user(" ")],
        [_user(), _user()],
        [_user(), _chat_call()],
        [_user(), _chat_call(), _user()],
        [_user(), _chat_result()],
        [_user(), _chat_call(), _chat_result("d")],
        [_user(), _chat_call(), _chat_result(), _chat_result()],
        [_user(), _chat_call(), _chat_result(content="")],
        [_user(), _chat_call(name="no such"), _chat_result()],
        [_user(), _chat_call(arguments='{"a'), _chat_result()],
        [_user(), {"role": "assistant", "content": None}],
        [_user(), {"role": "assistant", "content": ""}],
        [_user("\ud800")],
    ],
)
def test_a_bad_chat_request_is_refused(messages):
    """Unanswered calls, repeated roles, blank texts, bad names and arguments."""
    assert chat_fault({"messages": messages, "stream": True})


REASONING = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"}
CALL = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "found"}


def _responses_body(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"input": items, "store": False, "stream": True}


def test_a_good_responses_request_is_accepted():
    """User, reasoning, call, output, answer."""
    answer = {"role": "assistant", "content": "Hi"}
    assert responses_fault(_responses_body([_user(), REASONING, CALL, OUTPUT, answer])) is None


@pytest.mark.parametrize(
    "items",
    [
        [],
        [_user(" ")],
        [_user(), REASONING],
        [_user(), REASONING, _user()],
        [_user(), CALL],
        [_user(), CALL, _user()],
        [_user(), OUTPUT],
        [_user(), CALL, CALL, OUTPUT],
        [_user(), {**CALL, "name": ""}, OUTPUT],
        [_user("\ud800")],
    ],
)
def test_a_bad_responses_request_is_refused(items):
    """Unanswered calls, reasoning without what it led to, blank texts, bad names."""
    assert responses_fault(_responses_body(items))


TEXT = {"type": "text", "text": "Hello"}
USE = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "found"}
THINKING = {"type": "thinking", "thinking": "Hm", "signature": "s"}
MARK = {"cache_control": {"type": "ephemeral"}}


def _turns(*contents: list[dict[str, Any]]) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]
    return {"max_tokens": 5000, "messages": messages}


def test_a_good_messages_request_is_accepted():
    """User, thinking and call, result and text, answer, user."""
    assert messages_fault(_turns([TEXT], [THINKING, USE], [RESULT, TEXT], [TEXT], [TEXT])) is None


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": [TEXT]}]},
        _turns(),
        _turns([]),
        _turns([TEXT], [TEXT]),
        _turns([{"type": "text", "text": " "}]),
        _turns([TEXT], [USE], [TEXT]),
        _turns([TEXT], [TEXT], [RESULT]),
        _turns([TEXT], [USE], [TEXT, RESULT]),
        _turns([TEXT], [USE], [RESULT, RESULT]),
        _turns([TEXT], [TEXT, THINKING], [TEXT]),
        _turns([TEXT], [{**USE, "name": "no such"}], [RESULT]),
        _turns([TEXT], [{**USE, "input": "{}"}], [RESULT]),
        _turns([TEXT], [{**THINKING, **MARK}, TEXT], [TEXT]),
        _turns([THINKING, TEXT]),
        _turns([{**TEXT, **MARK}] * 5),
        {**_turns([TEXT]), "thinking": {"type": "enabled", "budget_tokens": 9000}},
        {"max_tokens": 9, "messages": [{"role": "assistant", "content": [TEXT]}]},
    ],
)
def test_a_bad_messages_request_is_refused(body):
    """Unanswered calls, wrong roles and order, blank texts, misplaced thinking and marks."""
    assert messages_fault(body)


@pytest.mark.parametrize("sizes", [[1], [3, 1], [100], [2, 100]])
def test_pieces_are_the_same_bytes(sizes):
    """However bytes are cut, none is lost."""
    data = bytes(range(50))
    pieces = in_pieces(data, sizes)
    assert data == b"".join(pieces)
    assert all(pieces)
    assert sizes[0] == len(pieces[0]) or len(data) < sizes[0]
