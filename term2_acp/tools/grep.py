"""The grep tool: lines by regular expression."""

from __future__ import annotations

import time
from contextlib import closing

import attrs

from term2_acp.agent.ports import (
    Access,
    AccessMode,
    CallPlan,
    ToolContext,
    ToolKind,
    ToolOutcome,
)
from term2_acp.files.errors import FileRefusedError, file_errors
from term2_acp.files.folder import EntryKind
from term2_acp.files.text import decode_text
from term2_acp.surrogates import replace_lone_surrogates
from term2_acp.tools.bounds import LARGEST_FILE, keep_ends
from term2_acp.tools.file_filter import FileFilter
from term2_acp.tools.line_pattern import LinePattern, SlowPatternError
from term2_acp.tools.parameters import parameter
from term2_acp.tools.walking import Found, WalkGaps, is_folder, walk
from term2_acp.workspace import Workspace

_LONGEST_S = 20.0


@attrs.frozen
class GrepParams:
    """What a model tells grep."""

    pattern: str = parameter(
        "Regular expression (Python syntax), matched against each line on its own."
    )
    path: str | None = parameter("File or folder to search. Default: the workspace.", default=None)
    ignore_case: bool = parameter("Match upper and lower case alike.", default=False)
    include: str | None = parameter(
        "Only files that match this glob, for example *.py or src/**/*.{c,h}. Without a slash "
        "it is compared with the file's name, else with the file's path below path.",
        default=None,
    )
    exclude: str | None = parameter(
        "Leave out files and folders that match this glob; compared as include.", default=None
    )
    no_ignore: bool = parameter("Search files ignored by .gitignore too.", default=False)
    max_results: int = parameter("Most lines to return.", default=100, minimum=1, maximum=1000)


class Grep:
    """Finds lines of text files by a regular expression."""

    name = "grep"
    description = (
        "Search text files for a regular expression, line by line. Returns path:line: text, "
        "sorted by path. Files ignored by .gitignore (unless no_ignore), the .git folder, "
        "binary files and symbolic links are left out."
    )
    kind = ToolKind.SEARCH
    params = GrepParams

    def plan(self, params: GrepParams, workspace: Workspace) -> CallPlan:
        """Say what would be read; see `Tool.plan`."""
        _pattern(params)
        _filter(params)
        root = workspace.resolve(params.path or ".")
        return CallPlan(
            title=f"Search for `{params.pattern}` in {workspace.display(root)}",
            accesses=(Access(root, AccessMode.READ),),
        )

    def run(self, params: GrepParams, context: ToolContext) -> ToolOutcome:
        """Search; see `Tool.run`."""
        root = context.workspace.resolve(params.path or ".")
        return _Search(params, context, root, _pattern(params), _filter(params)).run()


class _Stopped(Exception):
    """The search took too long; the text says what to do."""


class _Full(Exception):
    """There are more results than were asked for."""


@attrs.define
class _Search:
    """One search as it goes."""

    params: GrepParams
    context: ToolContext
    root: str
    pattern: LinePattern
    filter: FileFilter
    lines: list[str] = attrs.field(factory=list, init=False)
    left_out: int = attrs.field(default=0, init=False)
    gaps: WalkGaps = attrs.field(factory=WalkGaps, init=False)
    deadline: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.deadline = time.monotonic() + _LONGEST_S

    def run(self) -> ToolOutcome:
        """Search and report; a search that was stopped has failed, with what it had found."""
        notes: list[str] = []
        stopped = False
        try:
            self._search()
        except _Full:
            notes.append(
                f"cut at {self.params.max_results} lines, there are more; "
                "narrow the search or raise max_results"
            )
        except _Stopped as reason:
            stopped = True
            notes.append(str(reason))
        if self.left_out:
            notes.append(f"files left out as too large or not readable: {self.left_out}")
        return ToolOutcome(self._report(notes + self.gaps.notes()), failed=stopped)

    def _search(self) -> None:
        if not is_folder(self.context, self.root):
            shown = self.context.workspace.display(self.root)
            data = self.context.files.read(self.root, limit=LARGEST_FILE)
            with file_errors("search", shown):
                text = decode_text(data).text
            self._search_text(shown, self.context.redact_file(self.root, text))
            return
        found = walk(
            self.context.files,
            self.root,
            enter=self.filter.enters,
            honour_ignores=not self.params.no_ignore,
            check=self._check,
            gaps=self.gaps,
        )
        with closing(found):
            for item in found:
                if item.kind is EntryKind.FILE and self.filter.takes(item.parts):
                    self._search_file(item)

    def _search_file(self, item: Found) -> None:
        try:
            data = item.read(limit=LARGEST_FILE)
        except (OSError, FileRefusedError):
            self.left_out += 1
            return
        try:
            text = decode_text(data).text
        except FileRefusedError:
            # Binary; nobody expects to find lines in it.
            return
        shown = self.context.workspace.display(item.path)
        self._search_text(shown, self.context.redact_file(item.path, text))

    def _search_text(self, shown: str, text: str) -> None:
        try:
            for line in self.pattern.matching_lines(text, self._check):
                if len(self.lines) == self.params.max_results:
                    raise _Full
                self.lines.append(f"{shown}:{line.number}: {replace_lone_surrogates(line.text)}")
        except SlowPatternError as slow:
            raise _Stopped(
                f"stopped: the pattern takes too long on {shown}:{slow.line}; "
                "write it without nested or neighbouring repetitions"
            ) from slow

    def _check(self) -> None:
        self.context.cancel.raise_if_cancelled()
        if time.monotonic() > self.deadline:
            raise _Stopped(
                f"stopped after {_LONGEST_S:.0f} s; narrow the search with path or include"
            )

    def _report(self, notes: list[str]) -> str:
        if self.lines:
            text = keep_ends("\n".join(self.lines))
        else:
            shown = self.context.workspace.display(self.root)
            text = f"No line in {shown} matches {self.params.pattern}."
        return "\n".join([text, *(f"[{note}]" for note in notes)])


def _pattern(params: GrepParams) -> LinePattern:
    return LinePattern.compile(params.pattern, ignore_case=params.ignore_case)


def _filter(params: GrepParams) -> FileFilter:
    return FileFilter.parse(params.include, params.exclude)
