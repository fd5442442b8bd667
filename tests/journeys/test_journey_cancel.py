"""Spec section 5: session/cancel, at every point of a turn."""

from __future__ import annotations

import pytest

from tests.harness.messages import agent_text, encode, notification, prompt_params
from tests.harness.processes import processes_with, wait_until_gone

# The specification says within 1 s; the rest is for a loaded machine.
SOON = 5.0


@pytest.fixture(name="client")
def _client(shared):
    """The shared connection; a test of a server's end starts one of its own."""
    return shared


@pytest.fixture(name="session")
def _session(guest_session):
    return guest_session


@pytest.mark.parametrize(
    "prompt", ["/sleep 600", "/say a\n/sleep 600", "/shell touch never", "hello", "/say done"]
)
def test_a_cancel_right_behind_its_prompt_is_not_lost(client, session, project, prompt):
    """Prompt and cancel in one write, many times: the turn always ends, `cancelled`."""
    for _ in range(10):
        reply, message = client.prepare("session/prompt", prompt_params(session, prompt))
        cancel = notification("session/cancel", {"sessionId": session})
        client.send_raw(encode(message) + encode(cancel))
        assert reply.result() == {}
        assert client.wait_idle(session, SOON) == "cancelled"
    assert not (project / "never").exists()
    client.still_works(session)


def test_a_cancel_of_what_does_not_run_does_nothing(client, session):
    """Idle, unknown and closed sessions: no update, no answer, and the next prompt is whole."""
    closed = client.new_session(client.home.project("closed"))
    client.close_session(closed)
    for name in (session, closed, "unknown", ""):
        client.cancel(name)
    client.still_works(session)
    client.cancel(session)
    client.still_works(session)


def test_a_cancel_stops_the_model(client, session):
    """While the model is silent, and after it has said something."""
    client.prompt(session, "/sleep 600").result()
    client.wait_state(session, "running")
    client.cancel(session)
    assert client.wait_idle(session, SOON) == "cancelled"
    client.prompt(session, "/say so far\n/sleep 600").result()
    client.wait_for(lambda: "so far" in agent_text(client.updates(session)), "the first words")
    client.cancel(session)
    client.cancel(session)
    assert client.wait_idle(session, SOON) == "cancelled"
    client.still_works(session)


def test_a_cancel_takes_an_open_permission_back(client, session, project):
    """`$/cancel_request` names the question, the call is cancelled, a late answer does nothing."""
    client.prompt(session, "/shell touch never").result()
    request = client.permissions.next()
    client.cancel(session)
    assert client.wait_idle(session, SOON) == "cancelled"
    client.wait_for(lambda: request.cancelled, "$/cancel_request")
    assert client.record.life(session).calls[request.tool_call["toolCallId"]] == "cancelled"
    client.permissions.answer(request, "approve")
    client.still_works(session)
    assert not (project / "never").exists()


@pytest.mark.parametrize(
    "command",
    [
        "echo started; sleep {0}",
        "echo started; trap '' TERM INT HUP; sleep {0} & sleep {0}; sleep {0}",
        "setsid sleep {0} & nohup sleep {0} & echo started; wait",
    ],
)
def test_a_cancel_kills_the_whole_tree_of_a_shell(client, session, project, marker, command):
    """The command, its children and those that ignore signals or left the group are gone."""
    client.permissions.allow_all()
    client.prompt(session, "/shell " + command.format(marker)).result()
    client.wait_update(lambda u: u.kind == "terminal_output_chunk", what="the command's output")
    assert processes_with(marker)
    client.cancel(session)
    assert client.wait_idle(session, SOON) == "cancelled"
    wait_until_gone(marker, SOON)
    assert list(client.record.life(session).calls.values()) == ["cancelled"]
    client.still_works(session)


def test_a_cancel_concerns_its_own_session_only(client, home):
    """The turn of another session goes on."""
    one, two = (client.new_session(home.project(name)) for name in ("one", "two"))
    for session in (one, two):
        client.prompt(session, "/sleep 600").result()
        client.wait_state(session, "running")
    client.cancel(one)
    assert client.wait_idle(one, SOON) == "cancelled"
    assert client.prompt(two, "/say no").code() == -32000
    client.cancel(two)
    assert client.wait_idle(two, SOON) == "cancelled"


def test_prompts_and_cancels_in_one_write_keep_their_order(client, session):
    """Each accepted prompt ends once; a cancel never reaches the prompt after it."""
    pairs = []
    data = b""
    for number in range(5):
        reply, message = client.prepare(
            "session/prompt", prompt_params(session, f"/say {number}\n/sleep 600")
        )
        pairs.append(reply)
        cancel = notification("session/cancel", {"sessionId": session})
        data += encode(message) + encode(cancel)
    client.send_raw(data)
    accepted = 0
    for reply in pairs:
        response = reply.response()
        accepted += "result" in response
        assert "result" in response or response["error"]["code"] == -32000
    assert accepted >= 1
    for _ in range(accepted):
        assert client.wait_idle(session, SOON) == "cancelled"
    client.still_works(session)
