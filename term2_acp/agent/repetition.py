"""Notices a model that repeats the same failing calls (spec section 5, max_turn_requests)."""

from __future__ import annotations

from collections.abc import Sequence

from term2_acp.eventlog import PlannedCall

TOLD_AFTER = 3
"""So many identical failing steps in a row are told to the model."""
STUCK_AFTER = TOLD_AFTER + 3
"""So many end the turn."""
_NOTE = (
    "This same call has failed {count} times in a row with the same arguments."
    " Do something else: read the error, look at the file, or ask the user."
)


class Repetition:
    """Compares each step's calls with those of the step before."""

    def __init__(self) -> None:
        self._key: tuple[tuple[str, str], ...] = ()
        self._count = 0

    def note(self, calls: Sequence[PlannedCall]) -> str:
        """What is to be added to the results of these calls if they fail."""
        count = self._count + 1 if _key(calls) == self._key else 1
        return _NOTE.format(count=count) if count >= TOLD_AFTER else ""

    def record(self, calls: Sequence[PlannedCall], *, all_failed: bool) -> None:
        """Take the outcome of a step."""
        key = _key(calls)
        if not all_failed:
            self._count = 0
        elif key == self._key:
            self._count += 1
        else:
            self._count = 1
        self._key = key

    @property
    def is_stuck(self) -> bool:
        """Whether being told did not help."""
        return self._count >= STUCK_AFTER


def _key(calls: Sequence[PlannedCall]) -> tuple[tuple[str, str], ...]:
    return tuple((call.name, call.arguments) for call in calls)
