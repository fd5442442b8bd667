"""
`make bench`: measure everything; a Markdown table on stdout, and JSON where --json says.

The exit status is 1 if a bar does not hold.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import prompts, sandbox, startup, store, streaming
from bench.figures import Figure, as_json, as_table
from bench.machine import Machine

Group = Callable[[Machine, bool], list[Figure]]


def _streaming(machine: Machine, quick: bool) -> list[Figure]:
    rounds, lengths = (2, (2000,)) if quick else (3, (2000, 100_000))
    return streaming.measure(machine, rounds=rounds, lengths=lengths)


GROUPS: dict[str, Group] = {
    "startup": lambda machine, quick: startup.measure(machine, rounds=3 if quick else 10),
    "prompts": lambda machine, quick: prompts.measure(machine, rounds=30 if quick else 200),
    "streaming": _streaming,
    "delay": lambda machine, quick: streaming.measure_delay(machine, chunks=50 if quick else 300),
    "fairness": lambda machine, quick: streaming.measure_fairness(
        machine, chunks=100 if quick else 1000
    ),
    "sandbox": lambda _, quick: sandbox.measure(3 if quick else 40).figures(),
    "store": lambda _, quick: store.measure(quick=quick),
}


def main(arguments: list[str]) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=GROUPS, help="a group; may be repeated")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a check, no figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args(arguments)
    figures: list[Figure] = []
    with Machine() as machine:
        for name, group in GROUPS.items():
            if options.only and name not in options.only:
                continue
            print(f"bench: {name}", file=sys.stderr, flush=True)
            figures += group(machine, options.quick)
    print(as_table(figures))
    if options.json is not None:
        options.json.write_text(as_json(figures, _about()) + "\n", encoding="utf-8")
    return 1 if any(figure.held is False for figure in figures) else 0


def _about() -> dict[str, object]:
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "load": os.getloadavg(),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
