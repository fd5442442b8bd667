"""The stored sessions as a person keeps house with them: found, described, deleted."""

from __future__ import annotations

import os
from collections.abc import Iterator

import attrs

from term2_acp.errors import AcpError
from term2_acp.ownership import SessionLock, owner_of
from term2_acp.store import SessionRecord, Store
from term2_acp.surrogates import replace_lone_surrogates

_PREFIX = "sess_"
_PAGE = 200
_CANDIDATES = 5
# In one transaction, so that other processes wait for moments only.
_RECLAIMED_PAGES = 512


class NoSuchSessionError(AcpError):
    """An id, or the beginning of one, that means no session or several."""


@attrs.frozen
class Size:
    """How much of a session is stored; bytes are those in the database."""

    events: int
    bytes: int


class Archive:
    """
    The sessions of a store; for one thread.

    Raises:
        StoreError: from every method, when the store cannot be used.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.store = Store(directory)

    @staticmethod
    def exists(directory: str) -> bool:
        """Whether there is a store, as far as can be seen; looking makes none."""
        try:
            os.lstat(os.path.join(directory, "sessions.db"))
        except FileNotFoundError:
            return False
        except OSError:
            # Whoever opens it says why it cannot be looked at.
            return True
        return True

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def sessions(self, cwd: str | None) -> Iterator[SessionRecord]:
        """All sessions that had a prompt, newest activity first."""
        cwd = None if cwd is None else replace_lone_surrogates(cwd)
        before = None
        while records := self.store.list_sessions(cwd, before, _PAGE):
            yield from records
            before = (records[-1].updated_at, records[-1].session_id)

    def find(self, beginning: str) -> SessionRecord:
        """
        The session of an id that may be shortened, also by its `sess_`.

        Raises:
            NoSuchSessionError: there is none, or several begin like that; of nothing at all
                (as of an empty variable) not even the only one is meant.
        """
        beginning = replace_lone_surrogates(beginning)
        whole = self.store.find(beginning)
        if whole is not None:
            return whole
        starts = (beginning, _PREFIX + beginning)
        ids = list(dict.fromkeys(id_ for start in starts for id_ in self._beginning_with(start)))
        if not ids:
            raise NoSuchSessionError(f"there is no session {beginning!r}; see term2 sessions list")
        if len(ids) == 1 and not beginning.removeprefix(_PREFIX):
            raise NoSuchSessionError(
                f"{beginning!r} names no session; give some of its id, see term2 sessions list"
            )
        record = self.store.find(ids[0]) if len(ids) == 1 else None
        if record is None:
            raise NoSuchSessionError(
                f"{beginning!r} is short for several sessions: {', '.join(ids)}"
            )
        return record

    def _beginning_with(self, start: str) -> list[str]:
        # Ids are ASCII: what begins with the text is between it and its last successor.
        rows = self.store.database.query(
            "SELECT id FROM sessions WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
            (start, start + "\uffff", _CANDIDATES),
        )
        return [str(row[0]) for row in rows]

    def size(self, session_id: str) -> Size:
        """How much is stored of a session."""
        ((events, inside, large),) = self.store.database.query(
            "SELECT count(*), coalesce(sum(length(events.data)), 0),"
            " coalesce(sum(length(large_data.data)), 0)"
            " FROM events LEFT JOIN large_data ON large_data.id = events.large"
            " WHERE session_id = ?",
            (session_id,),
        )
        return Size(events, inside + large)

    def owner(self, session_id: str) -> int | None:
        """The process that has the session open, as far as can be told without asking for it."""
        return owner_of(self._directory, session_id)

    def idle_since(self, before: int) -> list[SessionRecord]:
        """The sessions without activity since an instant, also those without a prompt."""
        rows = self.store.database.query(
            "SELECT id FROM sessions WHERE updated_at < ? ORDER BY updated_at, id", (before,)
        )
        found = (self.store.find(row[0]) for row in rows)
        return [record for record in found if record is not None]

    def delete(self, session_id: str, idle_since: int | None = None) -> bool:
        """
        Delete a session for good; whether it was there, and idle for long enough.

        Args:
            session_id: which.
            idle_since: only if it had no activity since this instant.

        Raises:
            SessionInUseError: a process has it open; the message names it.
        """
        lock = SessionLock(self._directory, session_id)
        try:
            record = self.store.find(session_id)
            if record is None or (idle_since is not None and record.updated_at >= idle_since):
                return False
            with self.store.database.transaction(durable=True) as connection:
                connection.execute(
                    "DELETE FROM large_data WHERE id IN (SELECT large FROM events"
                    " WHERE session_id = ? AND large IS NOT NULL)",
                    (session_id,),
                )
                connection.execute("DELETE FROM events WHERE session_id = ?", (session_id,))
                connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
        finally:
            lock.release()
        return True

    def reclaim(self) -> None:
        """Give the space of what was deleted back to the file system, in small steps."""
        while self.store.database.reclaim(_RECLAIMED_PAGES):
            pass
