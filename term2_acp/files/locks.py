"""One editor of a file at a time, over all sessions of the process (spec section 7)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from term2_acp.agent.cancel import CancelToken


@attrs.define
class PathLocks:
    """Named locks, one per real path; all methods may be called from any thread."""

    _held: set[str] = attrs.field(factory=set, init=False)
    _changed: threading.Condition = attrs.field(factory=threading.Condition, init=False)

    @contextmanager
    def hold(self, path: str, cancel: CancelToken) -> Iterator[None]:
        """
        Hold the lock of `path` for the block, after waiting for whoever has it.

        Raises:
            Cancelled: `cancel` was set before the lock was free.
        """
        with cancel.on_cancel(self._wake), self._changed:
            while path in self._held:
                cancel.raise_if_cancelled()
                self._changed.wait()
            self._held.add(path)
        try:
            yield
        finally:
            with self._changed:
                self._held.remove(path)
                self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


EDIT_LOCKS = PathLocks()
"""The locks that every edit of the process takes."""

LARGE_FILE = 8 << 20
"""From so many bytes on, files that are read side by side are read one after the other."""
_LARGE_READS = PathLocks()


@contextmanager
def turn_to_read(size: int, cancel: CancelToken) -> Iterator[None]:
    """
    Let only one large file at a time be in memory for the block; a small one need not wait.

    Raises:
        Cancelled: `cancel` was set while another was being read.
    """
    if size < LARGE_FILE:
        yield
        return
    with _LARGE_READS.hold("", cancel):
        yield
