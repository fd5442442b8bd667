"""The read_file tool."""

from __future__ import annotations

import attrs

from term2_acp.agent.ports import (
    Access,
    AccessMode,
    CallPlan,
    Location,
    ToolContext,
    ToolError,
    ToolKind,
    ToolOutcome,
)
from term2_acp.files.errors import file_errors
from term2_acp.files.locks import turn_to_read
from term2_acp.files.text import decode_text
from term2_acp.surrogates import replace_lone_surrogates
from term2_acp.tools.bounds import LARGEST_FILE, cut_note, integer_text, split_ends
from term2_acp.tools.parameters import parameter
from term2_acp.workspace import Workspace

_LAST_LINE = 1 << 31
_BLOCK = 1 << 16


@attrs.frozen
class ReadFileParams:
    """What a model tells read_file."""

    path: str = parameter("The file, relative to the workspace or absolute.")
    start_line: int | None = parameter("First line to read, from 1.", default=None)
    end_line: int | None = parameter("Last line to read, included.", default=None)


class ReadFile:
    """Reads a text file or a range of its lines."""

    name = "read_file"
    description = (
        "Read a text file, or a range of its lines. Long results keep their beginning and "
        "end and say which lines are left out; read those by start_line and end_line."
    )
    kind = ToolKind.READ
    params = ReadFileParams

    def plan(self, params: ReadFileParams, workspace: Workspace) -> CallPlan:
        """Say which file would be read; see `Tool.plan`."""
        path = workspace.resolve_file(params.path)
        return CallPlan(
            title=f"Read {workspace.display(path)}{_range_title(params)}",
            accesses=(Access(path, AccessMode.READ),),
            locations=(Location(path, _line_to_show(params)),),
        )

    def run(self, params: ReadFileParams, context: ToolContext) -> ToolOutcome:
        """Read; see `Tool.run`."""
        path = context.workspace.resolve_file(params.path)
        shown = context.workspace.display(path)
        status = context.files.stat(path)
        with turn_to_read(status.st_size if status else 0, context.cancel):
            data = context.files.read(path, limit=LARGEST_FILE)
            with file_errors("read", shown):
                text = context.redact_file(path, decode_text(data).text)
            report, whole = _report(params, text, shown)
            context.files.ledger.record(path, data, whole=whole)
        return ToolOutcome(replace_lone_surrogates(report))


def _report(params: ReadFileParams, text: str, shown: str) -> tuple[str, bool]:
    """Return what to show, and whether that is the whole file."""
    if params.start_line is None and params.end_line is None:
        bounded = _bounded(text, 1)
        return bounded if text else f"[{shown} is empty]", bounded == text
    total = text.count("\n") + (not text.endswith("\n") and bool(text))
    first = 1 if params.start_line is None else params.start_line
    last = total if params.end_line is None else min(params.end_line, total)
    if not 1 <= first <= total:
        raise ToolError(
            f"start_line {integer_text(first)} is not a line of {shown}, which has {total} lines; "
            "lines count from 1."
        )
    if last < first:
        raise ToolError(
            f"end_line {integer_text(last)} is before start_line {first}; "
            f"{shown} has {total} lines."
        )
    start = _after_breaks(text, first - 1, 0)
    chosen = text[start : _after_breaks(text, last - first + 1, start)].removesuffix("\n")
    bounded = _bounded(chosen, first)
    whole = bounded == chosen and (first, last) == (1, total)
    return f"{bounded}\n[lines {first} to {last} of {total} of {shown}]", whole


def _after_breaks(text: str, count: int, start: int) -> int:
    """Return the position behind so many line breaks from `start` on, at most the end."""
    position = start
    while position < len(text):
        # Blocks are counted much faster than single line breaks are found.
        inside = text.count("\n", position, position + _BLOCK)
        if inside >= count:
            break
        position, count = position + _BLOCK, count - inside
    for _ in range(count):
        position = text.find("\n", position) + 1 or len(text)
    return position


def _bounded(text: str, first: int) -> str:
    """Keep both ends of a text that starts at line `first`, and name the lines left out."""
    ends = split_ends(text)
    if ends is None:
        return text
    begin = first + ends.head.count("\n")
    end = begin + ends.omitted.removesuffix("\n").count("\n")
    what = f"{len(ends.omitted)} characters, lines {begin} to {end},"
    return f"{ends.head}{cut_note(what, ends.head)}{ends.tail}"


def _range_title(params: ReadFileParams) -> str:
    if params.start_line is None and params.end_line is None:
        return ""
    first = 1 if params.start_line is None else params.start_line
    last = "the end" if params.end_line is None else integer_text(params.end_line)
    return f", lines {integer_text(first)} to {last}"


def _line_to_show(params: ReadFileParams) -> int | None:
    """Return the line for an editor to go to; what cannot be one is judged when it runs."""
    line = params.start_line
    return line if line is not None and 1 <= line <= _LAST_LINE else None
