"""The sessions that the server keeps: listed by number, found by number or id, resumed."""

from __future__ import annotations

from collections.abc import Iterator

from term2_acp.chat.client import SessionEntry, read_sessions
from term2_acp.chat.dialogue import Dialogue


class SessionList:
    """
    What was listed last, so that a session can be named by its number in it.

    Args:
        dialogue: asks the server; its current session's folder is the one that is listed.
    """

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._entries: list[SessionEntry] = []
        self._cursor: str | None = None
        self._cwd: str | None = None

    def first_page(self, cwd: str | None) -> list[SessionEntry]:
        """List the latest sessions of a folder, or of all; numbers begin anew."""
        self._cwd = cwd
        self._entries, self._cursor = self._page(None)
        return self._entries

    def next_page(self) -> list[SessionEntry]:
        """List further sessions; all that are listed now."""
        if self._cursor is not None:
            entries, self._cursor = self._page(self._cursor)
            self._entries = [*self._entries, *entries]
        return self._entries

    @property
    def has_more(self) -> bool:
        """Whether there are sessions that were not listed yet."""
        return self._cursor is not None

    def find(self, name: str) -> SessionEntry | None:
        """
        The session of a number in the list, or of an id or its beginning.

        None if there is none, or more than one that begins so.
        """
        if name.isdecimal() and len(name) <= 6:
            if not self._entries:
                self.first_page(self._dialogue.conversation.cwd)
            index = int(name) - 1
            return self._entries[index] if 0 <= index < len(self._entries) else None
        found = [entry for entry in self._all() if entry.session_id.startswith(name)]
        exact = [entry for entry in found if entry.session_id == name]
        if exact:
            return exact[0]
        return found[0] if len(found) == 1 else None

    def _all(self) -> Iterator[SessionEntry]:
        cwd, self._cwd = self._cwd, None
        cursor = None
        try:
            while True:
                entries, cursor = self._page(cursor)
                yield from entries
                if cursor is None:
                    return
        finally:
            self._cwd = cwd

    def _page(self, cursor: str | None) -> tuple[list[SessionEntry], str | None]:
        params: dict[str, str] = {}
        if self._cwd is not None:
            params["cwd"] = self._cwd
        if cursor is not None:
            params["cursor"] = cursor
        return read_sessions(self._dialogue.call("session/list", params))
