"""The exchange with the server: requests, turns, and the questions that come up in them."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from term2_acp.chat.client import (
    Answered,
    Asked,
    Client,
    Incoming,
    Updated,
    Withdrawn,
    hello,
    prompt,
    read_session_id,
    read_version,
)
from term2_acp.chat.conversation import Conversation
from term2_acp.chat.diagnostics import Diagnostics
from term2_acp.chat.events import Event, Events, Signalled, Source, Ticked, Typed
from term2_acp.chat.faults import (
    InterruptedWaitError,
    Leave,
    RequestRefusedError,
    ServerFaultError,
)
from term2_acp.chat.inbox import Ended, Received
from term2_acp.chat.questions import Option, Question
from term2_acp.chat.updates import StateUpdated
from term2_acp.chat.views import NoAnswer, View


class Dialogue:
    """
    Drives one server; used on the main thread alone.

    Every wait takes in what the server sends meanwhile, and raises `ServerFaultError` at
    its end and `Leave` at a signal that ends the program.

    Args:
        view: who shows it; set before the first request.
    """

    view: View

    def __init__(self, client: Client, events: Events, diagnostics: Diagnostics) -> None:
        self._client = client
        self._events = events
        self._diagnostics = diagnostics
        self._conversations: dict[str, Conversation] = {}
        self._current = Conversation("", "")
        self._questions: deque[Question] = deque()
        self._is_in_turn = False
        self._is_cancelled = False
        self.cancelled_at: float | None = None
        """When Ctrl-C last cancelled a turn, by the monotonic clock."""
        self._stop_reasons: deque[str] = deque()

    @property
    def conversation(self) -> Conversation:
        """The session that is open."""
        return self._current

    # --- requests

    def initialize(self) -> None:
        """
        Agree on the version of the protocol.

        Raises:
            ServerFaultError: the server speaks another one.
        """
        read_version(self.call("initialize", hello()))

    def open_new(self, cwd: str) -> None:
        """
        Open a new session in a folder; it becomes the current one.

        Raises:
            RequestRefusedError: the server will not work there.
        """
        session_id = read_session_id(self.call("session/new", {"cwd": cwd}))
        self._switch(Conversation(session_id, cwd))

    def resume(self, session_id: str, cwd: str) -> None:
        """
        Open a stored session with its whole history; it becomes the current one.

        Raises:
            RequestRefusedError: it is unknown, or in use by another process.
        """
        conversation = Conversation(session_id, cwd)
        self._conversations[session_id] = conversation
        params = {"sessionId": session_id, "cwd": cwd, "replayFrom": {"type": "start"}}
        try:
            self.call("session/resume", params)
        except (RequestRefusedError, InterruptedWaitError):
            del self._conversations[session_id]
            raise
        self._switch(conversation)

    def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """
        Send a request and wait for its result.

        Raises:
            RequestRefusedError: the answer is an error.
            InterruptedWaitError: Ctrl-C; the request is withdrawn.
        """
        request_id = self._client.request(method, params)
        while True:
            self._show_diagnostics()
            match self._events.next():
                case Signalled(signal.SIGINT):
                    self._client.notify("$/cancel_request", {"requestId": request_id})
                    raise InterruptedWaitError(f"{method}: interrupted")
                case event:
                    incoming = self._take(event)
            if isinstance(incoming, Answered) and incoming.request_id == request_id:
                if incoming.error is not None:
                    raise RequestRefusedError(method, *incoming.error)
                return incoming.result

    def catch_up(self) -> None:
        """
        Take in what has come so far, without waiting.

        Raises:
            InterruptedWaitError: Ctrl-C.
        """
        self._wait_idle(None, timeout_s=0)

    def wait_typed(self, source: Source) -> str | None:
        """
        Wait for input between turns; None at its end.

        Raises:
            InterruptedWaitError: Ctrl-C.
        """
        return self._wait_idle(source, timeout_s=None)

    def _wait_idle(self, source: Source | None, timeout_s: float | None) -> str | None:
        while True:
            self._show_diagnostics()
            match self._events.next(source, timeout_s):
                case Typed(text):
                    return text
                case Ticked():
                    return None
                case Signalled(signal.SIGINT):
                    raise InterruptedWaitError("interrupted")
                case event:
                    self._take(event)

    # --- turns

    def run_turn(self, text: str) -> str:
        """
        Send a prompt and show the turn to its end; its stop reason.

        Ctrl-C cancels it, and leaves when it comes again.

        Raises:
            RequestRefusedError: the prompt was not accepted.
        """
        self._stop_reasons.clear()
        self._is_in_turn = True
        self._is_cancelled = False
        request_id = self._client.request("session/prompt", prompt(self._current.session_id, text))
        self.view.begin_turn(self._current)
        try:
            while not self._stop_reasons:
                self._show_diagnostics()
                timeout_s = self.view.timeout_s()
                match self._events.next(self.view.source(), timeout_s):
                    case Ticked():
                        self.view.tick()
                    case Typed(typed):
                        self._typed(typed)
                    case Signalled(signal.SIGINT):
                        if self._is_cancelled:
                            raise Leave(128 + signal.SIGINT)
                        self._cancel()
                    case event:
                        self._check_accepted(self._take(event), request_id)
        finally:
            self._is_in_turn = False
            self._questions.clear()
            self.view.clear()
        reason = self._stop_reasons.popleft()
        self.view.end_turn(reason)
        return reason

    def _cancel(self) -> None:
        self._is_cancelled = True
        self.cancelled_at = time.monotonic()
        self._client.notify("session/cancel", {"sessionId": self._current.session_id})
        is_asking = bool(self._questions)
        while self._questions:
            self._client.answer(self._questions.popleft(), None)
        if is_asking:
            self.view.settle("cancelled")
        self.view.cancelling()

    def _check_accepted(self, incoming: Incoming | None, request_id: int) -> None:
        if not isinstance(incoming, Answered) or incoming.request_id != request_id:
            return
        if incoming.error is not None:
            raise RequestRefusedError("session/prompt", *incoming.error)

    def _typed(self, text: str | None) -> None:
        if self._questions:
            try:
                option = self.view.answer(self._questions[0], text)
            except NoAnswer:
                return
            self._settle(option, option.name if option is not None else "rejected")
        elif text is None:
            # A terminal that is gone: nobody is there any more.
            raise Leave(128 + signal.SIGHUP)
        else:
            self.view.typed(text)

    # --- questions

    def _asked(self, question: Question) -> None:
        if not self._is_in_turn or self._is_cancelled:
            self._client.answer(question, None)
            return
        self._questions.append(question)
        if len(self._questions) == 1:
            self.view.ask(question)

    def _settle(self, option: Option | None, told: str) -> None:
        """Answer the question that is shown, and show the next."""
        self._client.answer(self._questions.popleft(), option)
        self._go_on(told)

    def _withdrawn(self, request_id: str | int) -> None:
        is_shown = bool(self._questions) and self._questions[0].request_id == request_id
        self._questions = deque(
            question for question in self._questions if question.request_id != request_id
        )
        if is_shown:
            self._go_on("not asked any more")

    def _go_on(self, told: str) -> None:
        self.view.settle(told)
        if self._questions:
            self.view.ask(self._questions[0])

    # --- what comes

    def _take(self, event: Event) -> Incoming | None:
        match event:
            case Received(message):
                incoming = self._client.understand(message)
                self._apply(incoming)
                return incoming
            case Ended(fault):
                raise ServerFaultError(fault or "the server ended")
            case Signalled(signal.SIGTERM | signal.SIGHUP as number):
                raise Leave(128 + number)
            case Signalled(signal.SIGWINCH):
                self.view.resized()
        return None

    def _apply(self, incoming: Incoming | None) -> None:
        match incoming:
            case Updated(session_id, update):
                conversation = self._conversations.get(session_id)
                if conversation is None:
                    return
                item = conversation.apply(update)
                is_shown = self._is_in_turn and conversation is self._current
                if is_shown and item is not None:
                    self.view.show(item)
                if is_shown and isinstance(update, StateUpdated) and update.state == "idle":
                    self._stop_reasons.append(update.stop_reason or "end_turn")
            case Asked(question):
                self._asked(question)
            case Withdrawn(request_id):
                self._withdrawn(request_id)

    def _switch(self, conversation: Conversation) -> None:
        """Make a session the current one; the server may forget the one before it."""
        before, self._current = self._current, conversation
        self._conversations[conversation.session_id] = conversation
        if before.session_id:
            self._conversations.pop(before.session_id, None)
            # One that cannot be closed is no reason not to go on with the other.
            with suppress(RequestRefusedError):
                self.call("session/close", {"sessionId": before.session_id})

    def _show_diagnostics(self) -> None:
        lines = self._diagnostics.take()
        if lines:
            self.view.diagnostics(lines)
