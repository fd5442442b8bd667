"""The outbound queue, bounded in bytes (spec section 3)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from term2_acp.rpc.framing import encode

if TYPE_CHECKING:
    from term2_acp.agent.cancel import CancelToken

SESSION_BYTES = 512 * 1024
"""A session's producers wait while this much of its output is queued."""
MERGE_BYTES = 64 * 1024
"""Neighbouring chunks are merged once this much is queued in all."""
MERGED_CHUNK_BYTES = 256 * 1024
"""A merged chunk does not grow past this."""
ESSENTIAL_BYTES = 64 * 1024 * 1024
"""With this much waiting that may not be dropped, the client counts as gone."""


class Chunk:
    """
    A message that may be joined with its neighbour of the same `key`.

    `line` makes the line of the joined payload.
    """

    __slots__ = ("_line", "_pieces", "key", "size")

    def __init__(
        self, key: Hashable, payload: str | bytes, line: Callable[[Any], bytes], overhead: int = 200
    ) -> None:
        self.key = key
        self.size = _bytes_of(payload) + overhead
        self._pieces = [payload]
        self._line = line

    def join(self, other: Chunk) -> int:
        """Append the other chunk's payload; returns by how many bytes this one grew."""
        grown = sum(map(_bytes_of, other._pieces))
        self._pieces += other._pieces
        self.size += grown
        return grown

    def encode(self) -> bytes:
        """Serialize the joined message."""
        first = self._pieces[0]
        if len(self._pieces) == 1:
            return self._line(first)
        return self._line(type(first)().join(self._pieces))  # type: ignore[arg-type]


def _bytes_of(payload: str | bytes) -> int:
    if isinstance(payload, bytes) or payload.isascii():
        return len(payload)
    return len(payload.encode("utf-8", "surrogatepass"))


class _Frame:
    """A queued message: encoded already, or a chunk that may still grow."""

    __slots__ = ("chunk", "data", "is_essential", "session_id", "size")

    def __init__(
        self,
        session_id: str | None,
        data: bytes | None,
        chunk: Chunk | None,
        *,
        is_essential: bool = True,
    ) -> None:
        self.session_id = session_id
        self.is_essential = is_essential and chunk is None
        self.data = data
        self.chunk = chunk
        self.size = len(data) if data is not None else chunk.size if chunk else 0

    def encode(self) -> bytes:
        return self.data if self.data is not None else self.chunk.encode() if self.chunk else b""


class Outbox:
    """
    What waits to be written, in order.

    Putting never waits; a producer that may wait calls `wait_for_room` first, and
    holds no lock then. What must not be dropped is put without waiting.
    """

    def __init__(self, on_overflow: Callable[[], None]) -> None:
        self._on_overflow = on_overflow
        self._changed = threading.Condition()
        self._frames: deque[_Frame] = deque()
        self._bytes = 0
        self._essential_bytes = 0
        self._session_bytes: dict[str, int] = {}
        # The last queued chunk of each session, while nothing of it came after.
        self._tails: dict[str, _Frame] = {}
        self._closed = False

    def together(self) -> AbstractContextManager[object]:
        """What one thread puts in the block is taken at its end, and the taker woken once."""
        # A condition's lock can be taken again by the thread that has it.
        return self._changed

    def put(self, message: Any) -> None:
        """Queue a response or a request of ours."""
        self._put(_Frame(None, encode(message), None))

    def put_update(self, session_id: str, message: Any, *, is_essential: bool = True) -> None:
        """Queue an update of a session as it is."""
        self._put(_Frame(session_id, encode(message), None, is_essential=is_essential))

    def put_chunk(self, session_id: str, chunk: Chunk) -> None:
        """Queue a chunk, joined with its neighbour when the queue is long."""
        self._put(_Frame(session_id, None, chunk))

    def wait_for_room(self, session_id: str, cancel: CancelToken) -> None:
        """Wait until the session may queue more, the token is set, or the client is gone."""
        with self._changed:
            if self._has_room(session_id):
                return
        with cancel.on_cancel(self._wake), self._changed:
            self._changed.wait_for(lambda: cancel.cancelled or self._has_room(session_id))

    def take(self, limit: int) -> bytes | None:
        """Wait for messages and take about `limit` bytes of them; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._frames or self._closed)
            if not self._frames:
                return None
            taken: list[_Frame] = []
            size = 0
            while self._frames and (size < limit or not taken):
                frame = self._frames.popleft()
                size += frame.size
                taken.append(frame)
                self._forget(frame)
            self._changed.notify_all()
        return b"".join(frame.encode() for frame in taken)

    def close(self) -> None:
        """Take nothing in any more; what is queued can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def discard(self) -> None:
        """The client is gone: drop everything, now and from now on."""
        with self._changed:
            self._closed = True
            self._frames.clear()
            self._tails.clear()
            self._session_bytes.clear()
            self._bytes = self._essential_bytes = 0
            self._changed.notify_all()

    def _put(self, frame: _Frame) -> None:
        with self._changed:
            if self._closed:
                return
            if self._join_tail(frame):
                return
            self._frames.append(frame)
            self._account(frame, frame.size)
            if frame.session_id is None:
                self._tails.clear()
            elif frame.chunk is not None:
                self._tails[frame.session_id] = frame
            else:
                self._tails.pop(frame.session_id, None)
            overflow = self._essential_bytes > ESSENTIAL_BYTES
            self._changed.notify_all()
        if overflow:
            self._on_overflow()

    def _join_tail(self, frame: _Frame) -> bool:
        chunk = frame.chunk
        if chunk is None or frame.session_id is None or self._bytes < MERGE_BYTES:
            return False
        tail = self._tails.get(frame.session_id)
        if tail is None or tail.chunk is None or tail.chunk.key != chunk.key:
            return False
        if tail.size + chunk.size > MERGED_CHUNK_BYTES:
            return False
        grown = tail.chunk.join(chunk)
        tail.size += grown
        self._account(tail, grown)
        return True

    def _account(self, frame: _Frame, size: int) -> None:
        self._bytes += size
        if frame.is_essential:
            self._essential_bytes += size
        if frame.session_id is not None:
            total = self._session_bytes.get(frame.session_id, 0) + size
            if total:
                self._session_bytes[frame.session_id] = total
            else:
                self._session_bytes.pop(frame.session_id, None)

    def _forget(self, frame: _Frame) -> None:
        self._account(frame, -frame.size)
        if frame.session_id is not None and self._tails.get(frame.session_id) is frame:
            del self._tails[frame.session_id]

    def _has_room(self, session_id: str) -> bool:
        return self._closed or self._session_bytes.get(session_id, 0) < SESSION_BYTES

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
