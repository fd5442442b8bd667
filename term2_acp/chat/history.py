"""What the user typed before, kept in the state directory (spec section 2)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

import platformdirs
from prompt_toolkit.history import History

MAX_ENTRIES = 1000
_FILE = "chat-history"


class PromptHistory(History):
    """
    Prompts in a file that only the user can read, one JSON string a line.

    What cannot be read or written is left out: history is a convenience.

    Args:
        path: the file; its folder is made when it is needed.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    @classmethod
    def of_user(cls) -> PromptHistory:
        """The history in the program's state directory."""
        return cls(os.path.join(platformdirs.user_state_dir("term2", appauthor=False), _FILE))

    def load_history_strings(self) -> Iterable[str]:
        """The newest first; a file that has grown long is shortened."""
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                lines = file.readlines()
        except OSError:
            return []
        if len(lines) > 2 * MAX_ENTRIES:
            self._shorten(lines[-MAX_ENTRIES:])
        entries = [entry for entry in map(_entry, lines[-MAX_ENTRIES:]) if entry is not None]
        return reversed(entries)

    def store_string(self, string: str) -> None:
        """Add a prompt to the file."""
        line = json.dumps(string) + "\n"
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            self._write(self._path, os.O_APPEND, line)
        except OSError:
            return

    def _shorten(self, lines: list[str]) -> None:
        temporary = f"{self._path}.{os.getpid()}"
        try:
            self._write(temporary, os.O_TRUNC, "".join(lines))
            os.replace(temporary, self._path)
        except OSError:
            return

    @staticmethod
    def _write(path: str, flag: int, text: str) -> None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | flag, 0o600)
        with open(handle, "w", encoding="utf-8") as file:
            # It may be an older file, made with other rights.
            os.fchmod(handle, 0o600)
            file.write(text)


def _entry(line: str) -> str | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, str) else None
