"""The rules of the protocol, kept while the lines come (spec sections 4, 5 and 8)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import attrs

from soak.transcript import Transcript


class BrokenInvariantError(Exception):
    """The server broke a rule."""


@attrs.define
class SessionBook:
    """What is known of one session on this connection."""

    session_id: str
    seen: Transcript = attrs.Factory(Transcript)
    state: str = "idle"
    turns: int = 0
    prompts: int = 0
    # The replay that comes in, while a resume is under way.
    replay: Transcript | None = None
    closed: bool = False
    openings: int = 1
    permissions: list[dict[str, Any]] = attrs.Factory(list)
    stop_reason: str = ""


class Ledger:
    """
    Judges every line of a server; safe to use from any thread.

    A broken rule is kept in `broken` and raised by the next wait.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.broken: list[str] = []
        self.ended = False
        self.updates = 0
        self._requests: dict[Any, tuple[str, str | None]] = {}
        self._closes: dict[Any, int] = {}
        self._sent_at: dict[Any, float] = {}
        self._responses: dict[Any, dict[str, Any]] = {}
        self._answered: set[Any] = set()
        self._sessions: dict[str, SessionBook] = {}
        self._ids: set[str] = set()

    # --- what is sent

    def sent(self, request_id: int, method: str, session_id: str | None) -> None:
        """A request is about to be sent."""
        with self.changed:
            self._requests[request_id] = (method, session_id)
            self._sent_at[request_id] = time.monotonic()
            book = self._sessions.get(session_id or "")
            if book is not None and method == "session/prompt":
                book.prompts += 1
            if book is not None and method == "session/close":
                self._closes[request_id] = book.openings

    def begin_replay(self, session_id: str, seen: Transcript) -> None:
        """A resume with a replay is about to be sent; `seen` is what was seen before."""
        with self.changed:
            book = self._sessions.setdefault(session_id, SessionBook(session_id, seen))
            book.closed = False
            book.openings += 1
            book.replay = Transcript()

    def end_replay(self, session_id: str) -> Transcript:
        """The resume was answered; what it replayed."""
        with self.changed:
            book = self._sessions[session_id]
            replay, book.replay = book.replay or Transcript(), None
            return replay

    def open(self, session_id: str) -> SessionBook:
        """A session that was opened and is new."""
        with self.changed:
            if session_id in self._ids:
                self._break(f"the session id {session_id} came twice")
            self._ids.add(session_id)
            book = self._sessions[session_id] = SessionBook(session_id)
            return book

    def book(self, session_id: str) -> SessionBook:
        """A session that is known."""
        with self.changed:
            return self._sessions[session_id]

    # --- what comes

    def receive(self, message: Any) -> None:
        """Judge a line."""
        with self.changed:
            try:
                self._judge(message)
            except (KeyError, TypeError, AttributeError) as error:
                self._break(f"{type(error).__name__} {error} in {str(message)[:300]}")
            self.changed.notify_all()

    def finish(self) -> None:
        """The server closed its output."""
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def unanswered(self, before: float) -> list[Any]:
        """Requests without a response that were sent before a time of the monotonic clock."""
        with self.changed:
            return [
                self._requests[request_id]
                for request_id, at in self._sent_at.items()
                if request_id not in self._answered and at < before
            ]

    def books(self) -> list[SessionBook]:
        """Every session of this connection."""
        with self.changed:
            return list(self._sessions.values())

    def wait(self, condition: Callable[[], bool], seconds: float, what: str) -> bool:
        """
        Wait for a condition, checked under the lock; False if the server ended first.

        Raises:
            BrokenInvariantError: a rule was broken, or it did not come in time.
        """
        deadline = time.monotonic() + seconds
        with self.changed:
            while True:
                if self.broken:
                    raise BrokenInvariantError(self.broken[0])
                if condition():
                    return True
                if self.ended:
                    return False
                if not self.changed.wait(max(deadline - time.monotonic(), 0)):
                    self._break(f"{what} did not come within {seconds:.0f} s")

    def response(self, request_id: int, seconds: float, what: str) -> dict[str, Any] | None:
        """The response to a request; None if the server ended first."""
        came = self.wait(lambda: request_id in self._responses, seconds, f"the answer to {what}")
        with self.changed:
            return self._responses.pop(request_id) if came else None

    # --- the rules

    def _break(self, text: str) -> None:
        self.broken.append(text)

    def _judge(self, message: dict[str, Any]) -> None:
        if message.get("jsonrpc") != "2.0":
            self._break(f"no JSON-RPC: {str(message)[:200]}")
        method = message.get("method")
        if method == "session/update":
            params = message["params"]
            self._update(params["sessionId"], params["update"])
        elif method == "session/request_permission":
            self._permission(message)
        elif method is None:
            self._response(message)
        elif method != "$/cancel_request":
            self._break(f"an unknown method came: {method}")

    def _response(self, message: dict[str, Any]) -> None:
        request_id = message["id"]
        if request_id not in self._requests:
            self._break(f"an answer to nothing: {str(message)[:200]}")
            return
        if request_id in self._answered:
            self._break(f"the request {self._requests[request_id]} was answered twice")
        if ("result" in message) == ("error" in message):
            self._break(f"neither a result nor an error, or both: {str(message)[:200]}")
        self._answered.add(request_id)
        self._responses[request_id] = message
        method, session_id = self._requests[request_id]
        book = self._sessions.get(session_id or "")
        if book is None:
            return
        if method == "session/close" and "result" in message:
            # A resume may have been sent while the close was under way.
            book.closed = self._closes[request_id] == book.openings
        elif method == "session/prompt" and "result" in message and book.state == "idle":
            self._break(f"{session_id}: a prompt was accepted before it ran")

    def _permission(self, message: dict[str, Any]) -> None:
        params = message["params"]
        name = f"permission {message['id']}"
        if name in self._ids:
            self._break(f"the {name} came twice")
        self._ids.add(name)
        book = self._sessions[params["sessionId"]]
        if book.state == "idle":
            self._break(f"{book.session_id}: a permission was asked for while idle")
        book.permissions.append(message)

    def _update(self, session_id: str, update: dict[str, Any]) -> None:
        self.updates += 1
        book = self._sessions.get(session_id)
        if book is None or book.closed:
            self._break(f"an update for the session {session_id}, which is not open: {update}")
            return
        kind = update["sessionUpdate"]
        if book.replay is not None and kind != "state_update":
            book.replay.apply(update)
            return
        if kind == "state_update":
            self._state(book, update)
            return
        if book.state == "idle":
            self._break(f"{session_id}: {kind} while idle")
        if kind == "user_message":
            self._unique(book, update["messageId"])
        if kind == "tool_call_update" and update["toolCallId"] not in book.seen.calls:
            self._unique(book, update["toolCallId"])
        book.seen.apply(update)

    def _state(self, book: SessionBook, update: dict[str, Any]) -> None:
        state = update["state"]
        allowed = {
            "idle": ("running",),
            "running": ("requires_action", "idle"),
            "requires_action": ("running", "idle"),
        }[book.state]
        if state not in allowed:
            self._break(f"{book.session_id}: {state} follows {book.state}")
        if book.state == "idle":
            book.turns += 1
            if book.turns > book.prompts:
                self._break(f"{book.session_id}: a turn began without a prompt")
        book.state = state
        if state == "idle":
            book.stop_reason = update["stopReason"]
            if still := book.seen.open_calls():
                self._break(f"{book.session_id}: idle, but open: {still}")

    def _unique(self, book: SessionBook, item: str) -> None:
        if item in self._ids or item in book.seen.messages:
            self._break(f"{book.session_id}: the id {item} came twice")
        self._ids.add(item)
