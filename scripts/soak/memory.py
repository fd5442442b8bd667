"""
Whether memory stays flat: thousands of short prompts in one process.

`python -m soak.memory` prints the resident memory as it goes and a line of JSON. The exit
status is 1 if it is too high after a hundred prompts, or grows after the first thousand.
"""

from __future__ import annotations

import argparse
import json
import sys

from bench.machine import Machine
from bench.model import Orders

_AFTER_100_MIB = 120
_GROWTH_MIB = 8
_PROMPTS_A_SESSION = 25
_TOLD_EVERY = 500


def main(arguments: list[str]) -> int:
    """Prompt; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m soak.memory", description=__doc__)
    parser.add_argument("--prompts", type=int, default=10_000, help="how many (10000)")
    options = parser.parse_args(arguments)
    told: dict[int, float] = {}
    with Machine() as machine, machine.term2(state="-memory", deadline_s=36_000) as agent:
        agent.initialize()
        session = ""
        for number in range(options.prompts):
            if number % _PROMPTS_A_SESSION == 0:
                if session:
                    agent.call("session/close", {"sessionId": session})
                session = agent.new_session(machine.project)
            agent.run_prompt(session, Orders(chunks=1 + number % 5, size=20).line())
            done = number + 1
            if done in (1, 100) or done % _TOLD_EVERY == 0:
                told[done] = agent.resident_mib()
                print(f"memory: {done} prompts, {told[done]:.1f} MiB", file=sys.stderr, flush=True)
    last = max(told)
    growth = told[last] - told.get(1000, told[last])
    held = told.get(100, 0) <= _AFTER_100_MIB and growth <= _GROWTH_MIB
    print(json.dumps({"resident_mib": told, "growth_after_1000_mib": growth, "held": held}))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
