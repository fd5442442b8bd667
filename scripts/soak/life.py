"""The life of one server: its tabs, its stalls, its end, and what is left of it."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import IO

import attrs
from bench.machine import Machine

from soak.ledger import BrokenInvariantError, Ledger
from soak.rest import Rests
from soak.server import Server, left_over
from soak.tab import ANSWER_S, Known, Tab

_END_S = 5.0
_BUSY_MACHINE_S = 10.0
_STEP_S = 0.25
_UNREAD_S = 1.0


@attrs.define
class Report:
    """What the soak did so far."""

    lives: int = 0
    turns: int = 0
    updates: int = 0
    ends: dict[str, int] = attrs.Factory(dict)
    highest_mib: float = 0.0
    most_growth_mib: float = 0.0
    most_later_growth_mib: float = 0.0


class Life:
    """Runs one server to its end; used by one thread."""

    def __init__(
        self, machine: Machine, seed: str, known: list[list[Known]], log: IO[bytes]
    ) -> None:
        self._machine = machine
        self._rng = random.Random(seed)  # noqa: S311 (to be repeated, not to be secret)
        self._seed = seed
        self._marker = f"soak-{self._rng.getrandbits(64):x}"
        self._known = known
        self._ledger = Ledger()
        self._stop = threading.Event()
        self._faults: list[str] = []
        self._tabs: list[Tab] = []
        self.server = Server(machine.environment("-soak"), self._ledger, log)

    def run(self, seconds: float, report: Report) -> None:
        """
        Live for so long, then end in one of the ways that an editor has.

        Raises:
            BrokenInvariantError: a rule was broken.
        """
        try:
            self._initialize()
            rests = self._warm_up()
            end = self._rng.choice(("rest", "rest", "eof", "eof while stalled", "signal", "kill"))
            # Also a short soak looks at what is left in the end.
            end = end if report.lives else "rest"
            if end == "rest":
                tabs = self._live_and_rest(seconds, rests, report)
            else:
                tabs = self._start_tabs("")
                self._stall_now_and_then(seconds)
            self._end(end)
            self._finish(tabs)
            self._check_end(end)
        finally:
            self._stop.set()
            self.server.dispose()
        report.lives += 1
        report.turns += sum(tab.turns for tab in self._tabs)
        report.updates += self._ledger.updates
        report.ends[end] = report.ends.get(end, 0) + 1

    def lines(self) -> list[str]:
        """The last lines of both sides."""
        return list(self.server.lines)

    # --- the beginning

    def _initialize(self) -> None:
        params = {"protocolVersion": 2, "info": {"name": "soak", "version": "1"}}
        request = self.server.request("initialize", params)
        self._ledger.response(request, ANSWER_S, "initialize")

    def _warm_up(self) -> Rests:
        """One turn, so that all is loaded; then what it holds."""
        cwd = str(self._folders()[0])
        request = self.server.request("session/new", {"cwd": cwd})
        answer = self._ledger.response(request, ANSWER_S, "session/new")
        if answer is None:
            raise BrokenInvariantError("the server ended at its start")
        book = self._ledger.open(answer["result"]["sessionId"])
        prompt = [{"type": "text", "text": "hello"}]
        params = {"sessionId": book.session_id, "prompt": prompt}
        self.server.request("session/prompt", params)
        self._ledger.wait(
            lambda: book.turns == 1 and book.state == "idle", ANSWER_S, "the first turn"
        )
        request = self.server.request("session/close", {"sessionId": book.session_id})
        self._ledger.response(request, ANSWER_S, "session/close")
        return Rests.after_first_turn(self.server)

    def _folders(self) -> list[Path]:
        folders = [self._machine.project / name for name in ("one", "two")]
        for folder in folders:
            folder.mkdir(exist_ok=True)
            for name in ("a.txt", "b.txt"):
                text = "".join(f"line {number}\n" for number in range(40))
                (folder / name).write_text(text, encoding="utf-8")
        return folders

    def _live_and_rest(
        self, seconds: float, rests: Rests, report: Report
    ) -> list[threading.Thread]:
        """Live in two halves, with a rest after each, in which nothing is left of it."""
        threads: list[threading.Thread] = []
        for half in ("first/", "second/"):
            self._stop.clear()
            threads += self._start_tabs(half)
            self._stall_now_and_then(seconds / 2)
            self._finish(threads)
            self._check_rest(rests, report)
        return threads

    def _start_tabs(self, half: str) -> list[threading.Thread]:
        folders = self._folders()
        tabs = [
            Tab(
                self.server,
                random.Random(f"{self._seed}/{half}{number}"),  # noqa: S311 (as above)
                marker=self._marker,
                folders=folders,
                known=known,
                stop=self._stop,
            )
            for number, known in enumerate(self._known)
        ]
        self._tabs += tabs
        threads = [
            threading.Thread(target=self._run_tab, args=(tab,), name="soak-tab", daemon=True)
            for tab in tabs
        ]
        for thread in threads:
            thread.start()
        return threads

    def _run_tab(self, tab: Tab) -> None:
        try:
            tab.run()
        except BrokenInvariantError as error:
            self._faults.append(str(error))
            self._stop.set()
        except Exception as error:  # noqa: BLE001 (a fault of the soak is told like one of the server)
            self._faults.append(f"{type(error).__name__}: {error}")
            self._stop.set()

    # --- the middle

    def _stall_now_and_then(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (rest := deadline - time.monotonic()) > 0:
            if self._stop.wait(min(self._rng.uniform(0.5, 6), rest)):
                break
            if self._rng.random() < 0.4:
                self.server.stall()
                self._stop.wait(min(self._rng.uniform(0.1, 4), max(rest, 0.1)))
                self.server.flow()
        self._raise_faults()

    # --- the end

    def _end(self, end: str) -> None:
        self._ended_at = time.monotonic()
        if end == "kill":
            self.server.kill()
        elif end == "signal":
            self.server.popen.terminate()
        else:
            if end == "eof while stalled":
                self.server.stall()
            self.server.close_stdin()
        started = time.monotonic()
        status = self.server.wait(_END_S + _BUSY_MACHINE_S)
        if status is None:
            self._faults.append(f"the server lives {time.monotonic() - started:.1f} s after {end}")
        elif status != (-9 if end == "kill" else 0):
            self._faults.append(f"the exit status after {end} is {status}")

    def _finish(self, tabs: list[threading.Thread]) -> None:
        self._stop.set()
        for thread in tabs:
            thread.join(2 * ANSWER_S)
            if thread.is_alive():
                self._faults.append("a tab hangs")
        self._raise_faults()

    def _check_end(self, end: str) -> None:
        if end in ("kill", "eof while stalled"):
            # What was logged was not all seen.
            for known in (each for tab in self._known for each in tab):
                known.whole = False
        else:
            # What came with a signal need not have been read.
            margin_s = _UNREAD_S if end == "signal" else 0
            if waiting := self._ledger.unanswered(self._ended_at - margin_s):
                self._faults.append(f"never answered before {end}: {waiting[:3]}")
            for book in self._ledger.books():
                if book.state != "idle":
                    self._faults.append(f"{book.session_id} was {book.state} at the {end}")
        deadline = time.monotonic() + _END_S
        while (found := left_over(self._marker)) and time.monotonic() < deadline:
            time.sleep(_STEP_S)
        if found:
            self._faults.append(f"left after {end}: {found[:3]}")
        self._raise_faults()

    def _check_rest(self, rests: Rests, report: Report) -> None:
        now = rests.rest(self.server)
        self._faults += rests.faults(now)
        report.highest_mib = max(report.highest_mib, now.resident)
        report.most_growth_mib = max(report.most_growth_mib, rests.growth_mib)
        report.most_later_growth_mib = max(report.most_later_growth_mib, rests.later_growth_mib)
        self._raise_faults()

    def _raise_faults(self) -> None:
        faults = [*self._faults, *self._ledger.broken]
        if faults:
            raise BrokenInvariantError("; ".join(faults[:3]))
