"""A first look at the file of the session store, which changes nothing (spec section 10)."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from urllib.parse import quote

from term2_acp.database_files import check_whole
from term2_acp.errors import StoreError
from term2_acp.schema import SCHEMA_VERSION, version_of

# Each time somebody else has just written.
_LOOKS = 20


def look_at_version(path: str, timeout_s: float) -> int:
    """
    The version of the schema of the database `path`, 0 for an empty one.

    Args:
        path: a file that is there.
        timeout_s: how long to wait, in seconds, while another process locks it.

    Raises:
        StoreError: it is of a newer term2, or another process changes it all the time.
        sqlite3.DatabaseError: it is damaged, or no session store.
        OSError: it cannot be read.
    """
    for _ in range(_LOOKS):
        before, has_journal = os.stat(path), _has_journal(path)
        try:
            version = _version(path, timeout_s, locked=has_journal)
            failure = None
        except sqlite3.DatabaseError as error:
            failure = error
        # Another process may have written what was read without locks, or have taken away
        # the journal that was to be read.
        is_settled = has_journal or _is_unchanged(before, os.stat(path))
        if is_settled and has_journal == _has_journal(path):
            break
    else:
        # What was read amiss says nothing of a file that is never at rest.
        if failure is not None:
            raise StoreError(
                f"the session store {path} cannot be read while another process"
                " changes it; try again when that is done"
            ) from failure
    if failure is not None:
        raise failure
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"the session store {path} was written by a newer term2"
            f" (schema {version}, this one knows {SCHEMA_VERSION}); update term2"
        )
    return version


def _version(path: str, timeout_s: float, *, locked: bool) -> int:
    """By a connection that cannot change the file or its journal."""
    # Without a journal nothing has to be recovered, and no file of one is to be made.
    uri = f"file:{quote(path)}?mode=ro{'' if locked else '&immutable=1'}"
    with closing(sqlite3.connect(uri, uri=True, timeout=timeout_s)) as connection:
        version = version_of(connection)
    if version <= SCHEMA_VERSION:
        check_whole(path)
    return version


def _has_journal(path: str) -> bool:
    return os.path.exists(f"{path}-wal")


def _is_unchanged(before: os.stat_result, after: os.stat_result) -> bool:
    return os.path.samestat(before, after) and (before.st_size, before.st_mtime_ns) == (
        after.st_size,
        after.st_mtime_ns,
    )
