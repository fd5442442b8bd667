"""The glob tool: files by the shape of their path."""

from __future__ import annotations

import time
from contextlib import closing

import attrs

from term2_acp.agent.ports import (
    Access,
    AccessMode,
    CallPlan,
    ToolContext,
    ToolError,
    ToolKind,
    ToolOutcome,
)
from term2_acp.files.folder import EntryKind
from term2_acp.tools.bounds import keep_ends
from term2_acp.tools.glob_pattern import GlobPattern
from term2_acp.tools.parameters import parameter
from term2_acp.tools.walking import Found, WalkGaps, is_folder, walk
from term2_acp.workspace import Workspace

_LONGEST_S = 20.0


@attrs.frozen
class GlobParams:
    """What a model tells glob."""

    pattern: str = parameter(
        "Glob relative to path, for example **/*.py. * and ? stay within one folder, ** stands "
        "for any number of folders; [abc] and {a,b} work. A trailing / finds folders only."
    )
    path: str | None = parameter("Folder to search. Default: the workspace.", default=None)
    max_results: int = parameter("Most paths to return.", default=50, minimum=1, maximum=1000)


class Glob:
    """Finds files by name, ignored ones left out."""

    name = "glob"
    description = (
        "Find files by a glob pattern. Returns sorted paths, relative to the workspace. "
        "Folders are listed too, with a trailing slash, unless the pattern has ** in it. "
        "Files ignored by .gitignore and the .git folder are left out."
    )
    kind = ToolKind.SEARCH
    params = GlobParams

    def plan(self, params: GlobParams, workspace: Workspace) -> CallPlan:
        """Say which folder would be read; see `Tool.plan`."""
        GlobPattern.parse("pattern", params.pattern)
        root = workspace.resolve(params.path or ".")
        return CallPlan(
            title=f"Find {params.pattern} in {workspace.display(root)}",
            accesses=(Access(root, AccessMode.READ),),
        )

    def run(self, params: GlobParams, context: ToolContext) -> ToolOutcome:
        """Search; see `Tool.run`."""
        search = _Search(params, context, context.workspace.resolve(params.path or "."))
        return search.run()


class _Stopped(Exception):
    """The search ends early; the text says why."""


@attrs.define
class _Search:
    """One search as it goes."""

    params: GlobParams
    context: ToolContext
    root: str
    pattern: GlobPattern = attrs.field(init=False)
    paths: list[str] = attrs.field(factory=list, init=False)
    gaps: WalkGaps = attrs.field(factory=WalkGaps, init=False)
    deadline: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.deadline = time.monotonic() + _LONGEST_S
        self.pattern = GlobPattern.parse("pattern", self.params.pattern)

    def run(self) -> ToolOutcome:
        """Walk and report."""
        shown = self.context.workspace.display(self.root)
        if not is_folder(self.context, self.root):
            raise ToolError(f"{shown} is a file; glob needs a folder as path.")
        notes: list[str] = []
        try:
            self._collect()
        except _Stopped as reason:
            notes.append(str(reason))
        text = keep_ends("\n".join(self.paths)) if self.paths else self._nothing(shown)
        notes += self.gaps.notes()
        return ToolOutcome("\n".join([text, *(f"[{note}]" for note in notes)]))

    def _collect(self) -> None:
        found = walk(
            self.context.files,
            self.root,
            enter=self.pattern.may_match_below,
            honour_ignores=True,
            check=self._check,
            gaps=self.gaps,
        )
        with closing(found):
            for item in found:
                if not self._is_wanted(item):
                    continue
                if len(self.paths) == self.params.max_results:
                    raise _Stopped(
                        f"cut at {self.params.max_results} paths, there are more; "
                        "narrow the pattern or raise max_results"
                    )
                slash = "/" if item.kind is EntryKind.FOLDER else ""
                self.paths.append(self.context.workspace.display(item.path) + slash)

    def _check(self) -> None:
        self.context.cancel.raise_if_cancelled()
        if time.monotonic() > self.deadline:
            raise _Stopped(f"stopped after {_LONGEST_S:.0f} s; narrow the pattern or path")

    def _is_wanted(self, item: Found) -> bool:
        if not self.pattern.matches(item.parts):
            return False
        if item.kind is EntryKind.FOLDER:
            return self._wants_folders_only() or not self.pattern.any_depth
        if self._wants_folders_only():
            return False
        # A link that leaves what may be read is as if it were not there.
        return item.kind is EntryKind.FILE or self.context.files.leads_to_file(item.path)

    def _wants_folders_only(self) -> bool:
        return self.params.pattern.endswith("/")

    def _nothing(self, shown: str) -> str:
        text = f"Nothing in {shown} matches {self.params.pattern}."
        if "/" not in self.params.pattern:
            text += f" Use **/{self.params.pattern} to look in the folders below as well."
        return text
