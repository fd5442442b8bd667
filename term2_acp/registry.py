"""The registry of live sessions: opens, finds, closes and lists them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from term2_acp.cursors import CursorSeal
from term2_acp.directories import WorkspaceRules, canonical
from term2_acp.errors import (
    InternalError,
    InvalidParamsError,
    SessionNotFoundError,
    TooManySessionsError,
)
from term2_acp.identifiers import new_id
from term2_acp.ownership import SessionLock
from term2_acp.recovery import recover
from term2_acp.sessions import Session, Turn
from term2_acp.store import SessionRecord, Store

if TYPE_CHECKING:
    from term2_acp.agent.cancel import CancelToken

logger = logging.getLogger(__name__)

PAGE = 50
"""Sessions in one page of the list."""


@attrs.frozen
class _Entry:
    session: Session
    lock: SessionLock


@attrs.frozen
class Page:
    """One page of the list."""

    sessions: tuple[SessionRecord, ...]
    next_cursor: str | None


class SessionRegistry:
    """
    Owns the live sessions of this process.

    `get` and `start_closing` are quick, for the dispatcher; the rest reads or
    writes the store and runs on workers.
    """

    def __init__(
        self,
        directory: str,
        rules: WorkspaceRules,
        make_session: Callable[[SessionRecord, Store], Session],
        max_sessions: int,
    ) -> None:
        self._directory = directory
        self._rules = rules
        self._make_session = make_session
        self._max_sessions = max_sessions
        self._store: Store | None = None
        self._store_lock = threading.Lock()
        # For look-ups only: nobody opens or closes anything under it.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        # Ids that a worker is opening; they count as live already.
        self._opening: set[str] = set()
        self._live: dict[str, _Entry] = {}
        self._closing: dict[str, _Entry] = {}

    def new(self, cwd: str) -> Session:
        """
        Create a session.

        Raises:
            InvalidParamsError: the directory may not be used, and why.
            TooManySessionsError, StoreError
        """
        root = self._rules.accept(cwd)
        session_id = new_id("sess")
        with self._lock:
            self._reserve(session_id)
        with self._opened(session_id) as (store, lock):
            store.create_session(session_id, root)
            record = SessionRecord(session_id, root, None, 0, last_seq=1)
            return self._add(record, store, lock)

    def get(self, session_id: str) -> Session:
        """
        A live session.

        Raises:
            SessionNotFoundError: there is none of that id, or it is being closed.
        """
        with self._lock:
            entry = self._live.get(session_id)
        if entry is None:
            raise SessionNotFoundError(session_id)
        return entry.session

    def cancel(self, session_id: str) -> None:
        """Cancel the turn of a live session; an idle or unknown one is left alone."""
        with self._lock:
            entry = self._live.get(session_id)
        if entry is not None:
            entry.session.cancel()

    def resume(self, session_id: str, cwd: str, cancel: CancelToken) -> Session:
        """
        A live session, or a stored one that is live from now on.

        Raises:
            SessionNotFoundError: it was never stored.
            InvalidParamsError: `cwd` is not the session's.
            SessionInUseError, TooManySessionsError, StoreError
            Cancelled: while a close of it was waited for.
        """
        root = canonical(cwd)
        with cancel.on_cancel(self._wake), self._lock:
            self._changed.wait_for(lambda: not self._is_moving(session_id) or cancel.cancelled)
            cancel.raise_if_cancelled()
            entry = self._live.get(session_id)
            if entry is None:
                self._reserve(session_id)
        if entry is not None:
            self._check_cwd(entry.session.cwd, root)
            return entry.session
        with self._opened(session_id, existing=(cwd, root)) as (store, lock):
            # Read under the lock: its last owner may have written until then.
            record = store.find(session_id)
            if record is None:
                raise SessionNotFoundError(session_id)
            return self._add(recover(store, record), store, lock)

    @contextmanager
    def _opened(
        self, session_id: str, existing: tuple[str, str] | None = None
    ) -> Iterator[tuple[Store, SessionLock]]:
        """The store and the lock for a session that was reserved; both given up on failure."""
        try:
            store = self._open_store()
            if existing is not None:
                self._check_stored(store, session_id, *existing)
            lock = SessionLock(self._directory, session_id)
            try:
                yield store, lock
            except BaseException:
                lock.release()
                raise
        finally:
            with self._lock:
                self._opening.discard(session_id)
                self._changed.notify_all()

    def _check_stored(self, store: Store, session_id: str, cwd: str, root: str) -> None:
        record = store.find(session_id)
        if record is None:
            raise SessionNotFoundError(session_id)
        self._check_cwd(record.cwd, root)
        self._rules.accept(cwd)

    def start_closing(self, session_id: str) -> Callable[[float], None]:
        """
        Cancel a session's turn and refuse its prompts from now on.

        Returns what waits for the turn, for so many seconds, and finishes the close; it
        raises `InternalError` when the turn did not settle in time.

        Raises:
            SessionNotFoundError: there is no such live session.
        """
        with self._lock:
            entry = self._live.pop(session_id, None)
            if entry is None:
                raise SessionNotFoundError(session_id)
            self._closing[session_id] = entry
        turn = entry.session.start_closing()
        return lambda timeout_s: self._finish_closing(entry, turn, timeout_s)

    def list_page(self, cwd: str | None, cursor: str | None) -> Page:
        """
        One page of the sessions that had a prompt, newest activity first.

        Raises:
            InvalidParamsError: the cursor is not of this list.
            StoreError
        """
        root = None if cwd is None else canonical(cwd)
        store = self._open_store()
        seal = CursorSeal(store.cursor_key())
        before = None if cursor is None else seal.open(cursor, root)
        records = store.list_sessions(root, before, PAGE + 1)
        next_cursor = None
        if len(records) > PAGE:
            last = records[PAGE - 1]
            next_cursor = seal.seal((last.updated_at, last.session_id), root)
        return Page(tuple(records[:PAGE]), next_cursor)

    def cancel_turns(self) -> None:
        """Cancel every turn and wait for no other process; this one is about to end."""
        with self._store_lock:
            if self._store is not None:
                self._store.hurry()
        for entry in self._entries():
            entry.session.cancel()

    def cancel_replays(self) -> None:
        """End every replay as well."""
        for entry in self._entries():
            entry.session.closing.cancel()

    def close(self) -> None:
        """Give up the sessions and close the store; after the workers ended."""
        for entry in self._entries():
            _give_up(entry)
        with self._lock:
            self._live.clear()
            self._closing.clear()
        with self._store_lock:
            if self._store is not None:
                self._store.close()

    def _entries(self) -> list[_Entry]:
        with self._lock:
            return [*self._live.values(), *self._closing.values()]

    def _is_moving(self, session_id: str) -> bool:
        return session_id in self._closing or session_id in self._opening

    def _wake(self) -> None:
        with self._lock:
            self._changed.notify_all()

    def _reserve(self, session_id: str) -> None:
        """Count a session that is going to be opened; called under the lock."""
        taken = len(self._live) + len(self._closing) + len(self._opening)
        if taken >= self._max_sessions:
            raise TooManySessionsError(self._max_sessions)
        self._opening.add(session_id)

    def _finish_closing(self, entry: _Entry, turn: Turn | None, timeout_s: float) -> None:
        settled = entry.session.finish_closing(turn, timeout_s)
        _give_up(entry)
        with self._lock:
            self._closing.pop(entry.session.session_id, None)
            self._changed.notify_all()
        if not settled:
            raise InternalError(
                "the session was closed, but its turn did not stop within"
                f" {timeout_s:.0f} s of the cancel; it can do nothing more in this session"
            )

    def _add(self, record: SessionRecord, store: Store, lock: SessionLock) -> Session:
        session = self._make_session(record, store)
        with self._lock:
            self._live[record.session_id] = _Entry(session, lock)
        return session

    @staticmethod
    def _check_cwd(expected: str, actual: str) -> None:
        if expected != actual:
            raise InvalidParamsError(f"cwd must be the session's own, {expected}")

    def _open_store(self) -> Store:
        with self._store_lock:
            if self._store is None:
                self._store = Store(self._directory)
            return self._store


def _give_up(entry: _Entry) -> None:
    """Release what a session holds; a failure of one part does not keep the other."""
    try:
        entry.session.release()
    except Exception:
        logger.exception("session %s could not be cleaned up", entry.session.session_id)
    entry.lock.release()
