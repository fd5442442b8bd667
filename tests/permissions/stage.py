"""One real server with a scripted model, for many small cases in turn."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import attrs

from tests.harness.client import Client
from tests.harness.home import Home
from tests.harness.messages import Message, agent_text
from tests.harness.permissions import PermissionRequest
from tests.models.chat import ChatServer
from tests.models.steps import Call, ScriptedStep

Answers = str | Callable[[PermissionRequest], str | None]


@attrs.frozen
class Played:
    """What became of the calls of one turn, in the model's order."""

    statuses: list[str]
    results: list[str]
    asked: list[PermissionRequest]
    stop_reason: str

    @property
    def status(self) -> str:
        """The status of the one call."""
        (status,) = self.statuses
        return status

    @property
    def result(self) -> str:
        """What the model was told of the one call."""
        (result,) = self.results
        return result

    @property
    def options(self) -> set[str] | None:
        """What the one question offered; None if nothing was asked."""
        return set(self.asked[0].options) if self.asked else None


class Stage:
    """A server, its home, folders outside of any workspace, and a model that does as it is told."""

    def __init__(self, root: Path) -> None:
        self.home = Home.create(root)
        self.root = root.resolve()
        self._numbers = itertools.count()
        self.chat = ChatServer()
        self.home.configure(
            'provider = "local"\nmodel = "m"\n[providers.local]\nkind = "openai-compatible"\n'
            f'base_url = "{self.chat.base_url}"\n'
            'models = [{ id = "m", context_window = 10000000 }]\n'
        )
        self.client = Client(self.home)
        self.client.initialize()

    def close(self) -> None:
        """End it all and judge the wire."""
        try:
            self.client.close()
        finally:
            self.chat.close()
        assert self.chat.faults == []

    def folder(self, name: str = "outside") -> Path:
        """A new folder that is in no workspace."""
        folder = self.root / f"{name}-{next(self._numbers)}"
        folder.mkdir()
        return folder

    def workspace(self) -> tuple[str, Path]:
        """A new session and its empty folder."""
        folder = self.folder("workspace")
        return self.client.new_session(folder), folder

    def play(self, session: str, *steps: Call | tuple[Call, ...], answers: Answers = "") -> Played:
        """
        Have the model make calls, a step each or several in one step, and wait for the end.

        Args:
            answers: the option that every question is answered with, or what chooses it;
                empty if nothing may be asked.
        """
        requests = self.client.permissions.requests
        start = len(requests)
        self.client.permissions.policy = answers if callable(answers) else lambda _: answers or None
        together = [step if isinstance(step, tuple) else (step,) for step in steps]
        for step in together:
            self.chat.step(ScriptedStep(calls=step))
        self.chat.step(ScriptedStep(text="Done."))
        turn = self.client.run(session, "Go on.", timeout=60)
        assert agent_text(turn.updates) == "Done.", turn
        asked = requests[start:]
        assert answers or not asked, asked
        count = sum(len(step) for step in together)
        told = [m for m in self.chat.requests[-1].body["messages"] if m["role"] == "tool"]
        results = [message["content"] for message in told[-count:]]
        return Played(self._statuses(turn.calls), results, asked, turn.stop_reason)

    @staticmethod
    def _statuses(calls: list[Message]) -> list[str]:
        return [call["status"] for call in calls]
