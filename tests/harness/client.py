"""The test client: the methods of protocol version 2 on a connection to the real program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.harness.connection import Connection
from tests.harness.home import Home
from tests.harness.messages import Message, Update, prompt_params
from tests.harness.replies import TIMEOUT, Reply, Turn

CLIENT_INFO = {"name": "term2-tests", "version": "1.0.0"}


class Client(Connection):
    """A client that knows sessions, prompts and updates; see `Connection` for waiting."""

    def __init__(self, home: Home, *args: str, **options: Any) -> None:
        super().__init__(home, *args, **options)
        self._idles_taken: dict[str, int] = {}

    def initialize(self, version: int = 2, **params: Any) -> Message:
        """Say hello and give the result."""
        hello = {"protocolVersion": version, "info": CLIENT_INFO, **params}
        result: Message = self.request("initialize", hello).result()
        return result

    def new_session(self, cwd: Path | str) -> str:
        """Open a session and give its id."""
        result = self.request("session/new", {"cwd": str(cwd)}).result()
        return str(result["sessionId"])

    def prompt(self, session: str, prompt: str | Sequence[Message]) -> Reply:
        """Send a prompt: a text, or content blocks."""
        return self.request("session/prompt", prompt_params(session, prompt))

    def run(self, session: str, prompt: str | Sequence[Message], timeout: float = TIMEOUT) -> Turn:
        """Send a prompt and wait for its end."""
        with self.changed:
            start = len(self.record.updates)
        reply = self.prompt(session, prompt)
        reply.result(timeout)
        reason = self.wait_idle(session, timeout)
        with self.changed:
            updates = [u for u in self.record.updates[start:] if u.session == session]
        return Turn(reply, reason, updates)

    def still_works(self, session: str) -> None:
        """
        Run a prompt that says a word, to show that the connection and the session live.

        Raises:
            AssertionError: it does not end as it should.
        """
        turn = self.run(session, "/say still here")
        assert (turn.stop_reason, "still here" in turn.text) == ("end_turn", True), turn

    def cancel(self, session: str) -> None:
        """Send session/cancel."""
        self.notify("session/cancel", {"sessionId": session})

    def close_session(self, session: str) -> Any:
        """Close a session and give the result."""
        return self.request("session/close", {"sessionId": session}).result()

    def resume(self, session: str, cwd: Path | str, *, replay: bool = False) -> Reply:
        """Ask for a session again, with a replay from its start or without any."""
        params: Message = {"sessionId": session, "cwd": str(cwd)}
        if replay:
            params["replayFrom"] = {"type": "start"}
        return self.request("session/resume", params)

    def replay(self, session: str, cwd: Path | str) -> list[Update]:
        """Resume with a replay; the updates between the request and its response."""
        before = len(self.updates(session))
        reply = self.resume(session, cwd, replay=True)
        assert reply.result() == {}
        return [u for u in self.updates(session)[before:] if u.seq < reply.seq]

    def updates(self, session: str) -> list[Update]:
        """All updates of a session so far."""
        with self.changed:
            return [u for u in self.record.updates if u.session == session]

    def forget_updates(self, session: str | None = None) -> None:
        """Let go of the updates (of a session) so far; long games would fill the memory."""
        with self.changed:
            kept = [u for u in self.record.updates if session not in (None, u.session)]
            self.record.updates[:] = kept

    def wait_update(
        self,
        predicate: Callable[[Update], bool],
        timeout: float = TIMEOUT,
        *,
        session: str | None = None,
        what: str = "an update",
    ) -> Update:
        """Wait for an update (of a session) that is or was as `predicate` says."""

        def probe() -> Update | None:
            for update in self.record.updates:
                if session in (None, update.session) and predicate(update):
                    return update
            return None

        found: Update = self.wait_for(probe, what, timeout)
        return found

    def wait_idle(self, session: str, timeout: float = TIMEOUT) -> str:
        """Wait for the next idle state that no earlier call gave; its stop reason."""
        taken = self._idles_taken.get(session, 0)
        reasons = self.record.life(session).stop_reasons
        self.wait_for(lambda: len(reasons) > taken, f"idle of session {session}", timeout)
        self._idles_taken[session] = taken + 1
        return reasons[taken]

    def wait_state(self, session: str, state: str, timeout: float = TIMEOUT) -> Update:
        """Wait for the (first) state_update with that state."""
        return self.wait_update(
            lambda u: u.kind == "state_update" and u.body["state"] == state,
            timeout,
            session=session,
            what=f"state_update {state}",
        )

    def sync(self) -> None:
        """Wait until the server has handled all that was sent before (a round trip)."""
        self.request("session/list", {}).response()
