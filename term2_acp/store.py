"""The session store: one SQLite database, an append-only event log a session (spec section 10)."""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote

import attrs

from term2_acp.errors import StoreError, remedy
from term2_acp.eventlog import (
    Event,
    SessionCreated,
    TitleSet,
    TurnEnded,
    TurnStarted,
    event_from_row,
    event_to_row,
)
from term2_acp.surrogates import replace_lone_surrogates

SCHEMA_VERSION = 1
BUSY_TIMEOUT_S = 5.0
"""How long a write waits for another process, in steps of `_BUSY_STEP_S`."""
_BUSY_STEP_S = 0.2
_READ_ROWS = 256

_SCHEMA = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    cwd TEXT NOT NULL,
    title TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    prompted INTEGER NOT NULL DEFAULT 0,
    open_turn INTEGER
) WITHOUT ROWID;
CREATE INDEX sessions_by_activity ON sessions (updated_at DESC, id DESC) WHERE prompted;
CREATE INDEX sessions_by_cwd ON sessions (cwd, updated_at DESC, id DESC) WHERE prompted;
CREATE TABLE events (
    session_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    type TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (session_id, seq)
) WITHOUT ROWID;
CREATE TABLE settings (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""
_LIST = """
SELECT id, cwd, title, updated_at FROM sessions
WHERE {conditions} ORDER BY updated_at DESC, id DESC LIMIT ?
"""


@attrs.frozen
class SessionRecord:
    """A row of the session list; times are microseconds since the epoch."""

    session_id: str
    cwd: str
    title: str | None
    updated_at: int
    # The position of the turn that has no end yet.
    open_turn: int | None = None
    last_seq: int = 0


class Store:
    """
    Appends and reads events; safe to call from any thread.

    One connection writes and one reads, each behind its lock, so that reading
    never waits for a writer. `sessions` is a projection that is kept in the
    transaction of the events it comes from.

    Raises:
        StoreError: from every method, when the database cannot be used.
    """

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, "sessions.db")
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._closed = False
        self._hurried = False
        try:
            self._open(directory)
        except OSError as error:
            raise StoreError(
                f"the session store {self.path} cannot be opened ({error.strerror});"
                f" {remedy(error)} or set XDG_STATE_HOME"
            ) from error
        except sqlite3.Error as error:
            raise self._translate(error) from error

    def _open(self, directory: str) -> None:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        os.chmod(directory, 0o700)
        # Made here, so that it is private before SQLite writes into it.
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(fd, 0o600)
        finally:
            os.close(fd)
        version = self._look_at_version()
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"the session store {self.path} was written by a newer term2"
                f" (schema {version}, this one knows {SCHEMA_VERSION}); update term2"
            )
        self._writer = self._connect()
        self._writer.execute("PRAGMA journal_mode=WAL")
        self._writer.execute("PRAGMA synchronous=NORMAL")
        if version < SCHEMA_VERSION:
            self._create()
        self._writer.execute(f"PRAGMA busy_timeout={int(_BUSY_STEP_S * 1000)}")
        self._reader = self._connect()
        self._reader.execute("PRAGMA query_only=ON")

    def _look_at_version(self) -> int:
        """The schema's version, by a connection that cannot change the file or its journal."""
        # Without a journal nothing has to be recovered, and no file of one is to be made.
        has_journal = os.path.exists(f"{self.path}-wal")
        uri = f"file:{quote(self.path)}?mode=ro{'' if has_journal else '&immutable=1'}"
        with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S)) as connection:
            version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return version

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=64,
        )

    def hurry(self) -> None:
        """From now on wait for nobody for long: the process is about to end."""
        self._hurried = True

    def _create(self) -> None:
        # Two processes may start at once: the loser of the lock finds it done.
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            if self._writer.execute("PRAGMA user_version").fetchone()[0] == 0:
                for statement in _SCHEMA.strip().split(";\n"):
                    self._writer.execute(statement)
                self._writer.execute(
                    "INSERT INTO settings VALUES ('cursor_key', ?)", (secrets.token_bytes(32),)
                )
                self._writer.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
            self._writer.execute("COMMIT")
        except BaseException:
            self._writer.execute("ROLLBACK")
            raise

    def cursor_key(self) -> bytes:
        """The secret that marks the list cursors made from this store."""
        with self._read_lock:
            rows = self._query("SELECT value FROM settings WHERE name = 'cursor_key'", ())
        if not rows:
            raise StoreError(f"the session store {self.path} is damaged: it has no cursor key")
        return bytes(rows[0][0])

    def create_session(self, session_id: str, cwd: str) -> None:
        """Add a session with its first event."""
        now = time.time_ns() // 1000
        rows = [(1, SessionCreated(cwd), *event_to_row(SessionCreated(cwd)))]
        with self._transaction():
            self._writer.execute(
                "INSERT INTO sessions (id, cwd, created_at, updated_at) VALUES (?, ?, ?, ?)",
                (session_id, cwd, now, now),
            )
            self._insert(session_id, now, rows)

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
        rows = [(at, event, *event_to_row(event)) for at, event in enumerate(events, seq)]
        with self._transaction(durable=durable, hurried=hurried):
            self._insert(session_id, now, rows)
            for position, event, _name, _data in rows:
                self._project(session_id, position, now, event)

    def _insert(
        self, session_id: str, now: int, rows: Sequence[tuple[int, Event, str, str]]
    ) -> None:
        self._writer.executemany(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
            [(session_id, seq, now, name, data) for seq, _event, name, data in rows],
        )

    def _project(self, session_id: str, seq: int, now: int, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self._writer.execute(
                "UPDATE sessions SET prompted = 1, updated_at = ?, open_turn = ? WHERE id = ?",
                (now, seq, session_id),
            )
        elif isinstance(event, TurnEnded):
            self._writer.execute(
                "UPDATE sessions SET updated_at = ?, open_turn = NULL WHERE id = ?",
                (now, session_id),
            )
        elif isinstance(event, TitleSet):
            self._writer.execute(
                "UPDATE sessions SET title = ? WHERE id = ?",
                (replace_lone_surrogates(event.title), session_id),
            )

    def read(
        self, session_id: str, after: int = 0, upto: int | None = None
    ) -> Iterator[tuple[int, Event]]:
        """Yield the events after position `after` up to `upto`; a few rows are held at a time."""
        while True:
            with self._read_lock:
                rows = self._query(
                    "SELECT seq, type, data FROM events"
                    " WHERE session_id = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
                    (session_id, after, upto if upto is not None else 2**62, _READ_ROWS),
                )
            for seq, name, data in rows:
                event = event_from_row(name, data)
                if event is not None:
                    yield seq, event
                after = seq
            if len(rows) < _READ_ROWS:
                return

    def find(self, session_id: str) -> SessionRecord | None:
        """The record of a session, with its last position."""
        with self._read_lock:
            rows = self._query(
                "SELECT id, cwd, title, updated_at, open_turn,"
                " (SELECT coalesce(max(seq), 0) FROM events WHERE session_id = sessions.id)"
                " FROM sessions WHERE id = ?",
                (session_id,),
            )
        return SessionRecord(*rows[0]) if rows else None

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
        statement = _LIST.format(conditions=" AND ".join(where))
        with self._read_lock:
            rows = self._query(statement, (*arguments, limit))
        return [SessionRecord(*row) for row in rows]

    def close(self) -> None:
        """Close the database; later calls raise `StoreError`."""
        with self._write_lock, self._read_lock:
            if not self._closed:
                self._closed = True
                self._reader.close()
                self._writer.close()

    @contextmanager
    def _transaction(
        self, *, durable: bool = False, hurried: Callable[[], bool] | None = None
    ) -> Iterator[None]:
        """All or nothing, and nothing left open, whatever goes wrong inside."""
        deadline = time.monotonic() + BUSY_TIMEOUT_S

        def gives_up() -> bool:
            late = time.monotonic() >= deadline
            return late or self._hurried or (hurried is not None and hurried())

        while not self._write_lock.acquire(timeout=_BUSY_STEP_S):
            if gives_up():
                raise StoreError(f"the session store {self.path} is busy; try again")
        try:
            self._check_open()
            self._begin(gives_up, durable=durable)
            yield
            self._writer.execute("COMMIT")
        except BaseException as error:
            raise self._roll_back(error) from error
        finally:
            self._write_lock.release()

    def _begin(self, gives_up: Callable[[], bool], *, durable: bool) -> None:
        # Only outside a transaction; the commit then waits for the disk or not.
        self._writer.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        while True:
            try:
                self._writer.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or gives_up():
                    raise
            else:
                return

    def _roll_back(self, error: BaseException) -> BaseException:
        """Leave no transaction open, whatever went wrong; the error to raise."""
        try:
            if not self._closed and self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except sqlite3.Error as second:
            return self._translate(second)
        return self._translate(error) if isinstance(error, sqlite3.Error) else error

    def _query(self, statement: str, arguments: Sequence[object]) -> list[tuple[Any, ...]]:
        self._check_open()
        try:
            return self._reader.execute(statement, tuple(arguments)).fetchall()
        except sqlite3.Error as error:
            raise self._translate(error) from error

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the session store {self.path} is closed")

    def _translate(self, error: sqlite3.Error) -> StoreError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            remedy = "it is damaged; move it away to start with an empty one, it was not changed"
        elif code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            remedy = "the disk is full or fails; free some space"
        elif code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            remedy = "it cannot be written; make the file and its directory writable for you"
        elif code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            remedy = "another process holds it for too long; try again"
        else:
            remedy = f"SQLite reports {getattr(error, 'sqlite_errorname', type(error).__name__)}"
        return StoreError(f"the session store {self.path} cannot be used: {remedy}")
