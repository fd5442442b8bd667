"""What the client makes of messages, right and wrong ones."""

from __future__ import annotations

import pytest

from term2_acp.chat.client import Answered, Asked, Client, Withdrawn, read_version
from term2_acp.chat.conversation import MAX_OUTPUT_BYTES, Conversation
from term2_acp.chat.faults import ServerFaultError
from term2_acp.chat.questions import outcome
from term2_acp.chat.updates import TerminalPrinted

OPTIONS = [
    {"optionId": "a", "name": "Always", "kind": "allow_always"},
    {"optionId": "n", "name": "Never", "kind": "reject_always"},
    {"optionId": "r", "name": "No", "kind": "reject_once"},
]


@pytest.fixture(name="sent")
def _sent():
    return []


@pytest.fixture(name="client")
def _client(sent):
    return Client(sent.append)


def request(method, params, request_id=7):
    """A request of the server's."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def ask(client, options=OPTIONS):
    """The question that a permission request becomes."""
    params = {"sessionId": "s", "title": "Allow?", "options": options}
    asked = client.understand(request("session/request_permission", params, "q-1"))
    assert isinstance(asked, Asked)
    return asked.question


def update(**members):
    """A session/update."""
    params = {"sessionId": "s", "update": members}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def test_answers_carry_the_id_with_its_type_and_the_option(client, sent):
    """A digit chooses; what is no digit of an option chooses nothing."""
    question = ask(client)
    client.answer(question, question.option("1"))
    assert sent[-1] == {
        "jsonrpc": "2.0",
        "id": "q-1",
        "result": {"outcome": {"outcome": "selected", "optionId": "a"}},
    }
    assert [question.option(key) for key in ("", "0", "4", "12", "a", "٢")] == [None] * 6


def test_a_rejection_is_for_once_and_never_allows(client):
    """Reject once before any other refusal; without one, none of the options is chosen."""
    assert ask(client).rejection().option_id == "r"
    assert ask(client, OPTIONS[:2]).rejection().option_id == "n"
    assert ask(client, OPTIONS[:1]).rejection() is None
    assert outcome(None) == {"outcome": {"outcome": "cancelled"}}


def test_unknown_requests_are_answered_with_an_error(client, sent):
    """And unknown notifications and updates are left alone."""
    assert client.understand(request("fs/read_text_file", {})) is None
    assert sent[-1]["error"]["code"] == -32601
    assert client.understand({"jsonrpc": "2.0", "method": "other"}) is None
    assert client.understand(update(sessionUpdate="_new_kind")) is None


def test_a_withdrawn_question_is_known_by_its_id(client):
    """As the server sends it when the turn has ended."""
    message = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "q-1"}}
    assert Withdrawn("q-1") == client.understand(message)


def test_a_response_is_for_the_request_that_was_made(client):
    """Each id once; a result or an error."""
    number = client.request("session/list", {})
    error = {"code": -32602, "message": "no"}
    response = {"jsonrpc": "2.0", "id": number, "error": error}
    assert Answered(number, None, (-32602, "no")) == client.understand(response)
    with pytest.raises(ServerFaultError, match="a request that was not made"):
        client.understand(response)


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ([], "a message must be an object"),
        ({"id": True, "result": {}}, "a request that was not made"),
        ({"id": None, "error": {"code": -32700, "message": "bad"}}, "did not understand.*bad"),
        (update(sessionUpdate=1), "params.update.sessionUpdate must be a string"),
        (
            update(sessionUpdate="agent_message_chunk", messageId="m", content={"type": "text"}),
            "update.content.text must be a string",
        ),
        (
            update(sessionUpdate="terminal_output_chunk", terminalId="t", data="?"),
            "must be base64",
        ),
        (
            update(sessionUpdate="plan_update", plan={"type": "items", "entries": [1]}),
            r"plan.entries\[0\] must be an object",
        ),
        (
            request("session/request_permission", {"title": "t", "options": []}),
            "options of a permission request must be 1 to 9",
        ),
    ],
)
def test_what_breaks_the_protocol_is_named(client, message, fault):
    """The user reads which member is wrong."""
    with pytest.raises(ServerFaultError, match=fault):
        client.understand(message)


def test_another_version_is_refused():
    """The client speaks one."""
    with pytest.raises(ServerFaultError, match="version 1"):
        read_version({"protocolVersion": 1})


def test_of_a_long_output_the_end_is_kept():
    """Memory is bounded, and what is lost is known."""
    conversation = Conversation("s", "/")
    for _ in range(3):
        conversation.apply(TerminalPrinted("t", b"x" * (MAX_OUTPUT_BYTES // 2) + b"y"))
    terminal = conversation.terminals["t"]
    assert (len(terminal.output), terminal.output[-1:]) == (MAX_OUTPUT_BYTES, b"y")
    assert terminal.dropped == 3 * (MAX_OUTPUT_BYTES // 2 + 1) - MAX_OUTPUT_BYTES
