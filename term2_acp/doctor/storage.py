"""Checks the session store without changing it: folder, file, schema, integrity, room."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

import attrs

from term2_acp.database_files import check_locks, check_whole
from term2_acp.doctor.report import Check, Fact, Finding, Status, failed, warning
from term2_acp.errors import remedy
from term2_acp.schema import SCHEMA_VERSION, NoSessionStoreError, version_of

DEADLINE_S = 20.0
"""For the check of integrity, which reads the whole database."""

_PROBE_BYTES = 64 * 1024
_LITTLE_ROOM_BYTES = 256 * 1024 * 1024
_STEPS = 10_000
_MOVE_AWAY = "move it away to start with an empty store, or restore a copy; it was not changed"


@attrs.define
class _Seen:
    """What is known so far; None is what could not be looked at."""

    folder_mode: str | None = None
    file_mode: str | None = None
    size: int | None = None
    journal: int | None = None
    version: int | None = None
    sessions: int | None = None
    integrity: str | None = None
    free: int | None = None


def check(folder: str) -> Check:
    """Look at the store in the state directory `folder`; nothing is made or mended there."""
    path = os.path.join(folder, "sessions.db")
    seen = _Seen()
    findings = [*_folder(folder, seen), *_room(folder, seen)]
    if os.path.lexists(path):
        findings += _file(path, seen)
    facts = (
        Fact("path", path),
        Fact("exists", os.path.lexists(path)),
        Fact("folder_mode", seen.folder_mode),
        Fact("file_mode", seen.file_mode),
        Fact("bytes", seen.size),
        Fact("journal_bytes", seen.journal),
        Fact("schema", seen.version),
        Fact("known_schema", SCHEMA_VERSION),
        Fact("sessions", seen.sessions),
        Fact("integrity", seen.integrity),
        Fact("free_bytes", seen.free),
    )
    is_usable = all(finding.status != Status.FAILED for finding in findings)
    return Check("store", _summary(path, seen, is_usable=is_usable), tuple(findings), facts)


def _summary(path: str, seen: _Seen, *, is_usable: bool) -> str:
    if seen.size is None:
        return f"{path} {'is made with the first session' if is_usable else 'cannot be used'}"
    sessions = "" if seen.sessions is None else f", {seen.sessions} sessions"
    schema = "" if seen.version is None else f", schema {seen.version}"
    return f"{path} ({seen.size / 1e6:.1f} MB{sessions}{schema})"


def _folder(folder: str, seen: _Seen) -> Iterator[Finding]:
    """Whether files can be made there; for a folder that is not there, in what will hold it."""
    nearest = _nearest(folder)
    if not os.path.isdir(nearest):
        yield failed(f"{nearest} is not a directory", "move it away, or set XDG_STATE_HOME")
        return
    if nearest == folder:
        status = os.stat(folder)
        seen.folder_mode = _mode(status)
        yield from _privacy(folder, status, "700")
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(_PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
            check_locks(folder)
        except OSError as error:
            yield failed(
                f"no file can be written in {folder} ({error.strerror})",
                f"{remedy(error)} or set XDG_STATE_HOME",
            )
    elif not os.access(nearest, os.W_OK | os.X_OK):
        yield failed(
            f"{folder} is not there and cannot be made, as {nearest} is not writable",
            "make it writable for you, or set XDG_STATE_HOME",
        )


def _nearest(path: str) -> str:
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _room(folder: str, seen: _Seen) -> Iterator[Finding]:
    try:
        seen.free = shutil.disk_usage(_nearest(folder)).free
    except OSError:
        return
    if seen.free < _LITTLE_ROOM_BYTES:
        yield warning(f"only {seen.free / 1e6:.0f} MB are free there", "free some space")


def _privacy(path: str, status: os.stat_result, right: str) -> Iterator[Finding]:
    if status.st_uid != os.geteuid():
        yield warning(f"{path} belongs to another user (uid {status.st_uid})", f"chown it: {path}")
    if status.st_mode & 0o077:
        yield warning(f"others may use {path} ({_mode(status)})", f"chmod {right} {path}")


def _mode(status: os.stat_result) -> str:
    return f"{stat.S_IMODE(status.st_mode):04o}"


def _file(path: str, seen: _Seen) -> Iterator[Finding]:
    try:
        status = os.stat(path)
    except OSError as error:
        yield failed(f"{path} cannot be looked at ({error.strerror})", remedy(error))
        return
    if not stat.S_ISREG(status.st_mode):
        yield failed(f"{path} is not a file", "move it away")
        return
    seen.file_mode, seen.size = _mode(status), status.st_size
    seen.journal = _size(f"{path}-wal")
    yield from _privacy(path, status, "600")
    if not os.access(path, os.R_OK | os.W_OK):
        yield failed(f"{path} cannot be read and written", f"chmod 600 {path}")
        return
    try:
        finding = _database(path, seen)
        if finding is not None and seen.journal is None and _size(f"{path}-wal") is not None:
            # A server began to write while the file was read as one that nobody writes.
            finding = _database(path, seen)
    except (sqlite3.Error, OSError) as error:
        finding = _fault(path, error)
    if finding is not None:
        yield finding


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def _database(path: str, seen: _Seen) -> Finding | None:
    """
    Read the version and judge the integrity, by a connection that cannot change anything.

    Raises:
        sqlite3.Error: it cannot be read.
        OSError: likewise.
    """
    check_whole(path)
    # Without a journal no server has it open, and no file of one is to be made.
    has_journal = _size(f"{path}-wal") is not None
    uri = f"file:{quote(path)}?mode=ro{'' if has_journal else '&immutable=1'}"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        seen.version = version_of(connection)
        if seen.version > SCHEMA_VERSION:
            return failed(
                f"{path} was written by a newer term2 (schema {seen.version}; this one knows"
                f" {SCHEMA_VERSION})",
                "update term2",
            )
        if seen.version == 0:
            return None
        deadline = time.monotonic() + DEADLINE_S
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            rows = connection.execute("PRAGMA integrity_check(3)").fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            seen.integrity = "not finished"
            return warning(f"the check of integrity was not finished in {DEADLINE_S:g} s")
        seen.integrity = "; ".join(str(row[0]) for row in rows)[:500]
        if seen.integrity != "ok":
            return failed(f"{path} is damaged: {seen.integrity}", _MOVE_AWAY)
        (seen.sessions,) = connection.execute("SELECT count(*) FROM sessions").fetchone()
    return None


def _fault(path: str, error: sqlite3.Error | OSError) -> Finding:
    if isinstance(error, NoSessionStoreError):
        return failed(f"{path} is a database of some other program", "move it away")
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return failed(f"{path} is damaged ({error})", _MOVE_AWAY)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return warning(f"{path} is held by another process", "try again")
    return failed(f"{path} cannot be read ({error})", "make it readable and writable for you")
