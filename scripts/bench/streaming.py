"""Streaming: updates a second, their price, the delay of a lone one, and fairness."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import attrs

from bench.agent import Agent, AgentError
from bench.figures import Figure, percentile
from bench.machine import Machine
from bench.model import MARK, Orders

_SHARE_BAR = 0.6
_DELAY_BAR_MS = 2.0
_TEXT = re.compile(rb'"text":"(\d+)' + MARK.encode() + rb'"')
SESSIONS = 32


@attrs.frozen
class _Run:
    chunks_a_second: float
    cpu_us: float
    """Processor time of the agent for each chunk, in microseconds."""

    @classmethod
    def of(cls, chunks: int, seconds: float, cpu_s: float) -> _Run:
        """A run that took so long."""
        return cls(chunks / seconds, cpu_s / chunks * 1e6)


@attrs.define
class _Runs:
    """The runs of term2 and of what it is compared with."""

    ours: list[_Run] = attrs.Factory(list)
    floor: list[_Run] = attrs.Factory(list)
    vendor: list[_Run] = attrs.Factory(list)
    untyped: list[_Run] = attrs.Factory(list)


def measure(machine: Machine, *, rounds: int, lengths: tuple[int, ...]) -> list[Figure]:
    """Long answers, as fast as the model sends them."""
    figures: list[Figure] = []
    for chunks in lengths:
        orders = Orders(chunks=chunks, size=20)
        runs = _Runs()
        with machine.term2(state="-streams") as agent, machine.bare_loop() as loop:
            sessions = _sessions(agent, loop, machine.project)
            for _ in range(rounds):
                runs.ours.append(_stream(agent, sessions[0], orders))
                for kind, vendor in (("typed", runs.vendor), ("json", runs.untyped)):
                    took = machine.vendor_seconds(orders.line(), kind)
                    vendor.append(_Run.of(chunks, *took))
                runs.floor.append(_stream(loop, sessions[1], orders))
        figures += _compare(chunks, runs)
    return figures


def measure_delay(machine: Machine, *, chunks: int) -> list[Figure]:
    """Chunks that come alone, a hundred a second: how much later they come out."""
    orders = Orders(chunks=chunks, every_ms=10)
    with machine.term2(state="-delays") as agent, machine.bare_loop() as loop:
        sessions = _sessions(agent, loop, machine.project)
        ours: list[float] = []
        floor: list[float] = []
        for _ in range(4):
            ours += _delays(agent, sessions[0], orders)
            floor += _delays(loop, sessions[1], orders)
    figures = []
    for share, title in ((0.5, "median"), (0.99, "99th percentile")):
        mine, theirs = percentile(ours, share), percentile(floor, share)
        name = f"delay of a lone chunk, {title}"
        bar, held = "", None
        if share > 0.5:
            bar = f"at most {_DELAY_BAR_MS:g} ms above it"
            held = mine - theirs <= _DELAY_BAR_MS
        figures.append(Figure(name, "ms", mine, "bare loop", theirs, bar, held))
    return figures


def measure_fairness(machine: Machine, *, chunks: int) -> list[Figure]:
    """Many sessions of one server that stream at once: the last against the first to end."""
    line = Orders(chunks=chunks, size=20).line()
    with machine.term2(state="-many") as agent:
        agent.initialize()
        sessions = [agent.new_session(machine.project) for _ in range(SESSIONS)]
        agent.run_prompt(sessions[0], Orders().line())
        started = time.perf_counter()
        for session in sessions:
            agent.send_prompt(session, line)
        ended: list[float] = []
        while len(ended) < SESSIONS:
            if b'"idle"' in agent.read_line():
                ended.append(time.perf_counter() - started)
    name = f"{SESSIONS} sessions at once, the slowest"
    return [Figure(name, "s", ended[-1], "the fastest", ended[0])]


def _sessions(agent: Agent, loop: Agent, project: Path) -> list[str]:
    sessions = []
    for each in (agent, loop):
        each.initialize()
        sessions.append(each.new_session(project))
        each.run_prompt(sessions[-1], Orders(chunks=50).line())
    return sessions


def _stream(agent: Agent, session: str, orders: Orders) -> _Run:
    cpu, started = agent.cpu_seconds(), time.perf_counter()
    said = agent.run_prompt(session, orders.line())
    seconds, cpu = time.perf_counter() - started, agent.cpu_seconds() - cpu
    if said.count(MARK.encode()) != orders.chunks:
        raise AgentError(f"{said.count(MARK.encode())} of {orders.chunks} chunks came")
    return _Run.of(orders.chunks, seconds, cpu)


def _compare(chunks: int, runs: _Runs) -> list[Figure]:
    ours, ours_us = _medians(runs.ours)
    vendor, vendor_us = _medians(runs.vendor)
    untyped, untyped_us = _medians(runs.untyped)
    floor, floor_us = _medians(runs.floor)
    name = f"streaming {chunks:,} chunks"
    bar, held = f"at least {_SHARE_BAR:.0%} of it", ours >= vendor * _SHARE_BAR
    sdk, json_sdk, loop = "vendor's SDK alone", "the SDK without its types", "bare loop"
    price, unit = f"{name}, processor", "µs/chunk"
    return [
        Figure(name, "/s", ours, sdk, vendor, bar, held),
        Figure(name, "/s", ours, json_sdk, untyped),
        Figure(name, "/s", ours, loop, floor),
        Figure(price, unit, ours_us, sdk, vendor_us),
        Figure(price, unit, ours_us, json_sdk, untyped_us),
        Figure(price, unit, ours_us, loop, floor_us),
    ]


def _medians(runs: list[_Run]) -> tuple[float, float]:
    speeds, prices = [run.chunks_a_second for run in runs], [run.cpu_us for run in runs]
    return percentile(speeds, 0.5), percentile(prices, 0.5)


def _delays(agent: Agent, session: str, orders: Orders) -> list[float]:
    """Milliseconds from the model's writing of each chunk to our reading of it."""
    agent.send_prompt(session, orders.line())
    return list(_read_delays(agent))


def _read_delays(agent: Agent) -> Iterator[float]:
    while b'"idle"' not in (line := agent.read_line()):
        now = time.monotonic_ns()
        for sent in _TEXT.findall(line):
            yield (now - int(sent)) / 1e6
