"""
Permission conversations at length: `make fuzz-permissions`.

FUZZ_COUNT says how many (2000), FUZZ_SEED which ones (by the clock). A failure names both.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.permissions.playing import Ending, Round

A_ROUND = 12
SERVERS_AT_ONCE = 2


def rounds(root: Path, seed: int, count: int) -> Iterator[Round]:
    """The rounds that `count` conversations make, each below `root` with a server of its own."""
    for start in range(0, count, A_ROUND):
        dice = random.Random(f"{seed}-{start}")  # noqa: S311 (it plays)
        endings = [ending for ending in Ending if ending is not Ending.ORDERLY]
        ending = Ending.ORDERLY if dice.random() < 0.4 else dice.choice(endings)
        numbers = range(start, min(start + A_ROUND, count))
        yield Round(root / str(start), seed, dice.choice((1, 2)), numbers, ending)


def main() -> int:
    """Play, tell the figures, and say with the exit status whether all was well."""
    seed = int(os.environ.get("FUZZ_SEED") or time.time_ns() % 10**9)
    count = int(os.environ.get("FUZZ_COUNT") or 2000)
    sys.stdout.write(f"seed {seed}, {count} conversations\n")
    begun = time.monotonic()
    figures: Counter[str] = Counter()
    faults = 0
    with (
        tempfile.TemporaryDirectory(prefix="permissions-") as root,
        ThreadPoolExecutor(SERVERS_AT_ONCE, "round") as pool,
    ):
        for played in pool.map(_played, rounds(Path(root), seed, count)):
            figures.update(played.figures)
            faults += len(played.faults)
            for fault in played.faults:
                sys.stdout.write(f"FAULT {played.numbers} {played.ending}: {fault}\n")
    for name in sorted(figures):
        sys.stdout.write(f"{figures[name]:7} {name}\n")
    sys.stdout.write(f"{faults} faults in {time.monotonic() - begun:.0f} s\n")
    return 1 if faults else 0


def _played(one: Round) -> Round:
    one.root.mkdir()
    one.play()
    return one


if __name__ == "__main__":
    sys.exit(main())
