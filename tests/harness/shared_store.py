"""
Several servers on one store, each used by a player that trusts nobody.

Whatever was told of a session, by any of them, must be what the next one replays.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from pathlib import Path

import attrs

from tests.harness.client import Client
from tests.harness.home import Home
from tests.harness.messages import Conversation, conversation
from tests.harness.replies import Reply

IN_USE = -32009
_PROMPTS = (
    "/say quick",
    "/think about it\n/say a longer answer with several words in it\n/read README.md",
    "/plan one; two\n/create {n}.txt <<x\n/replace {n}.txt x => y",
    "/shell echo out; echo err >&2",
    "/read no/such/file\n/grep tea",
    "/fail",
    "hello",
)
_SLEEP = "/say before\n/sleep 600"
_TOGETHER = 2


@attrs.define
class Counts:
    """What the players did."""

    prompts: int = 0
    resumes: int = 0
    contended: int = 0
    lists: int = 0
    sessions: int = 0


class SharedStore:
    """
    Runs the players until a time is over, and judges everything that they were told.

    Args:
        root: an empty folder.
        servers: how many processes.
        seed: of the dice.
    """

    def __init__(self, root: Path, *, servers: int = 2, seed: int = 1) -> None:
        self.home = Home.create(root)
        self.counts = Counts()
        self._projects = [self.home.project(f"p{number}") for number in range(2)]
        self._clients = [self._start() for _ in range(servers)]
        self._seed = seed
        self._lock = threading.Lock()
        # What was told of each session, whoever told it; only its owner changes it.
        self._told: dict[str, Conversation] = {}
        self._places: dict[str, Path] = {}
        self._faults: list[BaseException] = []

    def play(self, seconds: float) -> None:
        """
        Use the store for so long.

        Raises:
            AssertionError: an answer was wrong, or an event was lost.
        """
        deadline = time.monotonic() + seconds
        players = [
            threading.Thread(
                target=self._play, args=(client, number, deadline), name=f"test-player-{number}"
            )
            for number, client in enumerate(self._clients)
        ]
        for player in players:
            player.start()
        for player in players:
            player.join(seconds + 120)
            assert not player.is_alive(), "a player hangs"
        if self._faults:
            raise self._faults[0]

    def judge(self) -> None:
        """
        End all servers, and let a new one tell everything once more.

        Raises:
            AssertionError: an event was lost, or a session is listed twice or not at all.
        """
        for client in self._clients:
            client.close()
        client = self._start()
        try:
            listed = _listed(client)
            assert sorted(self._told) == sorted(listed), "the list is not what was made"
            for session in self._told:
                self._take(client, session)
                client.close_session(session)
                client.forget_updates()
        finally:
            client.close()

    def close(self) -> None:
        """End the servers, whatever happened."""
        for client in self._clients:
            client.kill()
            with contextlib.suppress(AssertionError):
                client.close()

    def _start(self) -> Client:
        client = Client(self.home)
        client.initialize()
        client.permissions.allow_all()
        return client

    def _play(self, client: Client, number: int, deadline: float) -> None:
        dice = random.Random(self._seed * 1000 + number)  # noqa: S311 (it plays)
        try:
            while time.monotonic() < deadline and not self._faults:
                self._round(client, dice)
                client.forget_updates()
        except BaseException as fault:  # noqa: BLE001 (raised by play)
            self._faults.append(fault)

    def _round(self, client: Client, dice: random.Random) -> None:
        taken = [
            session
            for session in dict.fromkeys(self._choose(client, dice) for _ in range(_TOGETHER))
            if self._take(client, session)
        ]
        for _ in range(dice.randrange(1, 3)):
            self._prompts(client, taken, dice)
            if dice.random() < 0.5:
                listed = _listed(client)
                assert len(listed) == len(set(listed)), "a session is listed twice"
                self._count("lists")
        with self._lock:
            for session in taken:
                self._told[session] = conversation(client.updates(session))
        for session in taken:
            client.close_session(session)

    def _choose(self, client: Client, dice: random.Random) -> str:
        """A session that there is, or a new one; few enough that the players meet."""
        with self._lock:
            known = sorted(self._told)
        if len(known) > 3 and dice.random() < 0.9:
            return dice.choice(known)
        project = dice.choice(self._projects)
        session = client.new_session(project)
        self._places[session] = project
        client.run(session, "/say first")
        with self._lock:
            self._told[session] = conversation(client.updates(session))
        client.close_session(session)
        client.forget_updates(session)
        self._count("sessions")
        return session

    def _take(self, client: Client, session: str) -> bool:
        """Resume with a replay that tells all that was told; False if another has it."""
        reply = client.resume(session, self._places[session], replay=True)
        if "error" in reply.response(60.0):
            assert reply.code() == IN_USE, reply.error()
            self._count("contended")
            return False
        with self._lock:
            told = self._told[session]
        replayed = conversation(client.updates(session))
        assert told.items == replayed.items, f"{session}: told {told.items}, kept {replayed.items}"
        assert told.terminals == replayed.terminals, session
        self._count("resumes")
        return True

    def _prompts(self, client: Client, sessions: list[str], dice: random.Random) -> None:
        """A prompt in each of them, side by side; some are cancelled."""
        waiting: list[tuple[str, Reply]] = []
        for session in sessions:
            cancelled = dice.random() < 0.2
            text = _SLEEP if cancelled else dice.choice(_PROMPTS)
            text = text.format(n=f"f{dice.randrange(10**9)}")
            waiting.append((session, client.prompt(session, text)))
            if cancelled:
                client.cancel(session)
        for session, reply in waiting:
            assert reply.result(60.0) == {}
            client.wait_idle(session, 60.0)
            self._count("prompts")

    def _count(self, name: str) -> None:
        with self._lock:
            setattr(self.counts, name, getattr(self.counts, name) + 1)


def _listed(client: Client) -> list[str]:
    """Every session of the list, page by page."""
    ids: list[str] = []
    cursor = None
    while True:
        page = client.request("session/list", {"cursor": cursor}).result(60.0)
        ids += [info["sessionId"] for info in page["sessions"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            return ids
