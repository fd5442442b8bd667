"""Spec sections 3, 4 and 5: the replay of a long session is streamed, and can be stopped."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from term2_acp.eventlog import (
    AgentText,
    StopReason,
    TextBlock,
    TitleSet,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from term2_acp.store import Store
from tests.harness.home import Home

MESSAGES = 800
TEXT = "all work and no play makes a long session "
SESSION = "sess_long"


@pytest.fixture(name="long", scope="module")
def _long(tmp_path_factory):
    """A home with a session of 13 MB, most of it in large events."""
    home = Home.create(tmp_path_factory.mktemp("long"))
    store = Store(str(home.state / "term2"))
    store.create_session(SESSION, str(home.project()))
    store.append(SESSION, 2, [TurnStarted("t"), UserMessage("u", (TextBlock("x"),)), TitleSet("x")])
    for start in range(0, MESSAGES, 100):
        numbers = range(start, start + 100)
        texts = [AgentText(f"m{n}", TEXT * (700 if n % 2 else 80)) for n in numbers]
        store.append(SESSION, start + 5, texts)
    store.append(SESSION, MESSAGES + 5, [TurnEnded("t", StopReason.END_TURN)])
    store.close()
    return home


@pytest.fixture(name="client")
def _client(long, home, start):
    """A server with that session."""
    shutil.rmtree(home.state)
    shutil.copytree(long.state, home.state)
    client = start()
    client.initialize()
    return client


def peak(client) -> int:
    """The most memory that the server has used, in KiB."""
    status = Path(f"/proc/{client.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def test_a_replay_does_not_hold_the_session_in_memory(client, long):
    """Far less than it more than before, while each message comes whole and in order."""
    project = long.project()
    # Whatever a session loads is there after a turn, and is not the replay's.
    client.run(client.new_session(project), "/say hi")
    assert client.resume(SESSION, project).result() == {}
    before = peak(client)
    assert client.resume(SESSION, project, replay=True).result(60.0) == {}
    replayed = client.updates(SESSION)
    assert ["u", *(f"m{n}" for n in range(MESSAGES))] == [u.body["messageId"] for u in replayed]
    assert TEXT * 700 == replayed[-1].body["content"][0]["text"]
    assert peak(client) - before < 7_000


def begun(client, long):
    """A replay of which the client has read the first message, and then no more."""
    client.process.pause_reading()
    reply = client.resume(SESSION, long.project(), replay=True)
    client.process.resume_reading()
    client.wait_update(lambda update: update.body.get("messageId") == "m0", session=SESSION)
    client.process.pause_reading()
    return reply


def test_a_replay_ends_when_it_is_withdrawn(client, long):
    """The request is answered with -32800; the session can be used and replayed."""
    reply = begun(client, long)
    client.notify("$/cancel_request", {"requestId": reply.expected.id})
    client.process.resume_reading()
    assert reply.code() == -32800
    assert len(client.updates(SESSION)) < MESSAGES
    client.still_works(SESSION)


def test_a_replay_ends_with_the_client(client, long):
    """The process does not go on for nobody."""
    begun(client, long)
    client.break_stdout()
    assert client.wait_exit() == 0
