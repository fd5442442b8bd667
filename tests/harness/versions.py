"""The same steps in either protocol version, for tests of what must hold in both."""

from __future__ import annotations

from pathlib import Path

import attrs

from tests.harness.client import Client
from tests.harness.messages import Message, prompt_params
from tests.harness.replies import TIMEOUT, Reply


@attrs.frozen
class Editor:
    """A client that has negotiated a version."""

    client: Client
    version: int

    @classmethod
    def begin(cls, client: Client, version: int) -> Editor:
        """Negotiate."""
        client.initialize(version)
        return cls(client, version)

    def open_session(self, cwd: Path) -> str:
        """Open a session and give its id."""
        params = {"cwd": str(cwd), "mcpServers": []}
        return str(self.client.request("session/new", params).result()["sessionId"])

    def prompt(self, session: str, text: str) -> Reply:
        """Send a prompt."""
        return self.client.request("session/prompt", prompt_params(session, text))

    def settled(self, session: str, reply: Reply, timeout: float = TIMEOUT) -> str:
        """Wait for the end of a prompt's turn; its stop reason (the error's text in version 1)."""
        if self.version == 2:
            reply.result(timeout)
            return self.client.wait_idle(session, timeout)
        response = reply.response(timeout)
        return str(
            response["error"]["message"]
            if "error" in response
            else response["result"]["stopReason"]
        )

    def run(self, session: str, text: str, timeout: float = TIMEOUT) -> str:
        """Send a prompt and wait for its end; its stop reason."""
        return self.settled(session, self.prompt(session, text), timeout)

    def load(self, session: str, cwd: Path) -> Reply:
        """Ask for a session with its whole conversation."""
        params: Message = {"sessionId": session, "cwd": str(cwd)}
        if self.version == 2:
            return self.client.request(
                "session/resume", {**params, "replayFrom": {"type": "start"}}
            )
        return self.client.request("session/load", {**params, "mcpServers": []})

    def statuses(self, session: str) -> dict[str, str]:
        """The status of every call of a session, by its id."""
        record = self.client.record
        lives = record.life_v1(session) if self.version == 1 else record.life(session)
        return dict(lives.calls)
