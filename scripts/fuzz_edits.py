#!/usr/bin/env python3
"""
Random edit scripts against a reference model of the file.

Each script makes a file and edits it with the real tools; every result, and every refusal, must
be what the model says. Prints the seeds of the scripts that went wrong, and a summary; exit
status 1 if there are any. The same seeds are the same scripts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.tools.edit_scripts import run_script


def main(arguments: list[str]) -> int:
    """Run the scripts; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how many scripts (10000)")
    parser.add_argument("--seed", type=int, default=1_000_000, help="of the first one (1000000)")
    options = parser.parse_args(arguments)
    begun = time.monotonic()
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "scratch")
        folder.mkdir()
        for seed in range(options.seed, options.seed + options.count):
            difference = run_script(seed, folder)
            if difference is not None:
                wrong += 1
                print(difference)
    seconds = time.monotonic() - begun
    last = options.seed + options.count - 1
    print(
        f"{options.count} scripts, seeds {options.seed} to {last}, {wrong} differences, "
        f"{seconds:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
