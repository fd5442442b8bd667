"""One tab of the editor: the random life of one session after the other."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from soak.ledger import BrokenInvariantError, SessionBook
from soak.prompts import Prompts
from soak.server import Server
from soak.transcript import Transcript

ANSWER_S = 90.0
"""Longest wait for an answer or the end of a turn, on a busy machine."""
_BUSY = -32000
_EXPECTED_REASONS = {"end_turn", "cancelled", "_term2_error", "max_turn_requests"}


@attrs.define
class Known:
    """A session that outlives its connection, and what was seen of it."""

    session_id: str
    cwd: Path
    seen: Transcript
    # Whether everything that was logged was seen: not after a crash.
    whole: bool = True


class Tab:
    """
    Drives sessions of one server until it is told to stop, or the server ends.

    Its choices come from its own random numbers alone; used by one thread.
    """

    def __init__(
        self,
        server: Server,
        rng: random.Random,
        *,
        marker: str,
        folders: list[Path],
        known: list[Known],
        stop: threading.Event,
    ) -> None:
        self._server = server
        self._ledger = server.ledger
        self._rng = rng
        self._prompts = Prompts(rng, marker)
        self._folders = folders
        self._known = known
        self._stop = stop
        self.turns = 0

    def run(self) -> None:
        """
        Live.

        Raises:
            BrokenInvariantError: the server broke a rule.
        """
        while not self._stop.is_set() and not self._ledger.ended:
            book, known = self._open()
            if book is None or known is None:
                return
            for _ in range(self._rng.randint(1, 6)):
                if self._stop.is_set() or not self._turn(book):
                    break
            if not self._leave(book):
                # The server ended: what was seen may be less than what was logged.
                known.whole = False
            if self._ledger.ended:
                return

    # --- a session

    def _open(self) -> tuple[SessionBook | None, Known | None]:
        if self._known and self._rng.random() < 0.5:
            return self._resume(self._known[self._rng.randrange(len(self._known))])
        cwd = self._rng.choice(self._folders)
        result = self._ask("session/new", {"cwd": str(cwd), "mcpServers": []})
        if result is None:
            return None, None
        book = self._ledger.open(result["sessionId"])
        known = Known(book.session_id, cwd, book.seen)
        self._known.append(known)
        return book, known

    def _resume(self, known: Known) -> tuple[SessionBook | None, Known | None]:
        self._ledger.begin_replay(known.session_id, known.seen)
        params = {"sessionId": known.session_id, "cwd": str(known.cwd)}
        replay_from = {"type": "start"}
        if self._ask("session/resume", {**params, "replayFrom": replay_from}) is None:
            return None, None
        replay = self._ledger.end_replay(known.session_id)
        if found := known.seen.differences(replay, whole=known.whole):
            raise BrokenInvariantError(f"{known.session_id}: the replay differs: {found[:3]}")
        if still := replay.open_calls():
            raise BrokenInvariantError(f"{known.session_id}: replayed as open: {still}")
        # What was not seen before was seen now.
        known.seen.messages, known.seen.calls = replay.messages, replay.calls
        known.whole = True
        return self._ledger.book(known.session_id), known

    def _leave(self, book: SessionBook) -> bool:
        """Close the session, or let it idle until the next life; whether the server lives."""
        return self._ask("session/close", {"sessionId": book.session_id}) is not None

    # --- a turn

    def _turn(self, book: SessionBook) -> bool:
        """Run a turn to its end; whether the session can go on."""
        text = self._prompts.script().as_prompt()
        prompt = [{"type": "text", "text": text}]
        before = book.turns
        request = self._server.request(
            "session/prompt", {"sessionId": book.session_id, "prompt": prompt}
        )
        self.turns += 1
        interrupt = self._interruption(book)
        answer = self._ledger.response(request, ANSWER_S, "a prompt")
        if answer is None:
            return False
        if "error" in answer:
            # A close may have come first.
            return interrupt is not self._close
        ended = self._wait_idle(book, before + 1, interrupt)
        if ended and book.stop_reason not in _EXPECTED_REASONS:
            raise BrokenInvariantError(f"{book.session_id}: the turn ended {book.stop_reason}")
        return ended and not book.closed

    def _interruption(self, book: SessionBook) -> Callable[[SessionBook], None]:
        """What is to happen in the middle of the turn; some of it happens right here."""
        chance = self._rng.random()
        if chance < 0.1:
            self._cancel(book)
            return _nothing
        if chance < 0.3:
            return self._cancel
        if chance < 0.36:
            return self._close
        if chance < 0.42:
            return self._prompt_again
        return _nothing

    def _wait_idle(
        self, book: SessionBook, turn: int, interrupt: Callable[[SessionBook], None]
    ) -> bool:
        """Wait for the end of the turn, answer what it asks, and interrupt it."""
        patience = self._rng.uniform(0, 0.4)

        def over() -> bool:
            return book.closed or (book.turns >= turn and book.state == "idle")

        with self._ledger.changed:
            self._ledger.changed.wait_for(lambda: over() or bool(book.permissions), patience)
        interrupt(book)
        while True:
            what = f"the end of turn {turn} of {book.session_id}"
            if not self._ledger.wait(lambda: over() or bool(book.permissions), ANSWER_S, what):
                return False
            if over():
                return True
            self._answer_permission(book)

    def _answer_permission(self, book: SessionBook) -> None:
        with self._ledger.changed:
            question = book.permissions.pop(0)
        options = {option["kind"]: option["optionId"] for option in question["params"]["options"]}
        selected = [{"outcome": "selected", "optionId": option} for option in options.values()]
        outcomes: list[Any] = [
            *selected,
            *selected,
            {"outcome": "cancelled"},
            {"outcome": "selected", "optionId": "nobody offered this"},
            {"outcome": "selected"},
            "nonsense",
        ]
        chance = self._rng.random()
        if chance < 0.06:
            # Nobody answers; the turn is cancelled instead.
            self._cancel(book)
        elif chance < 0.1:
            error = {"code": -32601, "message": "not supported"}
            self._server.send({"id": question["id"], "error": error})
        else:
            answer = {"id": question["id"], "result": {"outcome": self._rng.choice(outcomes)}}
            self._server.send(answer)
            if chance > 0.95:
                self._server.send(answer)

    # --- interruptions

    def _cancel(self, book: SessionBook) -> None:
        cancel = {"method": "session/cancel", "params": {"sessionId": book.session_id}}
        self._server.send(cancel)
        if self._rng.random() < 0.2:
            self._server.send(cancel)

    def _close(self, book: SessionBook) -> None:
        self._server.request("session/close", {"sessionId": book.session_id})

    def _prompt_again(self, book: SessionBook) -> None:
        prompt = [{"type": "text", "text": "again"}]
        params = {"sessionId": book.session_id, "prompt": prompt}
        request = self._server.request("session/prompt", params)
        answer = self._ledger.response(request, ANSWER_S, "a second prompt")
        if answer is not None and "error" in answer and answer["error"]["code"] != _BUSY:
            raise BrokenInvariantError(f"a second prompt was refused otherwise: {answer}")

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        """The result of a request; None if the server ended, or refused a closed session."""
        request = self._server.request(method, params)
        answer = self._ledger.response(request, ANSWER_S, method)
        if answer is None:
            return None
        if "error" in answer:
            if method == "session/close":
                return {}
            raise BrokenInvariantError(f"{method} was refused: {answer['error']}")
        return answer["result"]


def _nothing(_book: SessionBook) -> None:
    """The turn is left alone."""
