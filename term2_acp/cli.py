"""The command line: `term2 acp`, `--version`, `--help` (spec section 1)."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence

from term2_acp import __version__, stdio
from term2_acp.diagnostics import StderrHandler

USAGE = """\
usage: term2 acp [--provider PROVIDER] [--model MODEL] [--effort EFFORT]
       term2 --version | --help

acp   serve the Agent Client Protocol on stdin and stdout

  --provider  a provider of the configuration, or offline
  --model     an exact model id, or PROVIDER/MODEL
  --effort    none, minimal, low, medium, high or xhigh

Diagnostics go to stderr; TERM2_LOG sets the level (debug, info, warning, error).
"""
_FLAGS = ("--provider", "--model", "--effort")
_LEVELS = ("debug", "info", "warning", "error", "critical")


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
        if arguments == ["--version"]:
            sys.stdout.write(f"term2 {__version__}\n")
            return 0
        if arguments == ["--help"]:
            sys.stdout.write(USAGE)
            return 0
        if not arguments or arguments[0] != "acp":
            what = f"unknown command {arguments[0]!r}" if arguments else "a command is missing"
            raise UsageError(f"{what}; try term2 --help")
        flags = parse_flags(arguments[1:])
    except UsageError as error:
        sys.stderr.write(f"term2: {error}\n")
        return 1
    _set_up_logging()
    # Only what a command needs is imported, and only once it is known to be run.
    from term2_acp import serve  # noqa: PLC0415

    return serve.run(flags)


def parse_flags(arguments: Sequence[str]) -> dict[str, str]:
    """
    The flags of `term2 acp` by name.

    Raises:
        UsageError: an unknown option, an argument that is none, a missing value.
    """
    flags: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            raise UsageError(f"unexpected argument {word!r}; try term2 --help")
        if name not in _FLAGS:
            raise UsageError(f"unknown option {name!r}; try term2 --help")
        if not equals:
            if not rest or rest[0].startswith("-"):
                raise UsageError(f"option {name} needs a value")
            value = rest.pop(0)
        if not value:
            raise UsageError(f"option {name} needs a value")
        if name in flags:
            raise UsageError(f"option {name} is given twice")
        flags[name] = value
    return flags


def _end_at_once(_number: int, _frame: object) -> None:
    os._exit(0)


def _set_up_logging() -> None:
    level = os.environ.get("TERM2_LOG", "warning").lower()
    known = level in _LEVELS
    logging.basicConfig(
        handlers=[StderrHandler()],
        level=level.upper() if known else "WARNING",
        format="term2: %(levelname)s: %(message)s",
    )
    # A broken stderr must not take the server down or fill it with tracebacks.
    logging.raiseExceptions = False
    if not known:
        logging.getLogger(__name__).warning(
            "TERM2_LOG must be one of %s, not %r", ", ".join(_LEVELS), level
        )
