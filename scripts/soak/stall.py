"""
Back-pressure in full: an editor that stops reading for a minute while sessions stream.

`python -m soak.stall` streams 50 MB in each of eight sessions, stops reading, and looks at
the memory; meanwhile one session is cancelled and one is closed. Then it reads again, and
every text has to be whole. The second server gets EOF and the third SIGTERM while nobody
reads. It prints a line of JSON; the exit status is 1 if something did not hold.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import sys
import time
from typing import Any

import attrs
from bench.agent import Agent
from bench.machine import Machine
from bench.model import MARK, Orders

_GROWTH_MIB = 32
_END_S = 5.0
_BUSY_MACHINE_S = 5.0
_CHUNK = 1000
_STEP_S = 0.5


@attrs.define
class _Seen:
    """What came of a session: its text's length and digest, and its states."""

    length: int = 0
    digest: Any = attrs.Factory(hashlib.sha256)
    states: list[str] = attrs.Factory(list)
    reason: str = ""


def main(arguments: list[str]) -> int:
    """Stall; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m soak.stall", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of not reading (60)")
    parser.add_argument("--sessions", type=int, default=8, help="that stream (8)")
    parser.add_argument("--megabytes", type=int, default=50, help="that each streams (50)")
    options = parser.parse_args(arguments)
    faults: list[str] = []
    chunks = options.megabytes * 1_000_000 // _CHUNK
    with Machine() as machine:
        grown = _stall_and_read(machine, options.seconds, options.sessions, chunks, faults)
        ends = {name: _end_while_stalled(machine, name, faults) for name in ("eof", "sigterm")}
    told = {"grew_by_mib": round(grown, 1), "ends_s": ends, "faults": faults}
    print(json.dumps(told))
    return 1 if faults else 0


def _stall_and_read(
    machine: Machine, seconds: float, count: int, chunks: int, faults: list[str]
) -> float:
    with machine.term2(state="-stall", deadline_s=3600) as agent:
        sessions = _start(agent, machine, count)
        base = agent.resident_mib()
        for session in sessions:
            agent.send_prompt(session, Orders(chunks=chunks, size=_CHUNK).line())
        # What is sent now is only written to a pipe that the server reads.
        highest = _watch(agent, seconds / 2)
        cancelled, closed, *rest = sessions
        agent.write(
            {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": cancelled}}
        )
        close = agent.send("session/close", {"sessionId": closed})
        highest = max(highest, _watch(agent, seconds / 2))
        grown = highest - base
        if grown > _GROWTH_MIB:
            faults.append(f"memory grew by {grown:.0f} MiB")
        seen = {session: _Seen() for session in sessions}
        answers = _read(agent, seen, {close})
        if answers.get(close) != {}:
            faults.append(f"the close was answered {answers.get(close)}")
    whole = hashlib.sha256()
    for _ in range(chunks):
        whole.update(("x" * (_CHUNK - 1) + MARK).encode())
    for session in rest:
        one = seen[session]
        if one.digest.hexdigest() != whole.hexdigest():
            faults.append(f"{session}: {one.length} of {chunks * _CHUNK} characters came")
        if one.reason != "end_turn":
            faults.append(f"{session} ended {one.reason}")
    for session in (cancelled, closed):
        if seen[session].reason != "cancelled":
            faults.append(f"{session} ended {seen[session].reason}")
        if seen[session].length >= chunks * _CHUNK:
            faults.append(f"{session} streamed to its end although it was cancelled")
    for session, one in seen.items():
        if one.states != ["running", "idle"]:
            faults.append(f"{session} was {one.states}")
    return grown


def _start(agent: Agent, machine: Machine, count: int) -> list[str]:
    agent.initialize()
    sessions = [agent.new_session(machine.project) for _ in range(count)]
    for session in sessions:
        agent.run_prompt(session, Orders(chunks=200, size=20).line())
    return sessions


def _watch(agent: Agent, seconds: float) -> float:
    """The highest memory while nothing is read."""
    highest, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(_STEP_S)
        highest = max(highest, agent.resident_mib())
    return highest


def _read(agent: Agent, seen: dict[str, _Seen], requests: set[int]) -> dict[int, Any]:
    """Read until every session is idle and the requests are answered."""
    answers: dict[int, Any] = {}
    while any(not one.reason for one in seen.values()) or not requests <= answers.keys():
        message = json.loads(agent.read_line())
        if "method" not in message:
            answers[message["id"]] = message.get("result")
            continue
        update = message["params"]["update"]
        one = seen[message["params"]["sessionId"]]
        if update["sessionUpdate"] == "agent_message_chunk":
            text = update["content"]["text"]
            one.length += len(text)
            one.digest.update(text.encode())
        elif update["sessionUpdate"] == "state_update":
            one.states.append(update["state"])
            one.reason = update.get("stopReason", "")
    return answers


def _end_while_stalled(machine: Machine, name: str, faults: list[str]) -> float:
    with machine.term2(state=f"-{name}") as agent:
        for session in _start(agent, machine, 4):
            agent.send_prompt(session, Orders(chunks=20_000, size=_CHUNK).line())
        _watch(agent, 2)
        started = time.monotonic()
        if name == "eof":
            agent.close_stdin()
        else:
            agent.send_signal(signal.SIGTERM)
        status = agent.wait(_END_S + _BUSY_MACHINE_S)
        took = time.monotonic() - started
    if status != 0:
        faults.append(f"{name}: the exit status is {status} after {took:.1f} s")
    elif took > _END_S:
        faults.append(f"{name}: the end took {took:.1f} s")
    return round(took, 2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
