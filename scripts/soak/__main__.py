"""
`make soak`: random sessions over random servers until the time is up or a rule is broken.

The same seed makes the same choices; what the machine makes of them differs. The exit
status is 1 if a rule was broken: which, and the last lines, are told on stderr.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time

import attrs
from bench.machine import Machine

from soak.ledger import BrokenInvariantError
from soak.life import Life, Report
from soak.tab import Known

_SHORTEST_S, _LONGEST_S = 8.0, 60.0
_SHOWN_LINES = 60
# A model that stalls ends the turn soon.
_SETTINGS = "stream_idle_timeout_s = 4\n"


def main(arguments: list[str]) -> int:
    """Soak; the exit status."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800, help="how long (1800)")
    parser.add_argument("--seed", default=None, help="any word (a random one)")
    parser.add_argument("--tabs", type=int, default=6, help="sessions at once (6)")
    options = parser.parse_args(arguments)
    seed = options.seed or f"{random.SystemRandom().getrandbits(32):x}"
    say(f"soak: --seed {seed} --seconds {options.seconds:g} --tabs {options.tabs}")
    report = Report()
    rng = random.Random(seed)  # noqa: S311 (to be repeated, not to be secret)
    known: list[list[Known]] = [[] for _ in range(options.tabs)]
    started = time.monotonic()
    broken = ""
    with Machine("soak.model", _SETTINGS) as machine, tempfile.TemporaryFile() as log:
        while not broken and (rest := options.seconds - (time.monotonic() - started)) > 0:
            life = Life(machine, f"{seed}/{report.lives}", known, log)
            try:
                life.run(min(rng.uniform(_SHORTEST_S, _LONGEST_S), max(rest, 5)), report)
            except BrokenInvariantError as error:
                broken = str(error)
                say("\n".join(_about(life.lines(), broken)))
                log.seek(0)
                say(log.read()[-4000:].decode(errors="replace"))
                say(f"soak: broken in life {report.lives}: {broken}")
            say(f"soak: {time.monotonic() - started:.0f} s, {attrs.asdict(report)}")
    print(json.dumps({"seed": seed, "broken": broken, **attrs.asdict(report)}))
    return 1 if broken else 0


def _about(lines: list[str], broken: str) -> list[str]:
    """The last lines of the session that is named, or of all."""
    named = re.findall(r"sess_\w+", broken)
    found = [line for line in lines if named and named[0] in line]
    return (found or lines)[-_SHOWN_LINES:]


def say(text: str) -> None:
    """Tell whoever watches."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
