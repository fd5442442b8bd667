"""Fixtures that start the real program; see `tests/harness`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import WorkStealingScheduling

from tests.harness.client import Client
from tests.harness.home import Home
from tests.harness.terminal import Terminal

Start = Callable[..., Client]

# How fast a machine makes examples, the first of which loads much, says nothing about the program.
settings.register_profile("term2", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("term2")


def pytest_configure() -> None:
    """Every program that a test starts may keep what it compiled: some thousand would again."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_xdist_auto_num_workers() -> int:
    """One more for `-n auto` than there are processors: many tests wait for a deadline."""
    return (os.cpu_count() or 1) + 1


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> WorkStealingScheduling | None:
    """
    A worker takes modules one after the other instead of a few tests of each.

    So what the tests of a module share is made once and not once a worker; what is left
    of a long queue goes to whoever is idle. `--dist` asks for something else.
    """
    if config.getoption("dist") != "load":
        return None
    return WorkStealingScheduling(config, log)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home, state and configuration."""
    return Home.create(tmp_path)


@pytest.fixture
def project(home: Home) -> Path:
    """A small project in that home's machine."""
    return home.project()


@pytest.fixture
def start(home: Home) -> Iterator[Start]:
    """
    Starts servers: `start(*args, **environment) -> Client`, not initialized.

    Each is closed and judged at the end of the test, whatever the test looked at.
    """
    clients: list[Client] = []

    def start_one(*args: str, **options: Any) -> Client:
        client = Client(home, *args, **options)
        clients.append(client)
        return client

    yield start_one
    _close_all(clients)


@pytest.fixture
def client(start: Start) -> Client:
    """A connection of its own that has negotiated version 2."""
    client = start()
    client.initialize()
    return client


@pytest.fixture
def session(client: Client, project: Path) -> str:
    """A new session in the project, on `client`."""
    return client.new_session(project)


class Pool:
    """Hands out one initialized connection again and again, until it is spoilt."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.project = home.project()
        self._client: Client | None = None

    def client(self) -> Client:
        """The connection, a new one if the last was spoilt."""
        if self._client is None:
            self._client = Client(self.home)
            self._client.initialize()
        return self._client

    def judge(self) -> None:
        """Let the connection go if a test spoilt it, and raise what was wrong."""
        if self._client is not None and not self._client.healthy:
            self.close()

    def close(self) -> None:
        """End the connection and judge it."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """The connection that the tests of a module share."""
    pool = Pool(Home.create(tmp_path_factory.mktemp("shared")))
    yield pool
    pool.close()


@pytest.fixture
def shared(pool: Pool) -> Iterator[Client]:
    """A connection shared with other tests; it must still work after this one."""
    client = pool.client()
    client.permissions.forget()
    yield client
    pool.judge()


@pytest.fixture
def shared_session(shared: Client, pool: Pool) -> Iterator[str]:
    """A new session in the shared project; it is closed afterwards if it is still open."""
    session = shared.new_session(pool.project)
    yield session
    if shared.healthy:
        shared.request("session/close", {"sessionId": session}).response()


@pytest.fixture
def spawn(home: Home) -> Iterator[Callable[..., Terminal]]:
    """Starts the program on a pseudo-terminal: `spawn("acp") -> Terminal`."""
    terminals: list[Terminal] = []

    def spawn_one(*args: str, **environment: str) -> Terminal:
        terminal = Terminal(home, *args, **environment)
        terminals.append(terminal)
        return terminal

    yield spawn_one
    for terminal in terminals:
        terminal.close()


def _close_all(clients: list[Client]) -> None:
    """Close every client, also when one of them raises; the first fault wins."""
    faults: list[Exception | AssertionError] = []
    for client in clients:
        try:
            client.close()
        except Exception as fault:  # noqa: BLE001 (it is raised below)
            faults.append(fault)
    if faults:
        raise faults[0]
