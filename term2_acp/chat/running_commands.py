"""Carries out the client's own commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from term2_acp.chat.commands import HELP, Command
from term2_acp.chat.dialogue import Dialogue
from term2_acp.chat.faults import Leave
from term2_acp.chat.session_list import SessionList
from term2_acp.chat.views import View


class CommandRunner:
    """
    Runs commands between turns.

    Args:
        dialogue: whose session is changed.
        view: who shows what comes of it.
    """

    def __init__(self, dialogue: Dialogue, view: View) -> None:
        self._dialogue = dialogue
        self._view = view
        self._sessions = SessionList(dialogue)
        self._commands: Mapping[str, Callable[[str], None]] = {
            "sessions": self._list,
            "resume": self._resume,
            "new": self._new,
            "history": self._history,
            "thoughts": self._thoughts,
            "output": self._output,
            "help": lambda _argument: view.say(HELP),
            "quit": self._quit,
        }

    def run(self, command: Command) -> None:
        """
        Run a command.

        Raises:
            RequestRefusedError: the server said no.
            Leave: the user wants to leave.
        """
        self._commands[command.name](command.argument)

    def _list(self, argument: str) -> None:
        if argument not in ("", "all", "more"):
            self._view.complain(":sessions takes nothing, all or more")
            return
        if argument == "more":
            entries = self._sessions.next_page()
        else:
            cwd = self._dialogue.conversation.cwd
            entries = self._sessions.first_page(None if argument else cwd)
        if not entries:
            self._view.say("no sessions yet" if argument else "no sessions in this folder yet")
            return
        self._view.show_sessions(entries, self._dialogue.conversation.session_id)
        more = "; :sessions more shows older ones" if self._sessions.has_more else ""
        self._view.say(f":resume N goes on with one{more}")

    def _resume(self, argument: str) -> None:
        if not argument:
            self._view.complain(":resume needs a number of the list (:sessions), or an id")
            return
        entry = self._sessions.find(argument)
        if entry is None:
            self._view.complain(f"there is no session {argument}; :sessions lists them")
            return
        if entry.session_id == self._dialogue.conversation.session_id:
            self._view.say("that session is open already; :history shows it")
            return
        self._dialogue.resume(entry.session_id, entry.cwd)
        self._dialogue.conversation.title = entry.title
        self._view.replay(self._dialogue.conversation, everything=False)
        self._view.greet(self._dialogue.conversation)

    def _new(self, _argument: str) -> None:
        self._dialogue.open_new(self._dialogue.conversation.cwd)
        self._view.greet(self._dialogue.conversation)

    def _history(self, _argument: str) -> None:
        self._view.replay(self._dialogue.conversation, everything=True)

    def _thoughts(self, _argument: str) -> None:
        self._view.toggle_thoughts(self._dialogue.conversation)

    def _output(self, argument: str) -> None:
        number = argument or "1"
        if not number.isdecimal() or len(number) > 6:
            self._view.complain(":output takes a number: 1 is the last tool call")
            return
        self._view.show_call(self._dialogue.conversation, int(number))

    def _quit(self, _argument: str) -> None:
        raise Leave(0)
