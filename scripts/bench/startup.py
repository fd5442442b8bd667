"""Start-up: from the spawn to the first session, and what it takes in memory."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from bench.agent import Agent
from bench.figures import Figure, percentile
from bench.machine import Machine

_MEMORY_BAR_MIB = 45


@attrs.define
class _Starts:
    """What several starts of one program took; milliseconds and MiB."""

    initialize: list[float] = attrs.Factory(list)
    new: list[float] = attrs.Factory(list)
    resident: list[float] = attrs.Factory(list)

    def add(self, agent: Agent, machine: Machine) -> None:
        """Start once more."""
        with agent:
            to_initialize = agent.initialize()
            before = agent.seconds()
            agent.new_session(machine.project)
            self.new.append((agent.seconds() - before) * 1000)
            self.initialize.append(to_initialize * 1000)
            self.resident.append(agent.resident_mib())


def measure(machine: Machine, *, rounds: int) -> list[Figure]:
    """Start every program in turn."""
    machine.install_peers()
    programs: dict[str, Callable[[], Agent]] = {
        "ours": lambda: machine.term2(configured=False),
        "configured": machine.term2,
        "bare loop": machine.bare_loop,
        "Python SDK echo": machine.python_sdk,
        "TypeScript SDK": machine.typescript_sdk,
    }
    starts = {name: _Starts() for name in programs}
    for at in range(rounds + 1):
        for name, start in programs.items():
            # The first start of each fills the caches of the machine.
            (_Starts() if at == 0 else starts[name]).add(start(), machine)
    ours, configured = starts.pop("ours"), starts.pop("configured")
    figures: list[Figure] = []
    for name, theirs in starts.items():
        figures += _compare(name, ours, configured, theirs)
    resident = percentile(ours.resident, 0.5)
    bar = f"at most {_MEMORY_BAR_MIB} MiB"
    held = resident <= _MEMORY_BAR_MIB
    figures.append(Figure("resident, no provider", "MiB", resident, bar=bar, held=held))
    return figures


def _compare(name: str, ours: _Starts, configured: _Starts, theirs: _Starts) -> list[Figure]:
    reference = percentile(theirs.initialize, 0.5)
    share, bar = {
        "Python SDK echo": (0.25, "a quarter of it"),
        "TypeScript SDK": (1.0, "below it"),
    }.get(name, (None, ""))
    figures = []
    for what, program in (("", ours), (", with a configuration", configured)):
        value = percentile(program.initialize, 0.5)
        held = None if share is None else value <= reference * share
        title = f"spawn to initialize{what}"
        figures.append(Figure(title, "ms", value, name, reference, bar, held))
    new = percentile(ours.new, 0.5), percentile(theirs.new, 0.5)
    resident = percentile(ours.resident, 0.5), percentile(theirs.resident, 0.5)
    figures.append(Figure("initialize to session/new", "ms", new[0], name, new[1]))
    figures.append(Figure("resident after session/new", "MiB", resident[0], name, resident[1]))
    return figures
