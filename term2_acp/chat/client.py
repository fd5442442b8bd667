"""Protocol version 2 from the client's side: what is sent, and what a message means."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from term2_acp import __version__
from term2_acp.chat.faults import ServerFaultError
from term2_acp.chat.fields import Fields
from term2_acp.chat.questions import Option, Question, outcome, parse_question
from term2_acp.chat.updates import Update, parse_update

PROTOCOL_VERSION = 2
_METHOD_NOT_FOUND = -32601


@attrs.frozen
class Answered:
    """The response to a request of ours: a result, or an error's code and message."""

    request_id: int
    result: Any
    error: tuple[int, str] | None = None


@attrs.frozen
class Updated:
    """An update of a session."""

    session_id: str
    update: Update


@attrs.frozen
class Asked:
    """The server waits for a permission."""

    question: Question


@attrs.frozen
class Withdrawn:
    """A question of that id need not be answered any more."""

    request_id: str | int


Incoming = Answered | Updated | Asked | Withdrawn


@attrs.frozen
class SessionEntry:
    """One session of the list."""

    session_id: str
    cwd: str
    title: str
    updated_at: str


class Client:
    """
    Makes the messages of one connection and understands those that come; no I/O of its own.

    Args:
        send: sends a message; may raise `ServerFaultError`.
    """

    def __init__(self, send: Callable[[Mapping[str, Any]], None]) -> None:
        self._send = send
        self._ids = itertools.count(1)
        self._pending: dict[int, str] = {}

    def request(self, method: str, params: Mapping[str, Any]) -> int:
        """Send a request; its id."""
        number = next(self._ids)
        self._pending[number] = method
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, question: Question, option: Option | None) -> None:
        """Answer a question by one of its options, or by none, which never allows."""
        self._send({"jsonrpc": "2.0", "id": question.request_id, "result": outcome(option)})

    def understand(self, message: Any) -> Incoming | None:
        """
        What a message means; None if there is nothing to do about it.

        A request that this client does not know is answered with an error.

        Raises:
            ServerFaultError: the message is not what the protocol says.
        """
        fields = Fields(message, "a message")
        if "method" not in fields:
            return self._response(fields)
        method = fields.text("method")
        if "id" in fields:
            return self._requested(method, fields)
        if method == "session/update":
            params = fields.child("params")
            update = parse_update(params.child("update"))
            return None if update is None else Updated(params.text("sessionId"), update)
        if method == "$/cancel_request":
            request_id = fields.child("params").raw("requestId")
            return Withdrawn(request_id) if isinstance(request_id, str | int) else None
        return None

    def _requested(self, method: str, fields: Fields) -> Asked | None:
        request_id = fields.raw("id")
        if method == "session/request_permission":
            return Asked(parse_question(request_id, fields.child("params")))
        error = {"code": _METHOD_NOT_FOUND, "message": f"{method} is not known to this client"}
        self._send({"jsonrpc": "2.0", "id": request_id, "error": error})
        return None

    def _response(self, fields: Fields) -> Answered:
        error = fields.optional_child("error")
        told = (error.number("code"), error.text("message")) if error is not None else None
        request_id = fields.raw("id")
        if request_id is None and told is not None:
            raise ServerFaultError(f"the server did not understand a message: {told[1]}")
        method = self._pending.pop(request_id, None) if type(request_id) is int else None
        if method is None:
            raise ServerFaultError("the server answered a request that was not made")
        return Answered(request_id, fields.raw("result"), told)


def hello() -> Mapping[str, Any]:
    """The params of initialize."""
    info = {"name": "term2-chat", "title": "term2 chat", "version": __version__}
    return {"protocolVersion": PROTOCOL_VERSION, "info": info}


def prompt(session_id: str, text: str) -> Mapping[str, Any]:
    """The params of session/prompt for a text."""
    return {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}


def read_version(result: Any) -> None:
    """
    Make sure that the answer to initialize is for the version that was asked for.

    Raises:
        ServerFaultError: it is for another one.
    """
    version = Fields(result, "the result of initialize").number("protocolVersion")
    if version != PROTOCOL_VERSION:
        raise ServerFaultError(
            f"the server speaks version {version} of the protocol, not {PROTOCOL_VERSION}"
        )


def read_session_id(result: Any) -> str:
    """
    The id in an answer to session/new.

    Raises:
        ServerFaultError: there is none.
    """
    return Fields(result, "the result of session/new").text("sessionId")


def read_sessions(result: Any) -> tuple[list[SessionEntry], str | None]:
    """
    The sessions in an answer to session/list, and the cursor of the next page.

    Raises:
        ServerFaultError: a member is not what the protocol says.
    """
    fields = Fields(result, "the result of session/list")
    entries = [
        SessionEntry(
            entry.text("sessionId"),
            entry.text("cwd"),
            entry.optional_text("title") or "",
            entry.optional_text("updatedAt") or "",
        )
        for entry in fields.children("sessions")
    ]
    return entries, fields.optional_text("nextCursor")
