"""Memory that turns used goes back to the system when their sessions are closed."""

from __future__ import annotations

import platform

import pytest

from tests.journeys.test_journey_backpressure import CONFIGURATION, MIB, resident
from tests.models.chat import CHAT_DONE, ChatServer, chat_chunk, chat_usage
from tests.models.steps import ScriptedStep

_SESSIONS = 6
_PROMPT = "please say a lot " * (MIB // 16)


@pytest.fixture(name="model")
def _model():
    """A model that first says a word, and then as many long answers as there are sessions."""
    server = ChatServer()
    server.step(ScriptedStep(text="ready"))
    events = [*(chat_chunk({"content": "x" * 60_000}) for _ in range(100)), chat_chunk({}, "stop")]
    for _ in range(_SESSIONS):
        server.stream(b"".join([*events, chat_usage(), CHAT_DONE]))
    yield server
    server.close()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have no arenas")
def test_closed_sessions_leave_no_memory_behind(start, home, model):
    """Long prompts and answers in many threads at once are forgotten, also by the allocator."""
    home.configure(CONFIGURATION.format(url=model.base_url))
    client = start()
    client.initialize()
    first = client.new_session(home.project())
    client.run(first, "say a word")
    client.close_session(first)
    before = resident(client.process.pid)
    sessions = [client.new_session(home.project()) for _ in range(_SESSIONS)]
    for session in sessions:
        client.prompt(session, _PROMPT)
    for session in sessions:
        assert client.wait_idle(session, timeout=60) == "end_turn"
    for session in sessions:
        client.close_session(session)
    assert resident(client.process.pid) - before < 24 * MIB
