"""The file of the session store: opened, migrated, written in transactions (spec section 10)."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from term2_acp.database_files import (
    check_journal,
    check_locks,
    make_private_file,
    make_private_folder,
)
from term2_acp.database_look import look_at_version
from term2_acp.errors import StoreError, remedy
from term2_acp.schema import SCHEMA_VERSION, NoSessionStoreError, bring_up_to_date

BUSY_TIMEOUT_S = 30.0
"""
How long a write waits for another process, in steps of `_BUSY_STEP_S`.

On a busy machine with a slow disk seconds are nothing unusual, and the alternative is
a turn that fails; a cancel and the end of the process do not wait for it.
"""
_BUSY_STEP_S = 0.2
_MIGRATION_WAIT_S = 1.0
_JOURNAL_BYTES = 16 * 1024 * 1024
_INCREMENTAL = 2  # auto_vacuum
# The statements are right: what they name and cannot find was there.
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
_NO_LOCKS = frozenset(
    {
        sqlite3.SQLITE_IOERR_LOCK,
        sqlite3.SQLITE_IOERR_RDLOCK,
        sqlite3.SQLITE_IOERR_UNLOCK,
        sqlite3.SQLITE_IOERR_SHMLOCK,
        sqlite3.SQLITE_IOERR_SHMMAP,
        sqlite3.SQLITE_IOERR_SHMOPEN,
    }
)


class Database:
    """
    One connection that writes and one that reads, each behind its lock.

    So reading never waits for a writer, of this process or of another. Safe to call
    from any thread.

    Raises:
        StoreError: from every method, when the file cannot be used.
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
        make_private_folder(directory)
        check_journal(self.path)
        # Before SQLite writes into it, which makes its own files with the same mode.
        make_private_file(self.path)
        check_locks(directory)
        version = look_at_version(self.path, BUSY_TIMEOUT_S)
        if version < SCHEMA_VERSION:
            self._create() if version == 0 else self._migrate(version)
        self._writer = self._connect()
        self._writer.execute("PRAGMA journal_mode=WAL")
        self._writer.execute(f"PRAGMA journal_size_limit={_JOURNAL_BYTES}")
        self._writer.execute(f"PRAGMA busy_timeout={int(_BUSY_STEP_S * 1000)}")
        self._reader = self._connect()
        self._reader.execute("PRAGMA query_only=ON")
        self._file = os.stat(self.path)

    def _connect(self, timeout_s: float = BUSY_TIMEOUT_S) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path,
            timeout=timeout_s,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=64,
        )

    def _create(self) -> None:
        with closing(self._connect()) as connection:
            # Counts only before anything is written; deleted sessions give space back.
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("PRAGMA journal_mode=WAL")
            # Two processes may start at once: the loser of the lock finds it done.
            self._change_schema(connection)

    def _migrate(self, version: int) -> None:
        deadline = time.monotonic() + _MIGRATION_WAIT_S
        while not self._migrated_alone():
            # Somebody has it open: perhaps for a moment, or to migrate it as we would.
            if look_at_version(self.path, BUSY_TIMEOUT_S) == SCHEMA_VERSION:
                return
            if time.monotonic() >= deadline:
                raise StoreError(
                    f"the session store {self.path} is of an earlier term2 (schema {version},"
                    f" this one needs {SCHEMA_VERSION}) and another process has it open;"
                    " close the editors that run term2, then start again"
                )

    def _migrated_alone(self) -> bool:
        """Migrate if no other connection is open, of an earlier term2 or of this one."""
        with closing(self._connect(_BUSY_STEP_S)) as connection:
            # Each connection to a database with such a journal holds a lock on it for as
            # long as it is open: with this, a transaction waits until there is none.
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            try:
                self._change_schema(connection)
            except sqlite3.OperationalError as error:
                if not _is_busy(error):
                    raise
                return False
        return True

    @staticmethod
    def _change_schema(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            bring_up_to_date(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def hurry(self) -> None:
        """From now on wait for nobody for long: the process is about to end."""
        self._hurried = True

    def query(
        self, statement: str, arguments: Sequence[object] = (), *, max_bytes: int | None = None
    ) -> list[tuple[Any, ...]]:
        """The rows of a query; those that come after `max_bytes` of texts are left out."""
        with self._read_lock:
            self._check_open()
            try:
                with closing(self._reader.execute(statement, tuple(arguments))) as cursor:
                    return cursor.fetchall() if max_bytes is None else _first(cursor, max_bytes)
            except sqlite3.Error as error:
                raise self._translate(error) from error

    @contextmanager
    def transaction(
        self, *, durable: bool = False, hurried: Callable[[], bool] | None = None
    ) -> Iterator[sqlite3.Connection]:
        """
        Write: all or nothing, and nothing left open, whatever goes wrong inside.

        Args:
            durable: wait until it is on the disk.
            hurried: whether to give up at once while another process writes.
        """
        deadline = time.monotonic() + BUSY_TIMEOUT_S

        def gives_up() -> bool:
            late = time.monotonic() >= deadline
            return late or self._hurried or (hurried is not None and hurried())

        while not self._write_lock.acquire(timeout=_BUSY_STEP_S):
            if gives_up():
                raise StoreError(
                    f"the session store {self.path} is busy with another write; try again"
                )
        try:
            self._check_open()
            if durable:
                self._check_in_place()
            self._begin(gives_up, durable=durable)
            yield self._writer
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
                if not _is_busy(error) or gives_up():
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

    def reclaim(self, pages: int) -> bool:
        """
        Give up to so many free pages back to the file system; whether there are more.

        A store that was made before this was possible keeps its free pages for itself.
        """
        with self.transaction() as connection:
            connection.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
            free = connection.execute("PRAGMA freelist_count").fetchone()[0]
            mode = connection.execute("PRAGMA auto_vacuum").fetchone()[0]
        return bool(free) and mode == _INCREMENTAL

    def close(self) -> None:
        """Close the database; later calls raise `StoreError`."""
        with self._write_lock, self._read_lock:
            if not self._closed:
                self._closed = True
                self._reader.close()
                self._writer.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the session store {self.path} is closed: the agent is about to end")

    def _check_in_place(self) -> None:
        """What is written into a file that has lost its name is found by nobody."""
        try:
            in_place = os.path.samestat(self._file, os.stat(self.path))
        except OSError:
            in_place = False
        if not in_place:
            raise StoreError(
                f"the session store {self.path} was moved or deleted while it is in use;"
                " put it back, or restart the agent to start with an empty one"
            )

    def _translate(self, error: sqlite3.Error) -> StoreError:
        extended = getattr(error, "sqlite_errorcode", 0)
        code = extended & 0xFF
        if isinstance(error, NoSessionStoreError):
            remedy = "it is a database of another program; move it away, it was not changed"
        elif code in _DAMAGED or extended == sqlite3.SQLITE_IOERR_SHORT_READ or _is_text(error):
            remedy = "it is damaged; move it away to start with an empty one, it was not changed"
        elif extended in _NO_LOCKS:
            remedy = "its file system has no locks; set XDG_STATE_HOME to a folder on a local disk"
        elif code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            remedy = "the disk is full or fails; free some space"
        elif code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            remedy = "it cannot be written; make the file and its directory writable for you"
        elif code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            remedy = "another process holds it for too long; try again"
        else:
            remedy = f"SQLite reports {getattr(error, 'sqlite_errorname', type(error).__name__)}"
        return StoreError(f"the session store {self.path} cannot be used: {remedy}")


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _is_text(error: sqlite3.Error) -> bool:
    """Whether a text is not UTF-8: Python's own error, which has no code."""
    return isinstance(error, sqlite3.OperationalError) and not hasattr(error, "sqlite_errorcode")


def _first(cursor: sqlite3.Cursor, max_bytes: int) -> list[tuple[Any, ...]]:
    rows = []
    for row in cursor:
        rows.append(row)
        max_bytes -= sum(len(value) for value in row if isinstance(value, str | bytes))
        if max_bytes <= 0:
            break
    return rows
