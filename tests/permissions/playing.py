"""
Plays random permission conversations with one server, as the worst of clients would.

What a client does is drawn from the dice of its conversation, so that a seed repeats the
decisions; when each of them meets the server is up to the machine.
"""

from __future__ import annotations

import json
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import attrs

from tests.harness.client import Client
from tests.harness.home import Home
from tests.harness.messages import Message, agent_text, encode, notification, prompt_params
from tests.harness.permissions import PermissionRequest
from tests.harness.replies import Reply
from tests.permissions.calls import (
    ALLOWS,
    HeldGrants,
    TriedCall,
    judge_effects,
    judge_turn,
)
from tests.permissions.grounds import Grounds, as_prompt, call_of

TIMEOUT = 60.0
# Conversations that one server has at the same time.
AT_ONCE = 4


def selected(option: Any) -> Message:
    """The result that selects an option."""
    return {"outcome": {"outcome": "selected", "optionId": option}}


DENIALS: tuple[Any, ...] = (
    selected("reject"),
    selected("deny"),
    {"outcome": {"outcome": "cancelled"}},
    {"outcome": {"outcome": "cancelled", "optionId": "approve"}},
    {"outcome": {"outcome": "approved", "optionId": "approve"}},
    {"outcome": {"outcome": "selected"}},
    {"outcome": "selected", "optionId": "approve"},
    {"outcome": None},
    {"optionId": "approve"},
    {},
    None,
    True,
    "approve",
    ["approve"],
    selected(None),
    selected(1),
    selected(["approve"]),
    selected({"optionId": "approve"}),
    selected(""),
    selected("Approve"),
    selected(" approve"),
    selected("allow_once"),
    selected("allow_always"),
    selected("unsandboxed-once"),
    selected("allow-remember"),
    selected("reject_always"),
)
ERRORS = (-32601, -32603, -32602, -32800, -32000, 1)
LASTING = ("allow-folder-session", "allow-edit-file-session", "allow-edit-folder-session")


class Ending(StrEnum):
    """How the connection of a round ends."""

    ORDERLY = "orderly"
    EOF = "end of stdin"
    STDOUT = "stdout closed"
    CLIENT_GONE = "both pipes closed"
    TERMINATED = "SIGTERM"
    KILLED = "SIGKILL"


class RoundOver(Exception):
    """The connection was ended by the round; nothing more can be sent."""


@attrs.define(eq=False)
class Round:
    """
    One server and the conversations that it has, several at a time, until its ending.

    `figures` counts what happened; `faults` says what was wrong.
    """

    root: Path
    seed: int
    version: int
    numbers: range
    ending: Ending
    figures: Counter[str] = attrs.Factory(Counter)
    faults: list[str] = attrs.Factory(list)
    is_over: bool = False
    client: Client = attrs.field(init=False)
    # Held around everything that is sent, so that the ending is not in its middle.
    gate: threading.Lock = attrs.Factory(threading.Lock)
    _acts_left: int = -1

    def play(self) -> None:
        """Play to the end and judge."""
        dice = random.Random(f"{self.seed}/{self.numbers.start}")  # noqa: S311 (it plays)
        if self.ending is not Ending.ORDERLY:
            self._acts_left = dice.randrange(1, 2 * len(self.numbers))
        self.client = Client(Home.create(self.root))
        conversations = [
            Conversation.make(self, number, random.Random(f"{self.seed}:{number}"))  # noqa: S311
            for number in self.numbers
        ]
        try:
            self.client.initialize(self.version)
            inboxes = {}
            self.client.permissions.policy = lambda request: self._inbox(inboxes, request)
            self._play_all(conversations, inboxes)
        finally:
            self._close()
        for conversation in conversations:
            self.faults += conversation.judge()
            self.figures.update(conversation.counted())
        self.figures["conversations"] += len(conversations)
        self.figures[f"ending: {self.ending}"] += 1

    @staticmethod
    def _inbox(inboxes: dict[str, list[PermissionRequest]], request: PermissionRequest) -> None:
        inboxes.setdefault(request.session, []).append(request)

    def _play_all(
        self,
        conversations: list[Conversation],
        inboxes: dict[str, list[PermissionRequest]],
    ) -> None:
        waiting = iter(conversations)
        lock = threading.Lock()

        def run() -> None:
            while True:
                with lock:
                    conversation = next(waiting, None)
                if conversation is None or self.is_over:
                    return
                try:
                    conversation.play(inboxes)
                except RoundOver:
                    return
                except Exception as error:  # noqa: BLE001  told by the test's thread
                    if not self.is_over:
                        self.faults.append(f"conversation {conversation.number}: {error!r}")
                    return

        threads = [threading.Thread(target=run, name=f"player-{n}") for n in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def act(self) -> None:
        """Note that a client acts, and end the connection if its time has come."""
        with self.gate:
            self._acts_left -= 1
            if self._acts_left == 0 and not self.is_over:
                self.is_over = True
                self._end()

    def send(self, *messages: Any) -> None:
        """
        Write messages in one piece.

        Raises:
            RoundOver: the connection was ended.
        """
        with self.gate:
            if self.is_over:
                raise RoundOver
            self.client.send_raw(b"".join(encode(message) for message in messages))

    def request(self, method: str, params: Any, *more: Any) -> Reply:
        """Send a request, and `more` in the same write."""
        with self.gate:
            if self.is_over:
                raise RoundOver
            reply, message = self.client.prepare(method, params)
            self.client.send_raw(b"".join(encode(each) for each in (message, *more)))
            return reply

    def _end(self) -> None:
        client = self.client
        match self.ending:
            case Ending.EOF:
                client.eof()
            case Ending.STDOUT:
                client.break_stdout()
            case Ending.CLIENT_GONE:
                client.break_stdout()
                client.eof()
            case Ending.TERMINATED:
                client.expect_disorder()
                client.process.send_signal(signal.SIGTERM)
            case Ending.KILLED:
                client.kill()

    def _close(self) -> None:
        with self.gate:
            self.is_over = True
        try:
            self.client.close(30)
        except AssertionError as error:
            self.faults.append(str(error))


@attrs.define(eq=False)
class Conversation:
    """One session, some prompts, and a client that answers as the dice fall."""

    round: Round
    number: int
    dice: random.Random
    grounds: Grounds
    turns: list[list[TriedCall]] = attrs.Factory(list)
    figures: Counter[str] = attrs.Factory(Counter)
    faults: list[str] = attrs.Factory(list)
    session: str = ""
    _grants: HeldGrants = attrs.Factory(HeldGrants)
    _aborted: bool = False
    # Questions that were taken back, and ids that no question had yet.
    _taken_back: list[PermissionRequest] = attrs.Factory(list)
    _prompt: Reply | None = None

    @classmethod
    def make(cls, round_: Round, number: int, dice: random.Random) -> Conversation:
        """A conversation on grounds of its own."""
        return cls(round_, number, dice, Grounds.make(round_.root.resolve(), number, dice))

    def play(self, inboxes: dict[str, list[PermissionRequest]]) -> None:
        """
        Play all of it.

        Raises:
            RoundOver: the connection was ended meanwhile.
        """
        params: Message = {"cwd": str(self.grounds.work)}
        if self.round.version == 1:
            params["mcpServers"] = []
        self.session = self._request("session/new", params).result(TIMEOUT)["sessionId"]
        inbox = inboxes.setdefault(self.session, [])
        for turn in range(self.dice.choice((1, 2, 2))):
            calls = self.grounds.turn(turn)
            self.turns.append(calls)
            self._aborted = False
            ended = False
            try:
                self._turn(calls, inbox)
                ended = True
            finally:
                # Whatever stopped it: what was asked until now is judged as an aborted turn.
                self.faults += judge_turn(calls, self._grants, aborted=self._aborted or not ended)
            if self._is_closed:
                self._reopen()

    def judge(self) -> list[str]:
        """What was wrong, once the server has ended."""
        updates = self.round.client.updates(self.session)
        told = json.dumps([update.body for update in updates])
        calls = [call for turn in self.turns for call in turn]
        killed = self.round.ending is Ending.KILLED
        faults = self.faults + judge_effects(calls, told, killed=killed)
        if faults:
            stderr = self.round.client.stderr[-1000:]
            faults.append(f"it was told: {agent_text(updates)[-2000:]}\nstderr: {stderr}")
        return [f"conversation {self.number}: {fault}" for fault in faults]

    def counted(self) -> Counter[str]:
        """The figures, with those of the calls."""
        figures = Counter(self.figures)
        for turn in self.turns:
            for call in (each for top in turn for each in top.walk()):
                figures["calls"] += 1
                figures[f"verdict: {call.verdict}"] += 1
        return figures

    def _request(self, method: str, params: Any, *more: Any) -> Reply:
        return self.round.request(method, params, *more)

    # --- one turn

    _is_closed: bool = False
    _closing: Reply | None = None
    _cancel_after: int = 0

    def _turn(self, calls: list[TriedCall], inbox: list[PermissionRequest]) -> None:
        life = self.round.client.record.life(self.session)
        idles = len(life.stop_reasons)
        start = len(self.round.client.record.updates)
        asked = len(inbox)
        params = prompt_params(self.session, as_prompt(calls))
        self._cancel_after = 0
        self.figures["prompts"] += 1
        draw = self.dice.random()
        if draw < 0.04:
            self._prompt = self._request("session/prompt", params, self._session_cancel())
            self._abort("cancel behind the prompt")
        else:
            self._prompt = self._request("session/prompt", params)
            if draw < 0.12:
                self._cancel_after = self.dice.randrange(2, 14)

        def over() -> bool:
            assert self._prompt is not None
            if self.round.version == 1:
                return self._prompt.done
            response = self._prompt.expected.response
            refused = response is not None and "error" in response
            return refused or len(life.stop_reasons) > idles

        for request in self._questions(inbox, asked, start, over):
            call = call_of(calls, request.tool_call["rawInput"])
            self.figures["questions"] += 1
            call.options = request.options
            self.round.act()
            self._answer(call, request)
        if self.round.is_over:
            raise RoundOver
        self._judge_end(life.stop_reasons[idles:])
        for request in self._taken_back:
            # One that was answered right behind the cancel is answered, not taken back.
            if not (request.cancelled or request.answered):
                self.faults.append(f"question {request.id} was not taken back")
            # An allow that comes too late, for a call that is over.
            if self.dice.random() < 0.5:
                self.figures["late allows"] += 1
                self._reply(request, selected("approve"))
        self._taken_back.clear()

    def _questions(
        self,
        inbox: list[PermissionRequest],
        taken: int,
        seen: int,
        over: Callable[[], bool],
    ) -> Iterator[PermissionRequest]:
        """Give the questions of a turn as they come, until it is over; cancel it in time."""
        record = self.round.client.record
        shown = 0

        def happened() -> str | None:
            nonlocal seen, shown
            while seen < len(record.updates):
                shown += record.updates[seen].session == self.session
                seen += 1
            if len(inbox) > taken:
                return "question"
            if over():
                return "over"
            return "cancel" if 0 < self._cancel_after <= shown else None

        while True:
            match self.round.client.wait_for(happened, "a question or the end", TIMEOUT):
                case "over":
                    return
                case "cancel":
                    self._cancel_after = 0
                    self._cancel()
                case _:
                    taken += 1
                    yield inbox[taken - 1]

    def _judge_end(self, reasons: list[str]) -> None:
        assert self._prompt is not None
        response = self._prompt.response(TIMEOUT)
        reason = response.get("result", {}).get("stopReason")
        if self.round.version == 2:
            reason = reasons[0] if reasons else None
        wanted = ("cancelled",) if self._aborted else ("end_turn",)
        if self._is_closed:
            # Closed before it began, it may be refused.
            wanted = ("cancelled", None)
        if reason not in wanted and not (self._aborted and self._cancelled_late):
            self.faults.append(f"the turn ended with {reason} ({response}), not {wanted}")
        if self._closing is not None:
            self._closing.result(TIMEOUT)
            self._closing = None

    # The cancel may have come when the turn was at its end already.
    _cancelled_late: bool = False

    def _reopen(self) -> None:
        params: Message = {"sessionId": self.session, "cwd": str(self.grounds.work)}
        if self.round.version == 1:
            params["mcpServers"] = []
        self._request("session/resume", params).result(TIMEOUT)
        self._grants = HeldGrants()
        self._is_closed = False

    # --- what a client does with a question

    def _answer(self, call: TriedCall, request: PermissionRequest) -> None:
        if call.is_abandoned:
            self.round.client.wait_for(lambda: request.cancelled, "the withdrawal", TIMEOUT)
            self.figures["allows after the code's end"] += 1
            self._reply(request, selected("approve"))
            return
        acts = (
            (30, self._allow),
            (30, self._grant),
            (10, self._deny),
            (4, self._error),
            (6, self._not_offered),
            (5, self._allow_twice),
            (6, self._deny_then_allow),
            (2, self._in_a_batch),
            (4, self._malformed),
            (4, self._leave_open_and_cancel),
            (5, self._cancel_then_allow),
            (3, self._allow_then_cancel),
            (4, self._close_then_allow),
        )
        (act,) = self.dice.choices([act for _, act in acts], [weight for weight, _ in acts])
        if request.cancelled or self._aborted:
            # Cancelled already: whatever is said now is too late.
            self.figures["answers after a cancel"] += 1
            self._taken_back.append(request)
            self._reply(request, selected("approve"))
            return
        for noise in (self._wrong_ids, self._early_allows, self._ask_again):
            if self.dice.random() < 0.08:
                noise(request)
        self.figures[act.__name__.strip("_").replace("_", " ")] += 1
        act(call, request)

    def _allow(self, call: TriedCall, request: PermissionRequest) -> None:
        name = self.dice.choice(tuple(ALLOWS))
        call.choice = "approve"
        self._reply(request, selected(name))

    def _grant(self, call: TriedCall, request: PermissionRequest) -> None:
        lasting = [option for option, kind in request.options.items() if kind == "allow_always"]
        if not lasting:
            self._allow(call, request)
            return
        call.choice = self.dice.choice(lasting)
        # An answer that a cancel overtakes grants nothing, which no later question could tell.
        self._cancel_after = 0
        self._reply(request, selected(call.choice))

    def _deny(self, call: TriedCall, request: PermissionRequest) -> None:
        self._reply(request, self.dice.choice(DENIALS))

    def _error(self, call: TriedCall, request: PermissionRequest) -> None:
        error = {"code": self.dice.choice(ERRORS), "message": "no"}
        self._send_answer(request, {"error": error})

    def _not_offered(self, call: TriedCall, request: PermissionRequest) -> None:
        others = [option for option in LASTING if option not in request.options]
        self._reply(request, selected(self.dice.choice([*others, "allow-everything"])))

    def _allow_twice(self, call: TriedCall, request: PermissionRequest) -> None:
        call.choice = "approve"
        second = self.dice.choice((selected("approve"), *DENIALS))
        self._both(request, {"result": selected("approve")}, {"result": second})

    def _deny_then_allow(self, call: TriedCall, request: PermissionRequest) -> None:
        allow = self.dice.choice(tuple(request.options))
        first = {"result": self.dice.choice(DENIALS)}
        if self.dice.random() < 0.3:
            first = {"error": {"code": self.dice.choice(ERRORS), "message": "no"}}
        self._both(request, first, {"result": selected(allow)})

    def _in_a_batch(self, call: TriedCall, request: PermissionRequest) -> None:
        request.answered = True
        answers = [selected("reject"), selected("approve")]
        self.round.send([self._answer_to(request.id, {"result": answer}) for answer in answers])

    def _malformed(self, call: TriedCall, request: PermissionRequest) -> None:
        more: Message = self.dice.choice(
            (
                {"error": "no"},
                {"result": selected("approve"), "error": {"code": 1, "message": "no"}},
                {"result": selected("approve"), "error": "no"},
            )
        )
        self._send_answer(request, more)

    def _leave_open_and_cancel(self, call: TriedCall, request: PermissionRequest) -> None:
        self._taken_back.append(request)
        self._cancel()

    def _cancel_then_allow(self, call: TriedCall, request: PermissionRequest) -> None:
        self._taken_back.append(request)
        option = self.dice.choice([name for name in request.options if name != "reject"])
        request.answered = True
        answer = self._answer_to(request.id, {"result": selected(option)})
        cancel = self._any_cancel()
        self._abort("cancels")
        if self.dice.random() < 0.3:
            self.round.send([cancel, answer])
        else:
            self.round.send(cancel, answer)

    def _allow_then_cancel(self, call: TriedCall, request: PermissionRequest) -> None:
        call.choice = "approve"
        self._send_answer(request, {"result": selected("approve")}, self._any_cancel())
        # A denied call may have been the last of the turn.
        self._abort("cancels", late=True)

    def _close_then_allow(self, call: TriedCall, request: PermissionRequest) -> None:
        request.answered = True
        self._taken_back.append(request)
        answer = self._answer_to(request.id, {"result": selected("approve")})
        self._closing = self._request("session/close", {"sessionId": self.session}, answer)
        self._is_closed = True
        self._abort("closes")

    # --- what does not answer it

    def _wrong_ids(self, request: PermissionRequest) -> None:
        self.figures["answers with a wrong id"] += 1
        for wrong in (str(request.id), f"{request.id} ", float(request.id) + 0.5, None, True):
            self.round.send(self._answer_to(wrong, {"result": selected("approve")}))

    def _early_allows(self, request: PermissionRequest) -> None:
        """Allow what is not asked yet: far enough ahead that no other session asks it now."""
        self.figures["allows before the question"] += 1
        for ahead in range(40, 60):
            early = self._answer_to(int(request.id) + ahead, {"result": selected("approve")})
            self.round.send(early)

    def _ask_again(self, request: PermissionRequest) -> None:
        """A second prompt on the busy session is refused and changes nothing."""
        self.figures["prompts on a busy session"] += 1
        reply = self._request("session/prompt", prompt_params(self.session, "/shell touch busy"))
        code = reply.code(TIMEOUT)
        if code != (-32000 if self.round.version == 2 else -32010):
            self.faults.append(f"a second prompt was answered with {code}")

    # --- messages

    def _reply(self, request: PermissionRequest, result: Any) -> None:
        self._send_answer(request, {"result": result})

    def _send_answer(self, request: PermissionRequest, more: Message, *then: Any) -> None:
        request.answered = True
        self.round.send(self._answer_to(request.id, more), *then)

    def _both(self, request: PermissionRequest, first: Message, second: Message) -> None:
        self._send_answer(request, first, self._answer_to(request.id, second))

    @staticmethod
    def _answer_to(request_id: Any, more: Message) -> Message:
        return {"jsonrpc": "2.0", "id": request_id, **more}

    def _session_cancel(self) -> Message:
        return notification("session/cancel", {"sessionId": self.session})

    def _any_cancel(self) -> Message:
        """Version 1 can also cancel the prompt's request; that means nothing in version 2."""
        if self.round.version == 1 and self.dice.random() < 0.5:
            assert self._prompt is not None
            return notification("$/cancel_request", {"requestId": self._prompt.expected.id})
        return self._session_cancel()

    def _cancel(self) -> None:
        self._abort("cancels", late=True)
        self.round.send(self._any_cancel())

    def _abort(self, what: str, *, late: bool = False) -> None:
        """Note that the turn is ended by the client; `late`: it may be over already."""
        self.figures[what] += 1
        self._aborted = True
        self._cancelled_late = late
