"""Spec section 3: an editor that stops reading slows its own session down, nothing else."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path

import pytest

from tests.harness.processes import processes_with, wait_until_gone
from tests.models.chat import CHAT_DONE, ChatServer, chat_chunk, chat_usage
from tests.models.steps import ScriptedStep

MIB = 1 << 20
MOMENT_S = 2.0
"""So long a server gets to take in more than it may."""
CONFIGURATION = """
provider = "local"
model = "test-model"
[providers.local]
kind = "openai-compatible"
base_url = "{url}"
models = [{{ id = "test-model", context_window = 10000000 }}]
"""


@pytest.fixture
def flooded(client, session):
    """A session whose shell floods the client, which has stopped to read; and a marker."""
    marker = f"flood-{uuid.uuid4().hex}"
    client.permissions.allow_all()
    client.prompt(session, f"/shell yes {marker}").result()
    client.wait_update(lambda u: u.kind == "terminal_output_chunk", what="the flood")
    assert processes_with(marker)
    client.process.pause_reading()
    return marker


def resident(pid: int) -> int:
    """The memory that a process uses, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS in the status of the process")


@pytest.fixture
def streaming():
    """A model that first says a word, and then much more than may be kept; and its texts."""
    server = ChatServer()
    server.step(ScriptedStep(text="ready"))
    pieces = [f"{number:06d} ".ljust(8_000, "x") for number in range(1000)]
    for _ in range(4):
        events = [*(chat_chunk({"content": piece}) for piece in pieces), chat_chunk({}, "stop")]
        server.stream(b"".join([*events, chat_usage(), CHAT_DONE]))
    yield server, pieces
    server.close()


def test_streams_wait_for_a_client_that_does_not_read(start, home, streaming):
    """Memory stays bounded, cancel and close work, and then all texts come whole and in order."""
    model, pieces = streaming
    home.configure(CONFIGURATION.format(url=model.base_url))
    client = start()
    client.initialize()
    sessions = [client.new_session(home.project()) for _ in range(4)]
    client.run(sessions[0], "say a word")
    before = resident(client.process.pid)
    client.process.pause_reading()
    for session in sessions:
        client.prompt(session, "say a lot")
    model.wait_for_requests(5)
    assert not threading.Event().wait(MOMENT_S)
    # All of it would be twice as much.
    assert resident(client.process.pid) - before < 16 * MIB
    cancelled, closed, *others = sessions
    client.cancel(cancelled)
    reply = client.request("session/close", {"sessionId": closed})
    client.process.resume_reading()
    assert reply.result() == {}
    for session in (cancelled, closed):
        assert client.wait_idle(session) == "cancelled"
    for session in others:
        assert client.wait_idle(session, timeout=60) == "end_turn"
        chunks = [u for u in client.updates(session) if u.kind == "agent_message_chunk"]
        assert "".join(pieces) == "".join(u.body["content"]["text"] for u in chunks)


def test_a_cancel_works_while_the_client_does_not_read(client, session, flooded):
    """The flood is stopped at once and in bounded memory; the client reads the end of it later."""
    client.cancel(session)
    wait_until_gone(flooded)
    assert resident(client.process.pid) < 400 * MIB
    client.process.resume_reading()
    assert client.wait_idle(session) == "cancelled"
    client.still_works(session)


def test_a_close_works_while_the_client_does_not_read(client, session, flooded):
    """Closing stops the flood too, and is answered when the client reads again."""
    reply = client.request("session/close", {"sessionId": session})
    wait_until_gone(flooded)
    client.process.resume_reading()
    assert reply.result() == {}
    assert client.wait_idle(session) == "cancelled"


def test_the_end_of_stdin_works_while_the_client_does_not_read(client, flooded):
    """The server ends within its bound, with status 0, and so does the flood."""
    client.expect_disorder()
    client.eof()
    assert client.process.popen.wait(8) == 0
    wait_until_gone(flooded)
    client.process.resume_reading()


def test_a_command_that_prints_a_lot_is_told_in_bounded_memory(client, session):
    """200 MB of output and a line of 20 MB pass a client that reads, and are cut for the model."""
    client.permissions.allow_all()
    command = "yes 0123456789 | head -c 200M; head -c 20M /dev/zero | tr '\\0' x; echo; echo last"
    turn = client.run(session, "/shell " + command, timeout=60)
    assert turn.stop_reason == "end_turn"
    assert [call["status"] for call in turn.calls] == ["completed"]
    assert resident(client.process.pid) < 400 * MIB
    client.still_works(session)
