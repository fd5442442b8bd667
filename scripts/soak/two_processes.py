"""
Several servers on one store, used at random for a time: `make soak`.

    python scripts/soak/two_processes.py [--seconds N] [--servers N] [--seed S] [--races N]

Players prompt, cancel, resume and list; what any server told of a session is what the
next one must replay. Then two servers race for one session. The exit status is 1 if an
answer was wrong, an event was lost, or a race had not exactly one winner.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.harness.client import Client
from tests.harness.home import Home
from tests.harness.shared_store import IN_USE, SharedStore


def main(arguments: list[str]) -> int:
    """Play and race; returns the exit status."""
    parser = argparse.ArgumentParser(description="use one store from several servers")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--races", type=int, default=1000)
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="term2-store-") as folder:
            _play(Path(folder).resolve(), options)
        with tempfile.TemporaryDirectory(prefix="term2-race-") as folder:
            _race(Path(folder).resolve(), options.races)
    except AssertionError as error:
        print(f"two processes: seed {options.seed}: {error}")
        return 1
    return 0


def _play(folder: Path, options: argparse.Namespace) -> None:
    game = SharedStore(folder, servers=options.servers, seed=options.seed)
    try:
        game.play(options.seconds)
        game.judge()
    finally:
        game.close()
    print(
        f"two processes: {options.servers} servers, {options.seconds:.0f} s: {game.counts},"
        " nothing lost",
        flush=True,
    )


def _race(folder: Path, races: int) -> None:
    home = Home.create(folder)
    project = home.project()
    racers = [Client(home), Client(home)]
    wins = [0, 0]
    try:
        for racer in racers:
            racer.initialize()
        session = racers[0].new_session(project)
        racers[0].close_session(session)
        for number in range(races):
            replies = [racer.resume(session, project) for racer in racers]
            responses = [reply.response() for reply in replies]
            winners = [n for n, response in enumerate(responses) if "result" in response]
            codes = [response["error"]["code"] for response in responses if "error" in response]
            if len(winners) != 1 or codes != [IN_USE]:
                raise AssertionError(f"race {number}: {responses}")
            racers[winners[0]].close_session(session)
            wins[winners[0]] += 1
    finally:
        for racer in racers:
            racer.close()
    print(f"two processes: {races} races, one winner each ({wins[0]} and {wins[1]})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
