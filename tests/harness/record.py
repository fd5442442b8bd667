"""
The record of one connection: judges every line of the server and keeps what it said.

It is told what the client sends (`expect`, `prompt_sent`), since a response can only
be judged by its request. Not thread-safe: the client holds its lock around each call.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import attrs

from tests.harness.lifecycle import Phase, SessionLife
from tests.harness.lifecycle_v1 import SessionLifeV1
from tests.harness.messages import (
    JsonId,
    Message,
    Update,
    WireFault,
    check_envelope,
    id_key,
    parse_line,
)
from tests.harness.permissions import PermissionRequest
from tests.harness.schema import WireSchema, wire_schema

LINES_KEPT = 60
SHOWN = 400
# What an error object must not contain: no traceback, no exception's text.
LEAKS = ("Traceback", 'File \\"', "Error(", "Exception")


@attrs.define(eq=False)
class Expected:
    """A request that awaits its response; `seq` is the place of the response."""

    id: JsonId
    method: str
    session: str | None = None
    in_batch: bool = False
    response: Message | None = None
    seq: int | None = None
    line: int | None = None


class Record:
    """What a server said on one connection, and what was wrong with it."""

    def __init__(self) -> None:
        self.version: int | None = None
        self.violations: list[str] = []
        self.updates: list[Update] = []
        self.permissions: list[PermissionRequest] = []
        self.lives: dict[str, SessionLife] = {}
        self.lives_v1: dict[str, SessionLifeV1] = {}
        self.lines = 0
        self._expected: dict[tuple[str, object], deque[Expected]] = {}
        self._messages = 0
        self._torn = b""
        self._transcript: deque[str] = deque(maxlen=LINES_KEPT)

    def note(self, text: str) -> None:
        """Keep something for the transcript that a failure shows."""
        self._transcript.append(text)

    def sent(self, data: bytes) -> None:
        """Keep what the client wrote for the transcript."""
        self.note("-> " + _short(data))

    @property
    def transcript(self) -> str:
        """The last lines of the wire."""
        return "\n".join(self._transcript)

    def life(self, session: str) -> SessionLife:
        """The state of a session, made when first named."""
        return self.lives.setdefault(session, SessionLife())

    def life_v1(self, session: str) -> SessionLifeV1:
        """The state of a session in version 1, made when first named."""
        return self.lives_v1.setdefault(session, SessionLifeV1())

    def expect(self, expected: Expected) -> Expected:
        """Register a request that is about to be written."""
        self._expected.setdefault(id_key(expected.id), deque()).append(expected)
        if expected.session is not None and self.version == 1:
            self.life_v1(expected.session).request_sent(expected.method)
        elif expected.session is not None and expected.method == "session/prompt":
            self.life(expected.session).prompt_sent()
        elif expected.session is not None and expected.method == "session/resume":
            self.life(expected.session).resume_sent()
        return expected

    @property
    def unanswered(self) -> list[Expected]:
        """The requests that have no response yet."""
        return [expected for queue in self._expected.values() for expected in queue]

    def received(self, line: bytes) -> list[PermissionRequest]:
        """Judge and keep one line; the questions in it, which the client is to answer."""
        self.lines += 1
        self.note("<- " + _short(line))
        asked: list[PermissionRequest] = []
        try:
            message = parse_line(line)
            if isinstance(message, list):
                self._batch(message)
            else:
                self._message(check_envelope(message), asked, in_batch=False)
        except WireFault as fault:
            self._violation(f"{fault}: {line[:500]!r}")
        return asked

    def ended(self, rest: bytes) -> None:
        """Standard output ended, with `rest` after the last newline."""
        self.note("<- end of stdout")
        self._torn = rest

    def judge_end(self) -> None:
        """Judge an orderly end: nothing may be left open, and no line be torn."""
        if self._torn:
            self._violation(f"the last line has no newline: {_short(self._torn)}")
        for expected in self.unanswered:
            self._violation(f"{expected.method} with id {expected.id!r} was never answered")
        for request in self.permissions:
            if not request.answered and not request.cancelled:
                self._violation(f"permission {request.id!r} was left open without a cancel")
        for session, life in self.lives.items():
            if life.phase is not Phase.IDLE:
                self._violation(f"session {session} was left {life.phase}")

    def _violation(self, text: str) -> None:
        self.violations.append(text)
        self.note("!! " + text)

    def _batch(self, messages: list[Any]) -> None:
        if not messages:
            raise WireFault("an empty batch")
        for message in messages:
            envelope = check_envelope(message)
            if "method" in envelope:
                raise WireFault("a request or notification in a batch")
            self._message(envelope, [], in_batch=True)

    def _message(self, message: Message, asked: list[PermissionRequest], *, in_batch: bool) -> None:
        self._messages += 1
        if "method" not in message:
            self._response(message, in_batch=in_batch)
        elif "id" in message:
            asked.append(self._request(message))
        else:
            self._notification(message)

    @property
    def _schema(self) -> WireSchema:
        return wire_schema(self.version or 2)

    def _check(self, definition: str | None, instance: Any) -> None:
        if definition is None:
            raise WireFault("the negotiated version has no such message")
        fault = self._schema.fault(definition, instance)
        if fault is not None:
            raise WireFault(fault)

    def _response(self, message: Message, *, in_batch: bool) -> None:
        queue = self._expected.get(id_key(message["id"]))
        if not queue:
            raise WireFault("a response to an id that is not awaited")
        expected = queue.popleft()
        expected.response = message
        expected.seq, expected.line = self._messages, self.lines
        if expected.in_batch != in_batch:
            raise WireFault("a batch answers a batch, and nothing else")
        if "error" in message:
            self._error(message["error"])
        else:
            self._result(expected.method, message["result"])
        self._follow(expected, accepted="result" in message)

    def _error(self, error: Any) -> None:
        self._check("Error", error)
        text = json.dumps(error)
        if any(word in text for word in LEAKS):
            raise WireFault("an error tells of the inside of the program")

    def _result(self, method: str, result: Any) -> None:
        if method == "initialize":
            self._negotiated(result)
        if method == "session/cancel":
            # A notification that was sent with an id; no schema has an answer to it.
            if result != {}:
                raise WireFault("session/cancel is answered by an empty object")
            return
        self._check(self._schema.definition(method, "response"), result)

    def _negotiated(self, result: Any) -> None:
        version = result.get("protocolVersion") if isinstance(result, dict) else None
        if version not in (1, 2):
            raise WireFault(f"protocolVersion {version!r} was negotiated")
        self.version = version

    def _follow(self, expected: Expected, *, accepted: bool) -> None:
        if expected.session is None:
            return
        if self.version == 1:
            self._raise(self.life_v1(expected.session).request_answered(expected.method))
        if self.version != 2:
            return
        life = self.life(expected.session)
        faults: list[str] = []
        if expected.method == "session/prompt":
            faults = life.prompt_answered(accepted=accepted)
        elif expected.method == "session/resume":
            life.resume_answered()
        elif expected.method == "session/close" and accepted:
            faults = life.closed()
        self._raise(faults)

    def _notification(self, message: Message) -> None:
        method, params = message["method"], message["params"]
        self._check(self._schema.definition(method, "notification"), params)
        if method == "$/cancel_request":
            self._withdrawn(params["requestId"])
        elif method == "session/update":
            update = params["update"]
            self.updates.append(
                Update(self._messages, params["sessionId"], update["sessionUpdate"], update)
            )
            if self.version == 2:
                self._raise(self.life(params["sessionId"]).update(update))
            elif self.version == 1:
                self._raise(self.life_v1(params["sessionId"]).update(update))
        else:
            raise WireFault(f"the agent does not send {method}")

    def _withdrawn(self, request_id: JsonId) -> None:
        for request in self.permissions:
            if id_key(request.id) == id_key(request_id) and not request.cancelled:
                request.cancelled = True
                return
        raise WireFault(f"$/cancel_request for {request_id!r}, which is not open")

    def _request(self, message: Message) -> PermissionRequest:
        method, params = message["method"], message["params"]
        if method != "session/request_permission":
            raise WireFault(f"the agent does not request {method}")
        self._check("RequestId", message["id"])
        self._check(self._schema.definition(method, "request"), params)
        if any(id_key(request.id) == id_key(message["id"]) for request in self.permissions):
            raise WireFault(f"request id {message['id']!r} was used before")
        request = PermissionRequest(id=message["id"], params=params, seq=self._messages)
        self.permissions.append(request)
        call_id = request.tool_call.get("toolCallId")
        if self.version == 2:
            self._raise(self.life(request.session).permission_asked(call_id))
        elif self.version == 1:
            self._raise(self.life_v1(request.session).permission_asked(call_id))
        return request

    def _raise(self, faults: list[str]) -> None:
        if faults:
            raise WireFault("; ".join(faults))


def _short(data: bytes) -> str:
    if len(data) <= SHOWN:
        return repr(data)
    return f"{data[: SHOWN // 2]!r} ... {data[-SHOWN // 2 :]!r} ({len(data)} bytes)"
