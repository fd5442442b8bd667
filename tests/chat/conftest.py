"""Starts `term2 chat` in a small project."""

from __future__ import annotations

import pytest

from tests.chat.terminal import ChatTerminal, run_plain
from tests.models.chat import ChatServer

OFFLINE = ("--provider", "offline")


@pytest.fixture(name="terminal")
def _terminal(home, project):
    """Starts the client on a terminal: `terminal(*args, size=..., **environment)`."""
    started = []

    def start(*args, **options):
        chat = ChatTerminal(home, project, *(args or OFFLINE), **options)
        started.append(chat)
        return chat

    yield start
    for chat in started:
        chat.close()


@pytest.fixture(name="plain")
def _plain(home, project):
    """Runs the client over pipes: `plain(input, *args, **environment)`."""

    def run(text, *args, **environment):
        return run_plain(home, project, text, *(args or OFFLINE), **environment)

    return run


@pytest.fixture(name="model")
def _model(home):
    """A scripted model that is configured, so that no option is needed to talk with it."""
    server = ChatServer()
    home.configure(
        'provider = "local"\nmodel = "test-model"\n'
        '[providers.local]\nkind = "openai-compatible"\n'
        f'base_url = "{server.base_url}"\n'
        'models = [{ id = "test-model", context_window = 100000 }]\n'
    )
    yield server
    server.close()
    assert server.faults == []
