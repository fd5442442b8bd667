"""Sending `session/update`, the same in both versions."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from term2_acp.rpc.framing import encode, encode_string
from term2_acp.rpc.outbox import Chunk
from term2_acp.wire import shared

if TYPE_CHECKING:
    from cattrs import Converter

    from term2_acp.agent.cancel import CancelToken
    from term2_acp.rpc.writer import Writer

# Stands for a chunk's text; nothing else of a chunk has this character.
_PLACE = "\0"
_ENCODED_PLACE = encode_string(_PLACE)


class Notifications:
    """Queues a session's notifications; callable from any thread, and never waits."""

    def __init__(self, writer: Writer, converter: Converter) -> None:
        self._writer = writer
        self._converter = converter
        # A thread streams one message at a time.
        self._last = threading.local()

    def wait_for_room(self, session_id: str, cancel: CancelToken) -> None:
        """Wait while too much of the session is queued, until `cancel` is set."""
        self._writer.wait_for_room(session_id, cancel)

    def together(self) -> AbstractContextManager[object]:
        """What is delivered in the block is sent at its end."""
        return self._writer.together()

    def _send(self, session_id: str, update: Any, *, is_essential: bool = True) -> None:
        self._writer.send_update(
            session_id, self._notification(session_id, update), is_essential=is_essential
        )

    def _send_chunk(
        self,
        session_id: str,
        key: Hashable,
        payload: str | bytes,
        build: Callable[[str], Any],
    ) -> None:
        """
        Queue a chunk; `build` makes the update from what neighbours of one `key` join to.

        It is given text, Base64 if the payload is bytes, and only asked once for many
        chunks of one key: their lines differ in that text alone.
        """
        last = getattr(self._last, "line", None)
        if last is None or last[0] != (session_id, key):
            line = _LineOfChunk(encode(self._notification(session_id, build(_PLACE))))
            self._last.line = last = ((session_id, key), line)
        self._writer.send_chunk(session_id, Chunk(key, payload, last[1]))

    def _notification(self, session_id: str, update: Any) -> dict[str, Any]:
        params = shared.UpdateSessionNotification(session_id, update)
        return {
            "jsonrpc": "2.0",
            "method": "session/update",
            "params": self._converter.unstructure(params),
        }


class _LineOfChunk:
    """A chunk's line around its text."""

    __slots__ = ("_after", "_before")

    def __init__(self, line: bytes) -> None:
        self._before, _, self._after = line.partition(_ENCODED_PLACE)

    def __call__(self, payload: str | bytes) -> bytes:
        """The line with that text."""
        if isinstance(payload, bytes):
            text = b'"%s"' % base64.b64encode(payload)
        else:
            text = encode_string(payload)
        return self._before + text + self._after
