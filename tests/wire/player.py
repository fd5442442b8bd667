"""Plays a sequence of lines on a real server and judges what came back by the oracle."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.harness.client import Client
from tests.harness.home import Home
from tests.harness.lifecycle import Phase
from tests.harness.messages import JsonId, Message, agent_text, id_key, prompt_params
from tests.harness.permissions import PermissionRequest
from tests.harness.record import Expected, Record
from tests.harness.schema import wire_schema
from tests.wire.oracle import OPENING, RESULT, Answer, KnownSession, Turn, World, is_id
from tests.wire.sequences import CLOSED, FILE, HOME, LAST, LIVE, OUTSIDE, PROJECT, Step

# Their responses move the state of a session, so each has an id that tells which it is.
TELLING = OPENING | {"session/prompt", "session/close"}
LARGE = 10**6


class Collected(Record):
    """A record that leaves open which of the requests of one id a response belongs to."""

    def __init__(self) -> None:
        super().__init__()
        self.responses: list[tuple[Message, bool]] = []
        self.batch_sizes: list[int] = []

    def _batch(self, messages: list[Any]) -> None:
        self.batch_sizes.append(len(messages))
        super()._batch(messages)

    def _response(self, message: Message, *, in_batch: bool) -> None:
        queue = self._expected.get(id_key(message["id"]))
        if queue:
            place = next((n for n, one in enumerate(queue) if one.in_batch == in_batch), 0)
            queue.rotate(-place)
        super()._response(message, in_batch=in_batch)
        self.responses.append((message, in_batch))

    def _result(self, method: str, result: Any) -> None:
        if method:
            super()._result(method, result)


class SequenceClient(Client):
    """A client whose requests may share an id."""

    record_class = Collected
    record: Collected


class Player:
    """
    One server and what its client knows of it.

    Sequences are played one after the other; each ends with every turn settled, a prompt
    that works and its sessions closed. After a failure the server is not used again.
    """

    def __init__(self, home: Home) -> None:
        self.client = SequenceClient(home)
        self.world = World()
        self._project = home.project()
        self._outside = home.root / "outside.txt"
        self._outside.write_text("outside\n")
        self._names: dict[str, JsonId] = {
            PROJECT: str(self._project),
            FILE: str(self._project / "README.md"),
            HOME: str(home.path),
        }
        self._numbers = iter(range(LARGE, 10 * LARGE))
        self._answers: list[Answer] = []
        self._replied: set[int] = set()
        self._pending = b""

    def initialize(self, version: int) -> None:
        """Negotiate a version as a client should."""
        self.client.initialize(version)
        self.client.record.responses.clear()
        self.world.version = version

    def play(self, steps: list[Step], said: list[str], version: int = 2) -> None:
        """
        Send the lines, wait until all is answered, judge it, and run a prompt.

        `version` is negotiated at last if the sequence has negotiated none.

        Raises:
            AssertionError: the server did otherwise than the spec says.
        """
        self.client.permissions.policy = self._speaker(said)
        self._names.pop(LAST, None)
        if self.world.version is not None:
            self._open_sessions()
        for step in steps:
            if step.value is None:
                self._settle()
            else:
                self._send(step)
        self._settle()
        if self.world.version is None:
            self.initialize(version)
        if not self.world.sessions:
            self._open_sessions()
        self._serve()
        self._close_sessions()

    def _open_sessions(self) -> None:
        for name in (LIVE, CLOSED):
            session = self._new_session()
            self._names[name] = session
            self.world.sessions[session] = KnownSession(str(self._project), live=True)
        self._prompt(session)
        self._request("session/close", {"sessionId": session})
        self.world.sessions[session].live = False

    def _new_session(self) -> str:
        params = {"cwd": str(self._project), "mcpServers": []}
        return str(self._request("session/new", params)["sessionId"])

    def _request(self, method: str, params: Message) -> Any:
        result = self.client.request(method, params, request_id=next(self._numbers)).result()
        self.client.record.responses.clear()
        return result

    def _prompt(self, session: str) -> None:
        """Run a prompt as a client should."""
        start = len(self.client.updates(session))
        params = prompt_params(session, "/say still here")
        result = self._request("session/prompt", params)
        if self.world.version == 1:
            assert result == {"stopReason": "end_turn"}, result
        else:
            self._wait_settled()
            assert self.client.record.life(session).stop_reasons[-1] == "end_turn"
        updates = self.client.updates(session)[start:]
        assert agent_text(updates) == "still here", updates

    def _serve(self) -> None:
        """Every session still works; those of which it is open whether they live are resumed."""
        for session, known in self.world.sessions.items():
            if not known.live:
                self._request("session/resume", {"sessionId": session, "cwd": known.cwd})
                known.live = True
            self._prompt(session)

    def _close_sessions(self) -> None:
        for session in self.world.sessions:
            self._request("session/close", {"sessionId": session})
        self.world.sessions.clear()
        self.client.forget_updates()
        self.client.record.lives.clear()
        self.client.record.lives_v1.clear()

    def _send(self, step: Step) -> None:
        line = self._line(step.value)
        for answer in self.world.judge(line):
            self._answers.append(answer)
            telling = RESULT in answer.allowed and answer.method in TELLING | {"initialize"}
            expected = Expected(
                id=answer.id,
                method=answer.method if telling else "",
                session=answer.session if telling else None,
                in_batch=answer.in_batch,
            )
            with self.client.changed:
                self.client.record.expect(expected)
        data = self._pending + line + step.end
        self._pending = b""
        if step.cut is None:
            self._pending = data
            return
        place = step.cut % (len(data) + 1)
        self.client.send_raw(data[:place])
        self.client.send_raw(data[place:])

    def _line(self, value: Any) -> bytes:
        if isinstance(value, bytes):
            return value
        value = self._named(value)
        for message in value if isinstance(value, list) else [value]:
            if isinstance(message, dict):
                self._number(message)
        try:
            return json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return json.dumps(value).encode()

    def _named(self, value: Any) -> Any:
        """A copy with the real names."""
        if isinstance(value, str):
            return self._names.get(value, value.replace(OUTSIDE, str(self._outside)))
        if isinstance(value, list):
            return [self._named(one) for one in value]
        if isinstance(value, dict):
            return {name: self._named(one) for name, one in value.items()}
        return value

    def _number(self, message: Message) -> None:
        if "method" not in message and type(message.get("id")) is int:
            self._replied.add(message["id"])
        method = message.get("method")
        if isinstance(method, str) and method in TELLING and is_id(message.get("id", ())):
            number = next(self._numbers)
            message["id"] = number if number % 2 else f"p{number}"
            self._names[LAST] = message["id"]

    def _settle(self) -> None:
        """Stop the turns that may run, wait for all answers, and judge them."""
        if self._pending:
            self.client.send_raw(self._pending)
            self._pending = b""
        for session, known in self.world.sessions.items():
            if known.turn is not Turn.NONE:
                self.client.cancel(session)
        self._wait_settled()
        record = self.client.record
        assert record.batch_sizes == [] or all(record.batch_sizes), record.batch_sizes
        _match(self._answers, record.responses, self.world.version)
        self._close_opened()
        for asked in record.permissions:
            asked.answered = asked.answered or asked.id in self._replied
        self._answers.clear()
        record.responses.clear()
        record.batch_sizes.clear()
        self._replied.clear()
        self.world.settled()

    def _wait_settled(self) -> None:
        record = self.client.record

        def settled() -> bool:
            idle = all(life.phase is Phase.IDLE for life in record.lives.values())
            return idle and not record.unanswered

        self.client.wait_for(settled, "the end of what was sent")

    def _close_opened(self) -> None:
        """Close the sessions that the sequence opened."""
        for message, _ in list(self.client.record.responses):
            result = message.get("result")
            if isinstance(result, dict) and "sessionId" in result:
                self._request("session/close", {"sessionId": result["sessionId"]})

    def _speaker(self, said: list[str]) -> Callable[[PermissionRequest], None]:
        approve = {"outcome": {"outcome": "selected", "optionId": "approve"}}

        def speak(asked: PermissionRequest) -> None:
            number = int(asked.id or 0)
            ignored = {
                "id as text": str(number),
                "id as fraction": float(number),
                "other id": number + LARGE,
            }
            for word in said:
                if word in ignored:
                    self.client.send({"jsonrpc": "2.0", "id": ignored[word], "result": approve})
                elif word == "error":
                    self.client.permissions.fail(asked, -32601)
                else:
                    result = approve if word == "approve" else {"outcome": 5}
                    self.client.permissions.reply(asked, result)

        return speak


def _match(answers: list[Answer], responses: list[tuple[Message, bool]], version: Any) -> None:
    """
    Give each response to a request of its id that it may answer.

    Raises:
        AssertionError: that cannot be done for all of them.
    """
    assert Counter(id_key(one.id) for one in answers) == Counter(
        id_key(message["id"]) for message, _ in responses
    )
    owners: dict[int, int] = {}

    def place(number: int, tried: set[int]) -> bool:
        for other, response in enumerate(responses):
            if other not in tried and _fits(answers[number], *response, version):
                tried.add(other)
                if other not in owners or place(owners[other], tried):
                    owners[other] = number
                    return True
        return False

    for number, answer in enumerate(answers):
        got = [message for message, _ in responses if message["id"] == answer.id]
        assert place(number, set()), f"{answer} is not answered by any of {got}"


def _fits(answer: Answer, message: Message, in_batch: bool, version: Any) -> bool:
    if id_key(answer.id) != id_key(message["id"]) or answer.in_batch != in_batch:
        return False
    if "error" in message:
        error = message["error"]
        named = error["code"] != -32602 or any(name in error["message"] for name in answer.members)
        return error["code"] in answer.allowed and named
    if RESULT not in answer.allowed:
        return False
    if answer.method in ("session/cancel", "$/cancel_request"):
        return bool(message["result"] == {})
    definition = wire_schema(version or 2).definition(answer.method, "response")
    return (
        definition is None or wire_schema(version or 2).fault(definition, message["result"]) is None
    )


def new_player(root: Path) -> Player:
    """A player with a home of its own below `root`."""
    return Player(Home.create(root))
