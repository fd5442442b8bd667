"""
Kills the server at chosen places of a turn, and judges what the next one makes of it.

The turn has everything that can be told: thoughts, text, calls side by side, a plan, an
edit, a compaction, a permission, a command with output. The model is a scripted service
that refuses a conversation with an unpaired call.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.harness.client import Client
from tests.harness.home import Home
from tests.harness.messages import Conversation, conversation
from tests.harness.permissions import PermissionRequest
from tests.models.chat import ChatServer, chat_chunk
from tests.models.http import Then, json_reply
from tests.models.messages import MessagesServer
from tests.models.responses import ResponsesServer
from tests.models.steps import Call, ScriptedStep

Model = ChatServer | MessagesServer | ResponsesServer
KINDS: dict[str, Callable[[], Model]] = {
    "openai-compatible": ChatServer,
    "openai": ResponsesServer,
    "anthropic": MessagesServer,
}
TURN = "turn"
"""A turn of every kind of update, once or twice each."""
STREAM = "stream"
"""A turn of one long thought and one long text that never ends, in Chat Completions' format."""
STREAM_LINES = 100
"""So many lines such a turn has at least."""

_TOO_LONG: dict[str, Any] = {
    "openai-compatible": {"error": {"message": "too long", "code": "context_length_exceeded"}},
    "openai": {"error": {"message": "too long", "code": "context_length_exceeded"}},
    "anthropic": {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"},
    },
}
_FINAL = frozenset({"completed", "failed", "cancelled"})
_PLAN = [
    {"content": "pour", "priority": "high", "status": "in_progress"},
    {"content": "drink", "priority": "low", "status": "pending"},
]
# A vendor's SDK takes its time to load on a machine that is busy.
_PATIENCE_S = 90.0
_COMMAND = "echo one; echo two >&2; echo three"


class LostError(AssertionError):
    """Something that the client had been told is not there after the kill."""


class KillSweep:
    """
    One home, one model service, one server after the other.

    Each server first judges the session that its predecessor was killed in.
    """

    def __init__(self, root: Path, kind: str = "openai-compatible") -> None:
        self.home = Home.create(root)
        self.project = self.home.project()
        self.model = KINDS[kind]()
        self.kills = 0
        self._kind = kind
        self._client: _Killed | None = None
        self.home.configure(
            f'provider = "local"\nmodel = "m"\n[providers.local]\nkind = "{kind}"\n'
            f'base_url = "{self.model.base_url}"\napi_key_env = "LOCAL_API_KEY"\n'
            'models = [{ id = "m", context_window = 100000 }]\n'
        )

    def lines(self, script: str) -> int:
        """How many lines a turn is told in when nobody is killed."""
        client, session = self._start(script)
        before = client.record.lines
        client.prompt(session, script).result()
        client.wait_idle(session)
        return client.record.lines - before

    def kill_after(self, lines: int, script: str) -> str:
        """
        Kill the server right after so many lines of a turn arrived, and judge the next one.

        A turn that has fewer is over when its server is killed.

        Returns the kind of the last update that the client got.

        Raises:
            LostError: something was lost, or left open.
        """
        client, session = self._start(script)
        client.kill_at(client.record.lines + lines)
        client.prompt(session, script)
        client.wait_exit(_PATIENCE_S)
        client.close()
        self.kills += 1
        told = conversation(client.updates(session))
        last = client.updates(session)[-1].kind if client.updates(session) else "nothing"
        self._judge(session, told, client.titles.get(session))
        return last

    def close(self) -> None:
        """End everything; the model service must have had nothing to refuse."""
        if self._client is not None:
            self._client.close()
        self.model.close()
        assert self.model.faults == [], self.model.faults

    def _start(self, script: str) -> tuple[_Killed, str]:
        client = self._running()
        session = client.new_session(self.project)
        (self.project / "made.txt").unlink(missing_ok=True)
        self.model.forget_script()
        self._script(script)
        return client, session

    def _running(self) -> _Killed:
        if self._client is None or not self._client.healthy:
            self._client = _Killed(self.home, LOCAL_API_KEY="sk-local-not-shown")
            self._client.initialize()
            self._client.permissions.policy = self._client.approve
        return self._client

    def _judge(self, session: str, told: Conversation, title: str | None) -> None:
        self.model.settle()
        self.model.forget_script()
        client = self._running()
        if not told.items and not self._is_listed(client, session):
            # It was killed before the prompt was stored; the session itself is there.
            client.resume(session, self.project).result()
        else:
            kept = conversation(client.replay(session, self.project))
            check_kept(told, kept)
            self._check_closed(session)
            if title is not None and not self._is_listed(client, session, title):
                raise LostError(f"the title {title!r} is lost")
        self.model.step(ScriptedStep(text="I go on."))
        answer = client.run(session, "go on", _PATIENCE_S)
        if (answer.stop_reason, answer.text) != ("end_turn", "I go on."):
            raise LostError(f"the next prompt ended {answer.stop_reason}: {answer.text}")
        client.close_session(session)

    def _check_closed(self, session: str) -> None:
        """The log ends with a turn's end: no wire tells of it, the next model does."""
        path = self.home.state / "term2" / "sessions.db"
        with closing(sqlite3.connect(path)) as database:
            last = database.execute(
                "SELECT type FROM events WHERE session_id = ? ORDER BY seq DESC", (session,)
            ).fetchone()
        if last != ("turn_ended",):
            raise LostError(f"the log ends with {last}")

    @staticmethod
    def _is_listed(client: Client, session: str, title: str | None = None) -> bool:
        infos = client.request("session/list", {}).result()["sessions"]
        return any(
            info["sessionId"] == session and title in (None, info.get("title")) for info in infos
        )

    def _script(self, script: str) -> None:
        if script == STREAM:
            pieces = [f"word{number} " for number in range(STREAM_LINES // 2)]
            parts = [chat_chunk({"reasoning_content": piece}) for piece in pieces]
            parts += [chat_chunk({"content": piece}) for piece in pieces]
            self.model.stream(*parts, Then.STALL)
            return
        step = self.model.step
        step(
            ScriptedStep(
                thought="I look first.",
                text="Let me look.",
                calls=(
                    Call.of("read_file", path="README.md"),
                    Call.of("grep", pattern="tea"),
                ),
            )
        )
        step(ScriptedStep(calls=(Call.of("update_plan", entries=_PLAN),)))
        step(ScriptedStep(calls=(Call.of("create_file", path="made.txt", content="tea\n"),)))
        self.model.reply(json_reply(400, _TOO_LONG[self._kind]))
        step(ScriptedStep(text="The summary: tea."))
        step(ScriptedStep(thought="Now run it.", calls=(Call.of("shell", command=_COMMAND),)))
        step(ScriptedStep(text="All is done."))


class _Killed(Client):
    """A client that kills its server at a line."""

    _kill_at: int | None = None
    _is_killed = False

    def __init__(self, home: Home, **options: Any) -> None:
        self.titles: dict[str, str] = {}
        super().__init__(home, **options)

    def kill_at(self, line: int) -> None:
        """Kill once so many lines have come from the connection's start, or a turn is over."""
        with self.changed:
            self._kill_at = line
            if self.record.lines >= line:
                self.kill()

    def approve(self, _request: PermissionRequest) -> str | None:
        """Allow what is asked, unless it is too late."""
        return None if self._is_killed else "approve"

    def kill(self) -> None:
        """Kill the server (SIGKILL)."""
        self._is_killed = True
        super().kill()

    def _on_line(self, line: bytes) -> None:
        super()._on_line(line)
        if self._kill_at is not None and (
            self.record.lines >= self._kill_at or b'"state":"idle"' in line
        ):
            self.kill()
        if b'"session_info_update"' in line:
            params = json.loads(line)["params"]
            self.titles[params["sessionId"]] = params["update"]["title"]


def check_kept(told: Conversation, kept: Conversation) -> None:
    """
    Compare what the client was told before the kill with a replay after it.

    Raises:
        LostError: something is missing, changed, out of order or still open.
    """
    values = {item[:2]: item[2] for item in kept.items}
    order = [item[:2] for item in kept.items if item[:2] in {told[:2] for told in told.items}]
    if order != [item[:2] for item in told.items]:
        raise LostError(f"told {[item[:2] for item in told.items]}, kept {order}")
    for kind, name, value in told.items:
        _check_item(kind, value, values[kind, name])
    for terminal, (output, status) in told.terminals.items():
        kept_output, kept_status = kept.terminals[terminal]
        if not kept_output.startswith(output) or (status is not None and status != kept_status):
            raise LostError(f"terminal {terminal} showed {output!r}, kept {kept_output!r}")
    for terminal, (_output, status) in kept.terminals.items():
        if status is None:
            raise LostError(f"terminal {terminal} is still open")
    for kind, name, value in kept.items:
        if kind == "call" and value["status"] not in _FINAL:
            raise LostError(f"{name} is still {value['status']}")
    if told.plan is not None and told.plan != kept.plan:
        raise LostError(f"the plan was {told.plan}, kept {kept.plan}")


def _check_item(kind: str, told: Any, kept: Any) -> None:
    if kind in ("agent", "thought"):
        same = kept.startswith(told)
    elif kind == "user" or told["status"] in _FINAL:
        same = kept == told
    else:
        # It may have gone on in the log for a moment that nobody saw.
        fixed = ("name", "title", "kind", "rawInput")
        same = all(told[member] == kept[member] for member in fixed)
        shown = told["content"] or []
        same = same and kept["content"][: len(shown)] == shown
    if not same:
        raise LostError(f"told {told!r}, kept {kept!r}")
