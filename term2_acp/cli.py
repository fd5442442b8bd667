"""The command line: which command runs, and with what (spec section 1)."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from term2_acp import __version__, diagnostics, stdio

USAGE = """\
usage: term2 acp [--provider PROVIDER] [--model MODEL] [--effort EFFORT]
       term2 chat [--provider PROVIDER] [--model MODEL] [--effort EFFORT]
       term2 sessions list | show | export | delete | prune
       term2 doctor [--json]
       term2 completion bash | zsh | fish
       term2 --version | --help

acp         serve the Agent Client Protocol on stdin and stdout
chat        talk with the agent in this terminal, about the current folder
sessions    look after the stored sessions; see term2 sessions --help
doctor      check configuration, provider, sandbox and store; exit status 0 or 1
completion  print a script that completes these words in a shell

  --provider  a provider of the configuration, or offline
  --model     an exact model id, or PROVIDER/MODEL
  --effort    none, minimal, low, medium, high or xhigh
  --json      the report for machines

Diagnostics go to stderr. TERM2_LOG sets the level (debug, info, warning, error),
TERM2_LOG_FILE names a file for them too, TERM2_LOG_FORMAT=json makes them JSON lines.
TERM2_TRACE names a file for all that is said on stdin and stdout, without secrets.
"""
# With a value that shows what is meant.
_FLAGS = {"--provider": "offline", "--model": "PROVIDER/MODEL", "--effort": "high"}
_TAKES = "--provider, --model and --effort"


class UsageError(Exception):
    """The command line is wrong; the message is one line that says how."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # Until the server has something to shut down, a signal is its orderly end.
        signal.signal(number, _end_at_once)
    stdio.make_sure_open()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except UsageError as error:
        sys.stderr.write(f"term2: {error}\n")
        return 1


def _run(arguments: list[str]) -> int:
    """
    One command. Only what it needs is imported, and only once it is known to be run.

    Raises:
        UsageError: there is no such command, or it takes no such argument.
    """
    match arguments:
        case ["--version"]:
            return 0 if stdio.print_whole(f"term2 {__version__}\n") else 1
        case ["--help"] | ["chat" | "doctor" | "completion", "--help"]:
            return 0 if stdio.print_whole(USAGE) else 1
        case ["acp", *rest]:
            flags = parse_flags(rest)
            diagnostics.set_up(os.environ)
            from term2_acp import serve  # noqa: PLC0415

            return serve.run(flags)
        case ["chat", *rest]:
            flags = parse_flags(rest)
            from term2_acp.chat import app  # noqa: PLC0415

            return app.run(flags)
        case ["sessions", *rest]:
            from term2_acp.upkeep import command as upkeep  # noqa: PLC0415

            return upkeep.run(rest)
        case ["doctor"] | ["doctor", "--json"]:
            from term2_acp.doctor import command  # noqa: PLC0415

            return command.run(as_json=len(arguments) > 1)
        case ["doctor", *rest]:
            word = rest[1] if rest[0] == "--json" else rest[0]
            raise UsageError(f"doctor takes nothing but --json, not {word!r}")
        case ["completion", *rest]:
            from term2_acp import completion  # noqa: PLC0415

            if len(rest) != 1 or rest[0] not in completion.SHELLS:
                shells = ", ".join(completion.SHELLS)
                raise UsageError(f"completion takes the name of one shell: {shells}")
            return 0 if stdio.print_whole(completion.script(rest[0])) else 1
        case [word, *_]:
            raise UsageError(f"unknown command {word!r}; try term2 --help")
        case _:
            raise UsageError("a command is missing; try term2 --help")


def parse_flags(arguments: Sequence[str]) -> dict[str, str]:
    """
    The flags of `term2 acp` and `term2 chat` by name.

    Raises:
        UsageError: an unknown option, an argument that is none, a missing value.
    """
    flags: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            raise UsageError(f"unexpected argument {word!r}; there are only the options {_TAKES}")
        if name not in _FLAGS:
            raise UsageError(f"unknown option {name!r}; there are only {_TAKES}")
        if not equals:
            if not rest or rest[0].startswith("-"):
                raise UsageError(f"option {name} needs a value, such as {name} {_FLAGS[name]}")
            value = rest.pop(0)
        if not value:
            raise UsageError(f"option {name} needs a value, such as {name} {_FLAGS[name]}")
        if name in flags:
            raise UsageError(f"option {name} is given twice")
        flags[name] = value
    return flags


def _end_at_once(_number: int, _frame: object) -> None:
    os._exit(0)
