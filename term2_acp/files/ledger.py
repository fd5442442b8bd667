"""What a session has seen of each file, so that it does not overwrite what it never saw."""

from __future__ import annotations

import hashlib
import threading
from enum import Enum

import attrs


class Knowledge(Enum):
    """
    How a file's present content relates to what the session saw of it last.

    PARTIAL is CURRENT for somebody who saw only some of it.
    """

    UNSEEN = "unseen"
    PARTIAL = "partial"
    CURRENT = "current"
    STALE = "stale"


@attrs.frozen
class _Seen:
    """The hash of a content, and whether all of it was shown."""

    digest: bytes
    whole: bool


@attrs.define
class ReadLedger:
    """
    Remembers the content of every file that one session read or wrote.

    The content itself decides, by its hash: a file that was only touched is unchanged, and an
    edit that keeps size and time is not overlooked. All methods may be called from any thread.
    """

    _seen: dict[str, _Seen] = attrs.field(factory=dict, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def record(self, path: str, data: bytes, *, whole: bool = True) -> None:
        """
        Remember that the session knows `data` as the content of the real path `path`.

        Who sees a part of what was seen whole before still knows the whole.
        """
        digest = _digest(data)
        with self._lock:
            if _Seen(digest, whole=True) != self._seen.get(path):
                self._seen[path] = _Seen(digest, whole)

    def compare(self, path: str, data: bytes) -> Knowledge:
        """Judge `data`, the present content of `path`, by what the session saw last."""
        with self._lock:
            seen = self._seen.get(path)
        if seen is None:
            return Knowledge.UNSEEN
        if seen.digest != _digest(data):
            return Knowledge.STALE
        return Knowledge.CURRENT if seen.whole else Knowledge.PARTIAL


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
