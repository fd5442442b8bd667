"""What a benchmark found, and how it is told."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

_COLUMNS = ("figure", "term2", "compared with", "theirs", "ratio", "bar", "held")


@attrs.frozen
class Figure:
    """
    One measurement of term2, and of what it is compared with in the same run.

    Args:
        peer: the name of the floor or peer; empty where a figure stands for itself.
        theirs: the peer's value, in the same unit.
        bar: what must hold, in words; empty where nothing is asked.
        held: whether it holds; None without a bar.
    """

    name: str
    unit: str
    ours: float
    peer: str = ""
    theirs: float | None = None
    bar: str = ""
    held: bool | None = None

    @property
    def ratio(self) -> float | None:
        """Ours divided by theirs, if there is such a thing."""
        return self.ours / self.theirs if self.theirs else None

    def as_json(self) -> dict[str, Any]:
        """The figure as JSON, with its ratio."""
        return {**attrs.asdict(self), "ratio": self.ratio}

    def row(self) -> tuple[str, ...]:
        """The cells of the table."""
        held = "" if self.held is None else "yes" if self.held else "NO"
        theirs = "" if self.theirs is None else _number(self.theirs, self.unit)
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        ours = _number(self.ours, self.unit)
        return (self.name, ours, self.peer, theirs, ratio, self.bar, held)


Sampler = Callable[[], float]


def alternate(samplers: dict[str, Sampler], rounds: int, *, warm_up: int = 1) -> dict[str, float]:
    """
    Sample each in turn, `rounds` times, and give the median of each.

    What disturbs the machine for a while then disturbs all of them.
    """
    samples: dict[str, list[float]] = {name: [] for name in samplers}
    for at in range(warm_up + rounds):
        for name, sample in samplers.items():
            value = sample()
            if at >= warm_up:
                samples[name].append(value)
    return {name: statistics.median(values) for name, values in samples.items()}


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` (0 to 1) of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def as_table(figures: Iterable[Figure]) -> str:
    """A Markdown table."""
    rows = [_COLUMNS, tuple("---" for _ in _COLUMNS), *(figure.row() for figure in figures)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def as_json(figures: Iterable[Figure], about: dict[str, Any]) -> str:
    """Everything, for machines."""
    return json.dumps({**about, "figures": [figure.as_json() for figure in figures]}, indent=2)


def _number(value: float, unit: str) -> str:
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}"
