"""Servers that the journeys of a module share, each in a session and a project of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.client import Client
from tests.models.lent import Lender, Lent


@pytest.fixture(scope="module")
def lender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lender]:
    """Servers that ask a scripted service, for tests that need no settings or end of their own."""
    lender = Lender(tmp_path_factory.mktemp)
    yield lender
    lender.close()


@pytest.fixture
def lent_chat(lender: Lender) -> Iterator[Lent]:
    """The server that asks a Chat Completions service."""
    yield lender.lend("openai-compatible")
    lender.take_back("openai-compatible")


@pytest.fixture
def open_session(project: Path) -> Iterator[Callable[[Client], tuple[Client, str]]]:
    """Open a session in the test's own project; it is closed after the test."""
    opened: list[tuple[Client, str]] = []

    def open_one(client: Client) -> tuple[Client, str]:
        opened.append((client, client.new_session(project)))
        return opened[-1]

    yield open_one
    for client, session in opened:
        if client.healthy:
            client.request("session/close", {"sessionId": session}).response()


@pytest.fixture
def guest_session(shared: Client, open_session: Callable[[Client], tuple[Client, str]]) -> str:
    """A session of the shared connection, which knows no update of an earlier test."""
    shared.forget_updates()
    return open_session(shared)[1]


@pytest.fixture
def marker() -> str:
    """The arguments of a `sleep` that no other test runs."""
    return f"600.{uuid.uuid4().int % 10**15:015}"
