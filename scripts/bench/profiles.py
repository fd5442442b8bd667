"""
`make profile`: where the time goes, at start-up and in a turn.

Without arguments all of it; else some of: startup (what imports take), session (what
`session/new` imports), turn, stream, writer (cProfile of a thread), and sampled (py-spy,
where it is installed: pip install py-spy).
"""

from __future__ import annotations

import os
import pstats
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.agent import Agent
from bench.machine import Machine
from bench.model import Orders

_ROWS = 40
_SAMPLED_S = 10


def main(names: list[str]) -> int:
    """Print the profiles that are named; the exit status."""
    unknown = [name for name in names if name not in PROFILES]
    if unknown:
        print(f"unknown: {' '.join(unknown)}; there are {' '.join(PROFILES)}", file=sys.stderr)
        return 1
    with Machine() as machine:
        for name in names or PROFILES:
            print(f"== {name}", flush=True)
            PROFILES[name](machine)
    return 0


def _imports(machine: Machine, module: str, after: str = "") -> None:
    """The dearest imports of a module, those that `after` brings left out."""
    code = f"import sys, {after or 'sys'}; sys.stderr.write('===\\n'); import {module}"
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code],
        env=machine.environment(),
        stderr=subprocess.PIPE,
        check=True,
        text=True,
    ).stderr
    rows = [line for line in told.partition("===\n")[2].splitlines() if "|" in line]
    rows.sort(key=lambda line: -int(line.split("|")[1]))
    print("import time: self [us] | cumulative | module")
    print("\n".join(rows[:_ROWS]))


def _thread(machine: Machine, name: str, prompts: int, orders: Orders) -> None:
    """CProfile of one thread while prompts are answered."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile"
        # As a module: modules beside a script go before those of the project, also `sandbox`.
        argv = [sys.executable, "-m", "bench.profiled_server", str(path), name]
        environment = machine.environment(f"-{name}")
        environment["PYTHONPATH"] += f"{os.pathsep}{Path(__file__).parents[1]}"
        with Agent(argv, environment) as agent:
            agent.initialize()
            session = agent.new_session(machine.project)
            for _ in range(prompts):
                agent.run_prompt(session, orders.line())
        pstats.Stats(str(path)).sort_stats("tottime").print_stats(_ROWS)


def _sampled(machine: Machine) -> None:
    """py-spy's view of all threads of a server that streams."""
    spy = shutil.which("py-spy", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if spy is None:
        print("py-spy is not installed", file=sys.stderr)
        return
    with machine.term2() as agent, tempfile.TemporaryDirectory() as folder:
        agent.initialize()
        session = agent.new_session(machine.project)
        path = Path(folder) / "stacks"
        argv = [spy, "record", "--pid", str(agent.pid), "--duration", str(_SAMPLED_S)]
        sampler = subprocess.Popen([*argv, "--format", "raw", "--output", str(path), "--threads"])
        while sampler.poll() is None:
            agent.run_prompt(session, Orders(chunks=2000, size=20).line())
        lines = path.read_text(encoding="utf-8").splitlines()
        lines.sort(key=lambda line: -int(line.rpartition(" ")[2]))
        print("\n".join(lines[:_ROWS]))


PROFILES: dict[str, Callable[[Machine], None]] = {
    "startup": lambda machine: _imports(machine, "term2_acp.serve"),
    "session": lambda machine: _imports(machine, "term2_acp.composition", "term2_acp.serve"),
    "turn": lambda machine: _thread(machine, "term2-turn", 100, Orders()),
    "stream": lambda machine: _thread(machine, "term2-turn", 3, Orders(chunks=2000, size=20)),
    "writer": lambda machine: _thread(machine, "term2-writer", 3, Orders(chunks=2000, size=20)),
    "sampled": _sampled,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
