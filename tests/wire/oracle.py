"""
What section 4 of the spec demands for any line, told from the line and what went before.

Written from the spec and not from the program: the oracle of `test_wire_sequences`. Where
answers race (a prompt behind a short one, a close beside a resume) it allows each outcome
that an order of theirs gives, and nothing else.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import attrs

from tests.harness.messages import JsonId, Message, id_key

RESULT = "result"
PARSE, INVALID, UNKNOWN, PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
NOT_FOUND, CANCELLED = -32002, -32800
BUSY = {1: -32010, 2: -32000}
COMMON = frozenset(
    f"session/{name}" for name in ("new", "list", "resume", "prompt", "cancel", "close")
)
METHODS = {1: COMMON | {"session/load"}, 2: COMMON}
OPENING = frozenset({"session/resume", "session/load"})
MAX_BATCH = 1000
SLEEP = "/sleep 600"
FAIL = "/fail"


class Turn(StrEnum):
    """Whether a turn runs, as far as the client can know."""

    NONE = "none"
    MAYBE = "maybe"
    SURE = "sure"


@attrs.define
class KnownSession:
    """A session that the sequence names; `live` is None where two requests race for it."""

    cwd: str
    live: bool | None
    turn: Turn = Turn.NONE
    opening: int = 0


@attrs.define(eq=False)
class Answer:
    """
    One response that must come: its id, and the codes (or `RESULT`) that it may have.

    `members` are the faulty parameters, one of which -32602 has to name.
    """

    id: JsonId
    allowed: set[int | str]
    method: str = ""
    session: str | None = None
    members: frozenset[str] = frozenset()
    in_batch: bool = False


def refusal(request_id: JsonId, *codes: int) -> Answer:
    """An answer that is an error."""
    return Answer(request_id, set(codes))


class World:
    """What the client knows of the server. `judge` takes each line in the order of sending."""

    def __init__(self) -> None:
        self.version: int | None = None
        self.sessions: dict[str, KnownSession] = {}
        self._open: list[Answer] = []
        self._judges: dict[str, Callable[[Answer, Message], None]] = {
            "session/new": self._new,
            "session/list": self._list,
            "session/prompt": self._prompt,
            "session/close": self._close,
            "session/cancel": self._cancel,
            "session/resume": self._resume,
            "session/load": self._resume,
        }

    def settled(self) -> None:
        """Every answer came and no turn runs any more."""
        self._open.clear()
        for session in self.sessions.values():
            session.turn, session.opening = Turn.NONE, 0

    def judge(self, line: bytes) -> list[Answer]:
        """The responses that a line (without its line feed) must get."""
        if not line.strip():
            return []
        try:
            value = json.loads(line.decode(), parse_constant=_not_json)
        except (ValueError, RecursionError):
            return [refusal(None, PARSE)]
        if not isinstance(value, list):
            return self._message(value)
        if not 0 < len(value) <= MAX_BATCH:
            return [refusal(None, INVALID)]
        answers = [answer for one in value for answer in self._message(one, in_batch=True)]
        for answer in answers:
            answer.in_batch = True
        return answers

    def _message(self, message: Any, *, in_batch: bool = False) -> list[Answer]:
        if not isinstance(message, dict):
            return [refusal(None, INVALID)]
        if "method" not in message:
            reply = "result" in message or "error" in message
            return [] if reply else [refusal(readable_id(message), INVALID)]
        if "id" in message:
            return [self._request(message, in_batch=in_batch)]
        if not isinstance(message["method"], str):
            return [refusal(None, INVALID)]
        self._notification(message)
        return []

    def _request(self, message: Message, *, in_batch: bool) -> Answer:
        method, params = message["method"], message.get("params")
        answer = Answer(readable_id(message), {RESULT})
        well_formed = (
            is_id(message["id"])
            and message.get("jsonrpc") == "2.0"
            and isinstance(method, str)
            and isinstance(params, dict | list | None)
        )
        early = self.version is None and method != "initialize"
        late = self.version is not None and method == "initialize"
        if not well_formed or early or late or (in_batch and method == "session/prompt"):
            answer.allowed = {INVALID}
            return answer
        if method not in ("initialize", "$/cancel_request", *METHODS.get(self.version or 0, ())):
            answer.allowed = {UNKNOWN}
        elif isinstance(params, list):
            answer.allowed, answer.members = {PARAMS}, frozenset({"params"})
        else:
            answer.method = method
            self._judge(answer, params or {})
        self._open.append(answer)
        return answer

    def _notification(self, message: Message) -> None:
        params = message.get("params")
        well_formed = message.get("jsonrpc") == "2.0" and isinstance(params, dict)
        if self.version is not None and well_formed:
            if message["method"] == "session/cancel":
                self._cancel(Answer(None, {RESULT}), params)
            elif message["method"] == "$/cancel_request":
                self._cancel_request(Answer(None, {RESULT}), params)

    def _judge(self, answer: Answer, params: Message) -> None:
        if answer.method == "initialize":
            self._initialize(answer, params)
        elif answer.method == "$/cancel_request":
            self._cancel_request(answer, params)
        else:
            self._judges[answer.method](answer, params)

    def _initialize(self, answer: Answer, params: Message) -> None:
        wanted, info = params.get("protocolVersion"), params.get("info")
        faults = set()
        if type(wanted) is not int:
            faults.add("protocolVersion")
        elif wanted == 2 and not (
            isinstance(info, dict) and _is_text(info.get("name"), info.get("version"))
        ):
            faults.add("info")
        if not _refuse(answer, faults):
            self.version = 1 if wanted == 1 else 2

    def _cancel_request(self, answer: Answer, params: Message) -> None:
        faults = {} if is_id(params.get("requestId", ())) else {"requestId"}
        if _refuse(answer, faults):
            return
        key = id_key(_repaired(params["requestId"]))
        for other in self._open:
            if id_key(other.id) != key:
                continue
            # Also what would be refused may still wait for its look-up.
            if other.method in OPENING | {"session/list"}:
                other.allowed.add(CANCELLED)
            elif other.method == "session/prompt" and self.version == 1:
                self._may_have_stopped(other.session)

    def _new(self, answer: Answer, params: Message) -> None:
        faults = self._extras(params, required=self.version == 1)
        cwd = params.get("cwd")
        if not (_is_text(cwd) and os.path.isabs(cwd) and "\0" not in cwd):
            faults.add("cwd")
        elif not any(os.path.realpath(cwd) == one.cwd for one in self.sessions.values()):
            # Of the other folders that a sequence can name, none may be worked in.
            faults.add("cwd")
        _refuse(answer, faults)

    def _list(self, answer: Answer, params: Message) -> None:
        cwd, faults = params.get("cwd"), set()
        if cwd is not None and not (_is_text(cwd) and os.path.isabs(cwd) and "\0" not in cwd):
            faults.add("cwd")
        if params.get("cursor") is not None:
            # No sequence has enough sessions for a second page, so each one is made up.
            faults.add("cursor")
        _refuse(answer, faults)

    def _resume(self, answer: Answer, params: Message) -> None:
        faults = self._extras(params, required=answer.method == "session/load")
        replay = params.get("replayFrom")
        from_start = isinstance(replay, dict) and replay.get("type") == "start"
        if self.version == 2 and replay is not None and not from_start:
            faults.add("replayFrom")
        session = self._find(answer, params, faults)
        cwd = params.get("cwd")
        if not (_is_text(cwd) and os.path.isabs(cwd) and "\0" not in cwd) or (
            session is not None and os.path.realpath(cwd) != session.cwd
        ):
            faults.add("cwd")
        refused = _refuse(answer, faults)
        if session is None:
            answer.allowed = (answer.allowed if refused else set()) | {NOT_FOUND}
        elif not refused:
            session.opening += 1
            session.live = session.live or None

    def _prompt(self, answer: Answer, params: Message) -> None:
        faults: set[str] = set()
        session = self._find(answer, params, faults)
        blocks = params.get("prompt")
        is_prompt = isinstance(blocks, list) and all(self._is_block(block) for block in blocks)
        if not is_prompt or not any(_says_something(block) for block in blocks):
            faults.add("prompt")
        refused = _refuse(answer, faults)
        if session is None or session.live is False:
            answer.allowed = (answer.allowed if refused else set()) | {NOT_FOUND}
        elif session.live is None:
            answer.allowed.add(NOT_FOUND)
        if refused or session is None or session.live is False:
            return
        if session.turn is Turn.SURE:
            answer.allowed = {BUSY[self.version or 2]}
            return
        if session.turn is Turn.MAYBE:
            answer.allowed.add(BUSY[self.version or 2])
        text = "\n".join(block.get("text", "") for block in blocks if block["type"] == "text")
        if self.version == 1 and FAIL in text:
            answer.allowed.add(INTERNAL)
        sure = session.live and session.turn is Turn.NONE and text == SLEEP
        session.turn = Turn.SURE if sure else Turn.MAYBE

    def _close(self, answer: Answer, params: Message) -> None:
        faults: set[str] = set()
        session = self._find(answer, params, faults)
        if _refuse(answer, faults):
            return
        if session is None or session.live is False:
            answer.allowed = {NOT_FOUND}
            return
        if session.live is None:
            answer.allowed.add(NOT_FOUND)
        session.live, session.turn = (None if session.opening else False), Turn.NONE
        for other in self._open:
            if other.method in OPENING and other.session == answer.session:
                other.allowed.add(NOT_FOUND)

    def _cancel(self, answer: Answer, params: Message) -> None:
        faults: set[str] = set()
        self._find(answer, params, faults)
        if not _refuse(answer, faults):
            self._may_have_stopped(answer.session)

    def _may_have_stopped(self, name: str | None) -> None:
        session = self.sessions.get(name or "")
        if session is not None and session.turn is Turn.SURE:
            session.turn = Turn.MAYBE

    def _find(self, answer: Answer, params: Message, faults: set[str]) -> KnownSession | None:
        name = params.get("sessionId")
        if not isinstance(name, str):
            faults.add("sessionId")
            return None
        answer.session = name
        return self.sessions.get(name)

    def _extras(self, params: Message, *, required: bool) -> set[str]:
        if self.version == 1:
            missing = required and not isinstance(params.get("mcpServers"), list)
            return {"mcpServers"} if missing else set()
        names = ("mcpServers", "additionalDirectories")
        return {name for name in names if isinstance(params.get(name), list) and params[name]}

    def _is_block(self, block: Any) -> bool:
        match block:
            case {"type": "text", "text": str()}:
                return True
            case {"type": "resource_link", "name": str(), "uri": str()}:
                return True
            case {"type": "resource", "resource": {"uri": str(), "text": str()}}:
                return True
            case {"type": "resource", "resource": {"uri": str(), "blob": str()}}:
                return self.version == 1
        return False


def is_id(value: Any) -> bool:
    """Whether a value is a string, an integer or null."""
    return value is None or isinstance(value, str) or type(value) is int


def readable_id(message: Message) -> JsonId:
    """The id that an answer to a message carries."""
    request_id = message.get("id")
    return _repaired(request_id) if is_id(request_id) else None


def _repaired(request_id: Any) -> Any:
    """Lone surrogates come back as U+FFFD (joined pairs are one character already)."""
    return re.sub("[\ud800-\udfff]", "\ufffd", request_id) if _is_text(request_id) else request_id


def _is_text(*values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def _says_something(block: Message) -> bool:
    return block["type"] != "text" or bool(block["text"].strip())


def _refuse(answer: Answer, faults: Any) -> bool:
    """Make it an error of wrong parameters if there are some."""
    if faults:
        answer.allowed, answer.members = {PARAMS}, frozenset(faults)
    return bool(faults)


def _not_json(name: str) -> Any:
    raise ValueError(name)
