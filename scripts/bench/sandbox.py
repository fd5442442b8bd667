"""
What the sandbox costs: `true` in it against plain, and whether that grows with the workspace.

By itself: PYTHONPATH=scripts .venv/bin/python -m bench.sandbox
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from bench.figures import Figure, as_table
from sandbox import Policy, Process
from sandbox.protected import FILES, FOLDERS

_COMMAND = "true"
_TIMEOUT_S = 60.0
_ADDED_BAR_MS = 15.0
# Where the plain command takes longer something else runs, and milliseconds mean nothing.
_IDLE_MS = 2.5
# Of times that a busy machine moves about by a third.
_GROWTH_BAR = 1.5
_SIZES = (1, 1000, 20_000)


@attrs.frozen
class Cost:
    """
    Medians in milliseconds, all of them sampled in turn in one run.

    Attributes:
        plain: `true` by bash without a sandbox.
        sandboxed: by the number of files in the workspace.
        protected: with every protected path there, instead of none.
        session: making a policy, by the number of files in the workspace.
    """

    plain: float
    sandboxed: dict[int, float]
    protected: float
    session: dict[int, float]

    def figures(self) -> list[Figure]:
        """As `make bench` shows them."""
        small, large = self.sandboxed[_SIZES[0]], self.sandboxed[_SIZES[-1]]
        added = small - self.plain
        return [
            Figure("`true` in the sandbox", "ms", small, "without", self.plain),
            Figure(
                "added by the sandbox",
                "ms",
                added,
                bar=f"<= {_ADDED_BAR_MS:.0f} ms on an idle machine",
                held=added <= _ADDED_BAR_MS if self.plain <= _IDLE_MS else None,
            ),
            _grown(f"the same among {_SIZES[-1]:,} files", large, "among 1", small),
            _grown(f"the same among {_SIZES[1]:,} files", self.sandboxed[1000], "among 1", small),
            _grown("the same, every protected path exists", self.protected, "none", small),
            *(
                Figure(
                    f"policy of a session, {size:,} files",
                    "ms",
                    taken,
                    "1 file",
                    self.session[_SIZES[0]],
                )
                for size, taken in self.session.items()
                if size != _SIZES[0]
            ),
        ]


def measure(rounds: int = 40) -> Cost:
    """Sample everything `rounds` times, each in turn."""
    with tempfile.TemporaryDirectory(prefix="sandbox-bench-") as folder:
        base = Path(folder)
        with _policies(base) as policies:
            samplers: dict[str, Callable[[], object]] = {"plain": _run_plain}
            for name, policy in policies.items():
                samplers[name] = lambda policy=policy: _run_sandboxed(policy)
                if name.isdecimal():
                    samplers[f"session {name}"] = lambda policy=policy: _make_policy(policy)
            medians = _medians(samplers, rounds)
    return Cost(
        plain=medians["plain"],
        sandboxed={size: medians[str(size)] for size in _SIZES},
        protected=medians["protected"],
        session={size: medians[f"session {size}"] for size in _SIZES},
    )


def main() -> int:
    """Print the figures."""
    print(as_table(measure().figures()))
    return 0


@contextmanager
def _policies(base: Path) -> Iterator[dict[str, Policy]]:
    found = {}
    for name in (*map(str, _SIZES), "protected"):
        workspace = base / name
        subprocess.run(["/usr/bin/env", "git", "init", "-q", str(workspace)], check=True)
        if name == "protected":
            for path in FOLDERS:
                (workspace / path).mkdir(parents=True)
            for path in FILES:
                (workspace / path).touch()
        for number in range(int(name) if name.isdecimal() else 1):
            folder = workspace / f"folder-{number // 100}"
            folder.mkdir(exist_ok=True)
            (folder / f"file-{number}").touch()
        found[name] = Policy.for_workspace(str(workspace), state_dir=str(base / "state"))
    try:
        yield found
    finally:
        for policy in found.values():
            policy.discard()


def _medians(samplers: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    samples: dict[str, list[float]] = {name: [] for name in samplers}
    for at in range(rounds + 3):
        for name, sample in samplers.items():
            before = time.perf_counter()
            sample()
            if at >= 3:  # what is loaded once is not what a command costs
                samples[name].append((time.perf_counter() - before) * 1000)
    return {name: statistics.median(values) for name, values in samples.items()}


def _run_plain() -> None:
    subprocess.run(
        ["/bin/bash", "-c", _COMMAND],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        check=True,
    )


def _run_sandboxed(policy: Policy) -> None:
    result = Process(policy, _COMMAND).run(timeout_s=_TIMEOUT_S, on_output=lambda _: None)
    if result.exit_code != 0:
        raise RuntimeError(f"the sandbox did not run it: {result}")


def _make_policy(like: Policy) -> None:
    Policy.for_workspace(like.workspace, state_dir=like.state_dir, environ=os.environ).discard()


def _grown(name: str, ours: float, peer: str, theirs: float) -> Figure:
    bar = f"ratio <= {_GROWTH_BAR:.1f}"
    return Figure(name, "ms", ours, peer, theirs, bar=bar, held=ours / theirs <= _GROWTH_BAR)


if __name__ == "__main__":
    sys.exit(main())
