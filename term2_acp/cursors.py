"""Opaque cursors of the session list: a position, sealed so that none can be made up."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json

from term2_acp.errors import InvalidParamsError

_SEAL_BYTES = 16


class CursorSeal:
    """Seals and opens cursors with a key of the store, so that they outlive the process."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, position: tuple[int, str], cwd: str | None) -> str:
        """The cursor that goes on after `position` in the list for `cwd`."""
        body = json.dumps([*position, cwd]).encode()
        return base64.urlsafe_b64encode(self._mark(body) + body).decode()

    def open(self, cursor: str, cwd: str | None) -> tuple[int, str]:
        """
        The position in a cursor.

        Raises:
            InvalidParamsError: this store did not make it, or for another `cwd`.
        """
        try:
            data = base64.urlsafe_b64decode(cursor.encode())
        except (binascii.Error, ValueError):
            data = b""
        seal, body = data[:_SEAL_BYTES], data[_SEAL_BYTES:]
        genuine = hmac.compare_digest(seal, self._mark(body))
        # Base64 has several spellings of the same bytes: only ours counts.
        if not genuine or base64.urlsafe_b64encode(data).decode() != cursor:
            raise InvalidParamsError("cursor must be a nextCursor of an earlier session/list")
        updated_at, session_id, sealed_cwd = json.loads(body)
        if sealed_cwd != cwd:
            raise InvalidParamsError("cursor belongs to a list with another cwd")
        return updated_at, session_id

    def _mark(self, body: bytes) -> bytes:
        return hmac.new(self._key, body, hashlib.sha256).digest()[:_SEAL_BYTES]
