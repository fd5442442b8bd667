"""The registry of live sessions: opens, finds, closes and lists them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
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
CLOSE_TIMEOUT_S = 10.0
"""How long a close waits for the turn that it cancelled."""


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
        # Held while sessions are opened one after the other; `_lock` only for look-ups.
        self._opening = threading.Lock()
        self._lock = threading.Lock()
        self._closed = threading.Condition(self._lock)
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
        with self._opening:
            self._check_room()
            store = self._open_store()
            lock = SessionLock(self._directory, session_id)
            try:
                store.create_session(session_id, root)
                record = SessionRecord(session_id, root, None, 0, None, 1)
                return self._add(record, store, lock)
            except BaseException:
                lock.release()
                raise

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
        while True:
            self._wait_closed(session_id, cancel)
            session = self._resume(session_id, cwd, root)
            if session is not None:
                return session

    def _resume(self, session_id: str, cwd: str, root: str) -> Session | None:
        """Open a session; None when a close of it began meanwhile."""
        with self._opening:
            with self._lock:
                entry = self._live.get(session_id)
                if session_id in self._closing:
                    return None
            if entry is not None:
                self._check_cwd(entry.session.cwd, root)
                return entry.session
            store = self._open_store()
            record = store.find(session_id)
            if record is None:
                raise SessionNotFoundError(session_id)
            self._check_cwd(record.cwd, root)
            self._rules.accept(cwd)
            self._check_room()
            lock = SessionLock(self._directory, session_id)
            try:
                # Read again: its last owner may have written since.
                record = store.find(session_id) or record
                return self._add(recover(store, record), store, lock)
            except BaseException:
                lock.release()
                raise

    def start_closing(self, session_id: str) -> Callable[[], None]:
        """
        Cancel a session's turn and refuse its prompts from now on.

        Returns what waits for the turn and finishes the close; it raises
        `InternalError` when the turn did not settle in time.

        Raises:
            SessionNotFoundError: there is no such live session.
        """
        with self._lock:
            entry = self._live.pop(session_id, None)
            if entry is None:
                raise SessionNotFoundError(session_id)
            self._closing[session_id] = entry
        turn = entry.session.start_closing()
        return lambda: self._finish_closing(entry, turn)

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
        """Cancel every turn; the process is about to end."""
        for entry in self._entries():
            entry.session.cancel()

    def cancel_replays(self) -> None:
        """End every replay as well."""
        for entry in self._entries():
            entry.session.closing.cancel()

    def close(self) -> None:
        """Give up the sessions and close the store; after the workers ended."""
        for entry in self._entries():
            entry.session.release()
            entry.lock.release()
        with self._lock:
            self._live.clear()
            self._closing.clear()
        with self._store_lock:
            if self._store is not None:
                self._store.close()

    def _entries(self) -> list[_Entry]:
        with self._lock:
            return [*self._live.values(), *self._closing.values()]

    def _wait_closed(self, session_id: str, cancel: CancelToken) -> None:
        with cancel.on_cancel(self._wake), self._lock:
            self._closed.wait_for(lambda: session_id not in self._closing or cancel.cancelled)
        cancel.raise_if_cancelled()

    def _wake(self) -> None:
        with self._lock:
            self._closed.notify_all()

    def _finish_closing(self, entry: _Entry, turn: Turn | None) -> None:
        settled = entry.session.finish_closing(turn, CLOSE_TIMEOUT_S)
        entry.session.release()
        entry.lock.release()
        with self._lock:
            self._closing.pop(entry.session.session_id, None)
            self._closed.notify_all()
        if not settled:
            raise InternalError(
                "the session was closed, but its turn did not stop within"
                f" {CLOSE_TIMEOUT_S:.0f} s of the cancel"
            )

    def _add(self, record: SessionRecord, store: Store, lock: SessionLock) -> Session:
        session = self._make_session(record, store)
        with self._lock:
            self._live[record.session_id] = _Entry(session, lock)
        return session

    def _check_room(self) -> None:
        with self._lock:
            full = len(self._live) + len(self._closing) >= self._max_sessions
        if full:
            raise TooManySessionsError(self._max_sessions)

    @staticmethod
    def _check_cwd(expected: str, actual: str) -> None:
        if expected != actual:
            raise InvalidParamsError(f"cwd must be the session's own, {expected}")

    def _open_store(self) -> Store:
        with self._store_lock:
            if self._store is None:
                self._store = Store(self._directory)
            return self._store
