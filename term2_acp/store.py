"""The session store: an append-only event log a session (spec section 10)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from term2_acp.database import Database
from term2_acp.errors import StoreError
from term2_acp.eventlog import (
    Compacted,
    Event,
    SessionCreated,
    TitleSet,
    TurnEnded,
    TurnStarted,
)
from term2_acp.eventrows import (
    DamagedRowError,
    event_from_row,
    event_to_row,
    names_of,
    pack,
    unpack,
)
from term2_acp.surrogates import replace_lone_surrogates

if TYPE_CHECKING:
    import sqlite3

_MOVE_AWAY = "move it away to start with an empty one"
# The last instant that RFC 3339 can say: no clock is that wrong, but damage is.
_LAST_INSTANT = 253_402_300_799_999_999
_TEXT = (str, type(None))
_READ_ROWS = 256
_READ_BYTES = 1024 * 1024
_NO_END = 2**62
_RECORD = "id, cwd, title, updated_at, open_turn, created_at, context_from"
_LIST = """
SELECT {record}, 0 FROM sessions
WHERE {conditions} ORDER BY updated_at DESC, id DESC LIMIT ?
"""
_FIND = """
SELECT {record}, (SELECT coalesce(max(seq), 0) FROM events WHERE session_id = sessions.id)
FROM sessions WHERE id = ?
"""
_READ = """
SELECT seq, at, type, data, large FROM events
WHERE session_id = ? AND seq > ? AND seq <= ? {condition} ORDER BY seq LIMIT ?
"""


@attrs.frozen
class SessionRecord:
    """A session as the list knows it; times are microseconds since the epoch."""

    session_id: str
    cwd: str
    title: str | None
    updated_at: int
    # The position of the turn that has no end yet.
    open_turn: int | None = None
    created_at: int = 0
    # The position from which on the log tells the model's context; None for the whole.
    context_from: int | None = None
    last_seq: int = 0


@attrs.frozen
class StoredEvent:
    """
    An event as it is stored: its stable name and JSON text, whether it is known here or not.

    `text` is None where it was kept apart and what is there is damaged.
    """

    seq: int
    at: int
    name: str
    text: str | None


@attrs.frozen
class _Row:
    """An event that is about to be written."""

    seq: int
    event: Event
    name: str
    data: str
    large: bytes | None

    @classmethod
    def of(cls, seq: int, event: Event) -> _Row:
        name, text = event_to_row(event)
        return cls(seq, event, name, *pack(text))


class Store:
    """
    Appends and reads events; safe to call from any thread.

    `sessions` is a projection that is kept in the transaction of the events it comes
    from.

    Raises:
        StoreError: from every method, when the database cannot be used.
    """

    def __init__(self, directory: str) -> None:
        self.database = Database(directory)
        self.path = self.database.path

    def hurry(self) -> None:
        """From now on wait for nobody for long: the process is about to end."""
        self.database.hurry()

    def cursor_key(self) -> bytes:
        """The secret that marks the list cursors made from this store."""
        rows = self.database.query("SELECT value FROM settings WHERE name = 'cursor_key'")
        if not rows or not isinstance(rows[0][0], bytes):
            raise StoreError(
                f"the session store {self.path} is damaged: it has no cursor key; {_MOVE_AWAY}"
            )
        return rows[0][0]

    def create_session(self, session_id: str, cwd: str) -> None:
        """Add a session with its first event."""
        now = time.time_ns() // 1000
        rows = [_Row.of(1, SessionCreated(cwd))]
        with self.database.transaction() as connection:
            connection.execute(
                "INSERT INTO sessions (id, cwd, created_at, updated_at) VALUES (?, ?, ?, ?)",
                (session_id, cwd, now, now),
            )
            _insert(connection, session_id, now, rows)

    def append(
        self,
        session_id: str,
        seq: int,
        events: Sequence[Event],
        hurried: Callable[[], bool] | None = None,
    ) -> None:
        """
        Append events from position `seq` on, all or none.

        Once it returns, they survive a SIGKILL; the start and the end of a turn
        are on the disk as well. `hurried` says, while another process holds the
        database, whether to give up at once.
        """
        durable = any(isinstance(event, TurnStarted | TurnEnded) for event in events)
        now = time.time_ns() // 1000
        # Made before the transaction: what cannot be stored must not hold it open.
        rows = [_Row.of(position, event) for position, event in enumerate(events, seq)]
        with self.database.transaction(durable=durable, hurried=hurried) as connection:
            _insert(connection, session_id, now, rows)
            for row in rows:
                _project(connection, session_id, now, row)

    def read(
        self,
        session_id: str,
        after: int = 0,
        upto: int | None = None,
        kinds: Collection[type[Any]] = (),
    ) -> Iterator[tuple[int, Event]]:
        """
        Yield the events after position `after` up to `upto`; a few are held at a time.

        Args:
            session_id: whose log.
            after: the position before the first.
            upto: the position of the last.
            kinds: only these kinds of events; all if there are none.
        """
        for row in self.rows(session_id, after, upto, names_of(kinds)):
            try:
                event = event_from_row(row.name, row.text)
            except DamagedRowError as error:
                raise self._damaged(str(error), session_id) from error
            if event is not None:
                yield row.seq, event

    def rows(
        self,
        session_id: str,
        after: int = 0,
        upto: int | None = None,
        names: Sequence[str] = (),
    ) -> Iterator[StoredEvent]:
        """Yield the events as they are stored; as `read`, and also those of unknown kinds."""
        condition = f"AND type IN ({', '.join('?' * len(names))})" if names else ""
        statement = _READ.format(condition=condition)
        last = _NO_END if upto is None else upto
        while rows := self.database.query(
            statement, (session_id, after, last, *names, _READ_ROWS), max_bytes=_READ_BYTES
        ):
            for seq, at, name, data, large in rows:
                text = data if large is None else self._large(large)
                if not (type(name) is str and type(text) in _TEXT and _is_instant(at)):
                    raise self._damaged(f"a row that is none (position {seq})", session_id)
                yield StoredEvent(seq, at, name, text)
            after = rows[-1][0]

    def _large(self, large: int) -> str | None:
        rows = self.database.query("SELECT data FROM large_data WHERE id = ?", (large,))
        return unpack(rows[0][0]) if rows else None

    def find(self, session_id: str) -> SessionRecord | None:
        """The record of a session, with its last position."""
        rows = self.database.query(_FIND.format(record=_RECORD), (session_id,))
        return self._record(rows[0]) if rows else None

    def _record(self, row: Sequence[Any]) -> SessionRecord:
        record = SessionRecord(*row)
        positions = (record.open_turn or 0, record.context_from or 0, record.last_seq)
        if not (
            all(type(text) is str for text in (record.session_id, record.cwd, record.title or ""))
            and all(type(position) is int for position in positions)
            and _is_instant(record.updated_at)
            and _is_instant(record.created_at)
        ):
            raise StoreError(
                f"the session store {self.path} is damaged: what it says of session"
                f" {record.session_id!r:.40} cannot be; {_MOVE_AWAY}, it was not changed"
            )
        return record

    def _damaged(self, what: str, session_id: str) -> StoreError:
        return StoreError(
            f"the session store {self.path} is damaged: session {session_id!r} has {what}; nothing"
            " was changed. Delete it with term2 sessions delete (an export as JSON lines saves"
            f" what there is) or, for the whole store, {_MOVE_AWAY}"
        )

    def list_sessions(
        self, cwd: str | None, before: tuple[int, str] | None, limit: int
    ) -> list[SessionRecord]:
        """Sessions that had a prompt, newest activity first, after the key `before`."""
        where = ["prompted"]
        arguments: list[object] = []
        if cwd is not None:
            where.append("cwd = ?")
            arguments.append(cwd)
        if before is not None:
            where.append("(updated_at, id) < (?, ?)")
            arguments += before
        # Only fixed conditions are put in; values are bound.
        statement = _LIST.format(record=_RECORD, conditions=" AND ".join(where))
        return [self._record(row) for row in self.database.query(statement, (*arguments, limit))]

    def close(self) -> None:
        """Close the database; later calls raise `StoreError`."""
        self.database.close()


def _is_instant(value: object) -> bool:
    """SQLite keeps a column to its type only as long as the file is whole."""
    return isinstance(value, int) and 0 <= value <= _LAST_INSTANT


def _insert(
    connection: sqlite3.Connection, session_id: str, now: int, rows: Sequence[_Row]
) -> None:
    connection.executemany(
        "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)",
        [
            (session_id, row.seq, now, row.name, row.data, _set_apart(connection, row.large))
            for row in rows
        ],
    )


def _set_apart(connection: sqlite3.Connection, large: bytes | None) -> int | None:
    if large is None:
        return None
    return connection.execute("INSERT INTO large_data (data) VALUES (?)", (large,)).lastrowid


def _project(connection: sqlite3.Connection, session_id: str, now: int, row: _Row) -> None:
    event = row.event
    if isinstance(event, TurnStarted):
        connection.execute(
            "UPDATE sessions SET prompted = 1, updated_at = ?, open_turn = ? WHERE id = ?",
            (now, row.seq, session_id),
        )
    elif isinstance(event, TurnEnded):
        connection.execute(
            "UPDATE sessions SET updated_at = ?, open_turn = NULL WHERE id = ?",
            (now, session_id),
        )
    elif isinstance(event, TitleSet):
        connection.execute(
            "UPDATE sessions SET title = ? WHERE id = ?",
            (replace_lone_surrogates(event.title), session_id),
        )
    elif isinstance(event, Compacted):
        # The turn that it is in tells its prompt, which the context keeps.
        connection.execute(
            "UPDATE sessions SET context_from = open_turn WHERE id = ?", (session_id,)
        )
