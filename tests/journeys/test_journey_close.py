"""Spec section 5: session/close."""

from __future__ import annotations

import pytest

from tests.harness.messages import agent_text, conversation, encode, prompt_params
from tests.harness.processes import processes_with, wait_until_gone


@pytest.fixture(name="client")
def _client(shared):
    """The shared connection; a test of a server's end starts one of its own."""
    return shared


@pytest.fixture(name="session")
def _session(guest_session):
    return guest_session


def check_closed(client, session):
    """A closed session is not there, but its history is."""
    assert client.prompt(session, "/say x").code() == -32002
    assert client.request("session/close", {"sessionId": session}).code() == -32002
    client.cancel(session)
    client.sync()


def test_an_idle_session_closes_and_can_be_resumed(start, project):
    """`{}`; then -32002 until a resume; the history is kept, listed and replayed."""
    client = start()
    client.initialize()
    session = client.new_session(project)
    client.still_works(session)
    told = conversation(client.updates(session))
    assert client.close_session(session) == {}
    check_closed(client, session)
    listed = client.request("session/list").result()["sessions"]
    assert [info["sessionId"] for info in listed] == [session]
    before = len(client.updates(session))
    client.resume(session, project, replay=True).result()
    assert conversation(client.updates(session)[before:]).items == told.items
    client.still_works(session)
    assert client.close_session(session) == {}


def test_a_session_without_a_prompt_closes(start, project):
    """There is nothing to keep; the close succeeds all the same."""
    client = start()
    client.initialize()
    session = client.new_session(project)
    assert client.close_session(session) == {}
    check_closed(client, session)
    assert client.request("session/list").result() == {"sessions": []}


@pytest.mark.parametrize("prompt", ["/sleep 600", "/say so far\n/sleep 600"])
def test_a_close_cancels_the_turn_and_waits_for_it(client, session, project, prompt):
    """The idle state `cancelled` comes before the answer, and nothing after it."""
    client.prompt(session, prompt).result()
    client.wait_state(session, "running")
    reply = client.request("session/close", {"sessionId": session})
    assert reply.result() == {}
    assert client.wait_idle(session) == "cancelled"
    assert client.updates(session)[-1].seq < reply.seq
    check_closed(client, session)
    client.resume(session, project).result()
    client.still_works(session)


def test_a_close_right_behind_its_prompt_is_not_lost(client, project):
    """Prompt and close in one write: the turn is cancelled, the session is closed."""
    for _ in range(5):
        session = client.new_session(project)
        prompt, one = client.prepare("session/prompt", prompt_params(session, "/sleep 600"))
        close, two = client.prepare("session/close", {"sessionId": session})
        client.send_raw(encode(one) + encode(two))
        assert prompt.result() == {}
        assert close.result() == {}
        assert client.wait_idle(session) == "cancelled"
        check_closed(client, session)


def test_a_close_kills_the_shell(client, session, marker):
    """No child outlives its session."""
    client.permissions.allow_all()
    client.prompt(session, f"/shell echo started; sleep {marker}").result()
    client.wait_update(lambda u: u.kind == "terminal_output_chunk", what="the command's output")
    assert processes_with(marker)
    assert client.close_session(session) == {}
    wait_until_gone(marker)
    check_closed(client, session)


def test_a_close_takes_an_open_permission_back(client, session, project):
    """The tool does not run, the question is withdrawn, a late answer does nothing."""
    client.prompt(session, "/shell touch never").result()
    request = client.permissions.next()
    assert client.close_session(session) == {}
    assert client.wait_idle(session) == "cancelled"
    client.wait_for(lambda: request.cancelled, "$/cancel_request")
    client.permissions.answer(request, "approve")
    client.resume(session, project).result()
    client.still_works(session)
    assert not (project / "never").exists()


def test_a_close_concerns_its_own_session_only(client, session, home):
    """Other sessions run on."""
    other = client.new_session(home.project("other"))
    client.prompt(other, "/say so far\n/sleep 600").result()
    client.wait_for(lambda: "so far" in agent_text(client.updates(other)), "the other's words")
    client.close_session(session)
    assert client.prompt(other, "/say no").code() == -32000
    client.cancel(other)
    assert client.wait_idle(other) == "cancelled"
