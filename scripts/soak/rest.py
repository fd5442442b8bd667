"""What a server holds once all its sessions are closed, and whether that is what it held before."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs

from soak.server import Holdings, Server

_RESTING_THREADS = 3
# Over what it was once all was loaded: what the first use of each tool loads, and the part of
# the pages that is free.
_MEMORY_MIB = 24
# What comes later needs nothing new.
_LATER_MIB = 8
# Pools keep their threads for ten seconds.
_SETTLE_S = 25.0
_STEP_S = 0.25


@attrs.define
class Rests:
    """The rests of one server: after its first turn, in the middle and at the end."""

    _before: Holdings
    _last: Holdings | None = None
    growth_mib: float = 0.0
    later_growth_mib: float = 0.0

    @classmethod
    def after_first_turn(cls, server: Server) -> Rests:
        """Begin with what a server holds whose first session was closed."""
        return cls(_settled(server, lambda now: now.threads <= _RESTING_THREADS))

    def rest(self, server: Server) -> Holdings:
        """Wait until nothing more is held than before, or ought to be."""
        return _settled(server, lambda now: not self._held(now))

    def faults(self, now: Holdings) -> list[str]:
        """What is held at the next rest that was not held before."""
        faults = self._held(now)
        self.growth_mib = now.resident - self._before.resident
        if self.growth_mib > _MEMORY_MIB:
            faults.append(f"memory grew by {self.growth_mib:.0f} MiB to {now.resident:.0f}")
        if self._last is not None:
            self.later_growth_mib = now.resident - self._last.resident
            if self.later_growth_mib > _LATER_MIB:
                faults.append(f"memory grew by {self.later_growth_mib:.0f} MiB since the last rest")
        self._last = now
        return faults

    def _held(self, now: Holdings) -> list[str]:
        before = self._before
        few = now.threads <= before.threads and now.descriptors <= before.descriptors
        if few and not now.children:
            return []
        return [f"at rest it held {before}, afterwards {now}"]


def _settled(server: Server, rests: Callable[[Holdings], bool]) -> Holdings:
    deadline = time.monotonic() + _SETTLE_S
    while True:
        now = server.holdings()
        if rests(now) or time.monotonic() > deadline:
            return now
        time.sleep(_STEP_S)
