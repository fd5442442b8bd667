"""
The schema of the session store, as the steps that lead to it (spec section 10).

A step is never changed once it was released: a database of any earlier version is
brought up to date by the steps that it lacks, and a new one by all of them.
"""

from __future__ import annotations

import secrets
import sqlite3

_FIRST = """
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
# Large events leave their row, compressed; `context_from` is where the model's context
# begins. Rows that are there stay as they are: a start must not take minutes.
_SECOND = """
CREATE TABLE large_data (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
ALTER TABLE events ADD COLUMN large INTEGER;
ALTER TABLE sessions ADD COLUMN context_from INTEGER;
"""
_STEPS = (_FIRST, _SECOND)
SCHEMA_VERSION = len(_STEPS)


def version_of(connection: sqlite3.Connection) -> int:
    """
    The version of a database's schema; 0 for an empty one.

    Raises:
        sqlite3.DatabaseError: it is no session store.
    """
    version, tables = connection.execute(
        "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
    ).fetchone()
    if (version == 0) != (tables == 0) or version < 0:
        raise NoSessionStoreError
    return int(version)


class NoSessionStoreError(sqlite3.DatabaseError):
    """A database of some other program."""


def bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Take the steps that a database lacks; inside a transaction, so all or none."""
    version = version_of(connection)
    for step in _STEPS[version:]:
        for statement in step.strip().split(";\n"):
            connection.execute(statement)
    if version == 0:
        connection.execute(
            "INSERT INTO settings VALUES ('cursor_key', ?)", (secrets.token_bytes(32),)
        )
    if version < SCHEMA_VERSION:
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
