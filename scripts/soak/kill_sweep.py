"""
Kills the server after every line of a turn with each vendor's format, then at random: `make soak`.

    python scripts/soak/kill_sweep.py [--kills N] [--seed S] [--kind KIND]

Of the random ones each kills either in a turn of every kind of update or in a long stream.
Prints a line a pass; the exit status is 1, with what was lost, if anything was.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.harness.kill_sweep import KINDS, STREAM, STREAM_LINES, TURN, KillSweep, LostError


def main(arguments: list[str]) -> int:
    """Sweep; returns the exit status."""
    parser = argparse.ArgumentParser(description="kill the server in every place of a turn")
    parser.add_argument("--kills", type=int, default=200, help="random ones after the sweep")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this format; repeat")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    kills = 0
    dice = random.Random(options.seed)  # noqa: S311 (it plays)
    try:
        for kind in options.kind or KINDS:
            kills += _sweep(kind)
        kills += _at_random(options.kills, dice)
    except LostError as error:
        print(f"kill sweep: seed {options.seed}: {error}")
        return 1
    print(f"kill sweep: {kills} kills in {time.monotonic() - started:.0f} s, nothing lost")
    return 0


def _sweep(kind: str) -> int:
    with tempfile.TemporaryDirectory(prefix="term2-sweep-") as folder:
        sweep = KillSweep(Path(folder).resolve(), kind)
        try:
            lines = sweep.lines(TURN)
            for place in range(lines + 1):
                sweep.kill_after(place, TURN)
        finally:
            sweep.close()
    print(f"kill sweep: {kind}: after each of {lines} lines", flush=True)
    return sweep.kills


def _at_random(count: int, dice: random.Random) -> int:
    if not count:
        return 0
    with tempfile.TemporaryDirectory(prefix="term2-sweep-") as folder:
        sweep = KillSweep(Path(folder).resolve())
        try:
            lines = {TURN: sweep.lines(TURN), STREAM: STREAM_LINES}
            for _ in range(count):
                script = dice.choice((TURN, STREAM))
                sweep.kill_after(dice.randrange(lines[script] + 1), script)
        finally:
            sweep.close()
    print(f"kill sweep: {count} random places", flush=True)
    return sweep.kills


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
