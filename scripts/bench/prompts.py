"""One prompt: the round trip with a short answer, and with a tool call."""

from __future__ import annotations

import json
import time

from bench.agent import Agent
from bench.figures import Figure, alternate
from bench.machine import Machine
from bench.model import Orders

_WARM_UP = 20
_BAR_MS = 15
_MEMORY_BAR_MIB = 120
_MEMORY_AFTER = 100


def measure(machine: Machine, *, rounds: int) -> list[Figure]:
    """Send prompts to term2 and to the bare loop in turn."""
    arguments = json.dumps({"path": str(machine.project / "README.md")}, separators=(",", ":"))
    prompts = {
        "one-chunk prompt": Orders(),
        "prompt with a tool call": Orders(call="read_file", arguments=arguments),
    }
    figures = [_memory(machine)]
    with machine.term2(state="-prompts") as ours, machine.bare_loop() as floor:
        sessions = [_session(agent, machine) for agent in (ours, floor)]
        for name, orders in prompts.items():
            line = orders.line()
            medians = alternate(
                {
                    "ours": lambda line=line: _round_trip(ours, sessions[0], line),  # type: ignore[misc]
                    "floor": lambda line=line: _round_trip(floor, sessions[1], line),  # type: ignore[misc]
                },
                rounds,
                warm_up=_WARM_UP,
            )
            mine, theirs = medians["ours"], medians["floor"]
            bar, held = "", None
            if orders == Orders():
                bar, held = f"at most {_BAR_MS} ms above it", mine - theirs <= _BAR_MS
            figures.append(Figure(name, "ms", mine, "bare loop", theirs, bar, held))
        return figures


def _memory(machine: Machine) -> Figure:
    """What term2 takes with the vendor's SDK loaded and many prompts done."""
    with machine.term2(state="-memory") as agent:
        session = _session(agent, machine)
        for _ in range(_MEMORY_AFTER):
            agent.run_prompt(session, Orders().line())
        resident = agent.resident_mib()
    bar, held = f"at most {_MEMORY_BAR_MIB} MiB", resident <= _MEMORY_BAR_MIB
    return Figure(f"resident, {_MEMORY_AFTER} prompts done", "MiB", resident, bar=bar, held=held)


def _session(agent: Agent, machine: Machine) -> str:
    agent.initialize()
    return agent.new_session(machine.project)


def _round_trip(agent: Agent, session: str, text: str) -> float:
    started = time.perf_counter()
    agent.run_prompt(session, text)
    return (time.perf_counter() - started) * 1000
