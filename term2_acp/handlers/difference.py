"""Where two sequences differ: the lengths of their common ends."""

from __future__ import annotations

from collections.abc import Sequence


def common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many items are the same at the beginning, and behind that at the end."""
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    tail = 0
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail
