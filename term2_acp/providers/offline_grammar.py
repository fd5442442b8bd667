"""
The grammar of the directive lines that the offline model obeys (spec section 2).

`parse_directives` accepts any text: a line that looks like a directive but is not
well formed becomes a `Malformed` or an `Unknown`, never an exception.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from term2_acp.providers.offline_directives import (
    Code,
    Create,
    Directive,
    Fail,
    Grep,
    Malformed,
    Plan,
    Read,
    Replace,
    Say,
    Shell,
    Sleep,
    Think,
    Unknown,
)

MAX_SLEEP_S = 86_400.0
"""The longest `/sleep`, in seconds: a day, well inside what a wait accepts."""

_BLANKS = " \t"
_DIRECTIVE = re.compile(r"/(?P<name>[A-Za-z][A-Za-z0-9_-]*)(?:[ \t](?P<rest>.*))?", re.DOTALL)
_PATH = re.compile(
    r'[ \t]*(?:"(?P<quoted>[^"]+)"|(?P<word>(?!"|<<)[^ \t]+))(?:[ \t](?P<rest>.*))?', re.DOTALL
)
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+")
_ESCAPE = re.compile(r"\\([nt\\])")
_ESCAPED = {"n": "\n", "t": "\t", "\\": "\\"}
_HEREDOC = "<<END"
_HEREDOC_END = "END"


class _MalformedError(Exception):
    """The argument of a directive is wrong; the message says what."""


def parse_directives(text: str) -> tuple[Directive, ...]:
    """
    Read the directives out of what the user typed, in order.

    Other lines are left out. The lines of a heredoc are never directives, not even
    where the line that opens it is unknown or malformed, or where its `END` is
    missing: then it reaches to the end of the text.
    """
    lines = iter(text.split("\n"))
    directives: list[Directive] = []
    for line in lines:
        match = _DIRECTIVE.fullmatch(line.removesuffix("\r"))
        if match is None:
            continue
        rest = match["rest"] or ""
        directive = _parse_argument(match["name"], rest, lines)
        if isinstance(directive, Unknown | Malformed) and _opens_heredoc(rest):
            _heredoc(lines)
        directives.append(directive)
    return tuple(directives)


def _parse_argument(name: str, rest: str, following: Iterator[str]) -> Directive:
    parser = _PARSERS.get(name)
    if parser is None:
        return Unknown(name)
    try:
        return parser(rest, following)
    except _MalformedError as error:
        return Malformed(name, str(error))


def _read(rest: str, _following: Iterator[str]) -> Read:
    path, extra = _split_path(rest)
    if extra.strip(_BLANKS):
        raise _MalformedError("a PATH of several words goes in double quotes")
    return Read(path)


def _grep(rest: str, _following: Iterator[str]) -> Grep:
    return Grep(_required(rest, "PATTERN"))


def _create(rest: str, following: Iterator[str]) -> Create:
    path, argument = _split_path(rest)
    argument = argument.lstrip(_BLANKS)
    if not argument.startswith("<<"):
        raise _MalformedError("<<TEXT is missing after PATH")
    if argument.rstrip(_BLANKS) == _HEREDOC:
        return Create(path, _whole_heredoc(following))
    return Create(path, _unescape(argument[2:]))


def _replace(rest: str, _following: Iterator[str]) -> Replace:
    path, argument = _split_path(rest)
    old, arrow, new = argument.partition(" => ")
    if not arrow:
        raise _MalformedError("OLD and NEW are separated by ' => '")
    if not old:
        raise _MalformedError("OLD is missing")
    return Replace(path, _unescape(old), _unescape(new))


def _shell(rest: str, _following: Iterator[str]) -> Shell:
    return Shell(_required(rest, "COMMAND"))


def _code(rest: str, following: Iterator[str]) -> Code:
    if rest.strip(_BLANKS) == _HEREDOC:
        return Code(_required(_whole_heredoc(following), "PYTHON"))
    return Code(_unescape(_required(rest, "PYTHON")))


def _plan(rest: str, _following: Iterator[str]) -> Plan:
    entries = tuple(entry for part in rest.split(";") if (entry := part.strip()))
    if not entries:
        raise _MalformedError("the entries are missing")
    return Plan(entries)


def _think(rest: str, _following: Iterator[str]) -> Think:
    return Think(_unescape(_required(rest, "TEXT")))


def _say(rest: str, _following: Iterator[str]) -> Say:
    return Say(_unescape(_required(rest, "TEXT")))


def _sleep(rest: str, _following: Iterator[str]) -> Sleep:
    argument = rest.strip(_BLANKS)
    if not _SECONDS.fullmatch(argument) or not 0 <= float(argument) <= MAX_SLEEP_S:
        raise _MalformedError(f"SECONDS is a number from 0 to {MAX_SLEEP_S:.0f}")
    return Sleep(float(argument))


def _fail(rest: str, _following: Iterator[str]) -> Fail:
    if rest.strip(_BLANKS):
        raise _MalformedError("it takes no argument")
    return Fail()


_PARSERS: dict[str, Callable[[str, Iterator[str]], Directive]] = {
    "read": _read,
    "grep": _grep,
    "create": _create,
    "replace": _replace,
    "shell": _shell,
    "code": _code,
    "plan": _plan,
    "think": _think,
    "say": _say,
    "sleep": _sleep,
    "fail": _fail,
}


def _split_path(rest: str) -> tuple[str, str]:
    """Split PATH from what follows it and one blank."""
    match = _PATH.fullmatch(rest)
    if match is None:
        if rest.strip(_BLANKS):
            raise _MalformedError("PATH is one word, or stands in double quotes")
        raise _MalformedError("PATH is missing")
    return match["quoted"] or match["word"], match["rest"] or ""


def _required(argument: str, name: str) -> str:
    if not argument.strip():
        raise _MalformedError(f"{name} is missing")
    return argument


def _opens_heredoc(rest: str) -> bool:
    """Whether the last word of a line is `<<END`."""
    return rest.replace("\t", " ").rstrip().rpartition(" ")[2] == _HEREDOC


def _whole_heredoc(following: Iterator[str]) -> str:
    body = _heredoc(following)
    if body is None:
        raise _MalformedError("the line END is missing after <<END")
    return body


def _heredoc(following: Iterator[str]) -> str | None:
    """Take the lines up to `END`; None, with everything taken, where there is none."""
    body: list[str] = []
    for line in following:
        if line.removesuffix("\r") == _HEREDOC_END:
            return "\n".join(body)
        body.append(line)
    return None


def _unescape(text: str) -> str:
    """Decode the escapes; any other backslash stands for itself."""
    return _ESCAPE.sub(lambda match: _ESCAPED[match[1]], text)
