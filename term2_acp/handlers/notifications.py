"""Sending `session/update`, the same in both versions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from term2_acp.rpc.outbox import Chunk
from term2_acp.wire import shared

if TYPE_CHECKING:
    from cattrs import Converter

    from term2_acp.agent.cancel import CancelToken
    from term2_acp.rpc.writer import Writer


class Notifications:
    """Queues a session's notifications; callable from any thread, and never waits."""

    def __init__(self, writer: Writer, converter: Converter) -> None:
        self._writer = writer
        self._converter = converter

    def wait_for_room(self, session_id: str, cancel: CancelToken) -> None:
        """Wait while too much of the session is queued, until `cancel` is set."""
        self._writer.wait_for_room(session_id, cancel)

    def _send(self, session_id: str, update: Any, *, is_essential: bool = True) -> None:
        self._writer.send_update(
            session_id, self._notification(session_id, update), is_essential=is_essential
        )

    def _send_chunk(
        self,
        session_id: str,
        key: Hashable,
        payload: str | bytes,
        build: Callable[[Any], Any],
    ) -> None:
        """Queue a chunk; `build` makes the update from what neighbours of one `key` join to."""

        def message(joined: Any) -> dict[str, Any]:
            return self._notification(session_id, build(joined))

        self._writer.send_chunk(session_id, Chunk(key, payload, message))

    def _notification(self, session_id: str, update: Any) -> dict[str, Any]:
        params = shared.UpdateSessionNotification(session_id, update)
        return {
            "jsonrpc": "2.0",
            "method": "session/update",
            "params": self._converter.unstructure(params),
        }
