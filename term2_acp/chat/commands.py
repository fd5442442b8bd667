"""The client's own commands: lines that begin with a colon and a letter."""

from __future__ import annotations

import re

import attrs

# Colons, since a line with a slash is for the agent: the offline model obeys such.
_COMMAND = re.compile(r":([A-Za-z]+)(?:\s+(.*?))?\s*", re.DOTALL)

HELP = """\
What you type is for the agent, unless it begins with a colon and a letter:
  :sessions [all]  list the sessions of this folder, or of every folder
  :resume N|ID     go on with one of them; N is its number in the list
  :new             begin a new session in this folder
  :history         show the whole conversation again
  :thoughts        show thoughts in full, or fold them (Ctrl-T)
  :output [N]      show all of the last tool call, or of the Nth last
  :help            this text
  :quit            leave (Ctrl-D)
To send such a line to the agent, put a space before the colon.
Lines with a slash are for the agent.

Enter sends. Alt-Enter, or a backslash at the end of the line, begins
another line, and pasted text keeps its lines. Up and Down recall earlier
texts, Ctrl-R searches them.
While the agent works, Ctrl-C cancels the turn, and once more leaves.
When it asks, press the number of an answer: nothing is allowed otherwise.
Esc rejects, Ctrl-C cancels the turn."""

NAMES = ("sessions", "resume", "new", "history", "thoughts", "output", "help", "quit")


@attrs.frozen
class Command:
    """
    One command.

    Args:
        name: one of `NAMES`.
        argument: what follows it, "" for nothing.
    """

    name: str
    argument: str


class UnknownCommandError(Exception):
    """The line looks like a command, but is none; the text says what to do."""


def parse_command(line: str) -> Command | None:
    """
    The command that a line is, or None if it is for the agent.

    An unambiguous beginning of a name is enough.

    Raises:
        UnknownCommandError: no command has that name.
    """
    match = _COMMAND.fullmatch(line)
    if match is None:
        return None
    word = match.group(1).lower()
    found = [name for name in NAMES if name == word] or [
        name for name in NAMES if name.startswith(word)
    ]
    if len(found) != 1:
        raise UnknownCommandError(
            f":{word} is no command; :help lists them. To send the line to the agent,"
            " put a space before the colon."
        )
    return Command(found[0], match.group(2) or "")
