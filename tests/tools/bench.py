"""A place to run tools in: a real folder, the real file scope, doubles of shell and terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.ports import (
    AccessMode,
    CallPlan,
    DiffContent,
    FileChange,
    PlanEntry,
    PythonRun,
    Shell,
    ShellResult,
    ToolContext,
    ToolError,
    ToolOutcome,
)
from term2_acp.files.ledger import ReadLedger
from term2_acp.redaction import Redactor
from term2_acp.tools.parameters import parse_arguments
from term2_acp.tools.registry import builtin_tools
from term2_acp.workspace import FileScope, Workspace

TOOLS = {tool.name: tool for tool in builtin_tools()}


@attrs.define
class RecordingTerminal:
    """Keeps what a user would see."""

    command: str
    terminal_id: str = "terminal-1"
    shown: bytearray = attrs.field(factory=bytearray)
    exits: list[tuple[int | None, str | None]] = attrs.field(factory=list)

    def output(self, data: bytes) -> bytes:
        self.shown += data
        return data

    def finish(self) -> bytes:
        return b""

    def exited(self, exit_code: int | None, signal: str | None) -> None:
        self.exits.append((exit_code, signal))


@attrs.define
class ScriptedShell:
    """Prints the given pieces, then ends as it was told to: with a result or by raising."""

    pieces: list[bytes] = attrs.field(factory=list)
    ending: ShellResult | Exception = attrs.field(factory=lambda: ShellResult(exit_code=0))
    ran: list[tuple[str, float]] = attrs.field(factory=list)

    def run(
        self,
        command: str,
        *,
        timeout_s: float,
        cancel: CancelToken,
        on_output: Callable[[bytes], None],
    ) -> ShellResult:
        self.ran.append((command, timeout_s))
        for piece in self.pieces:
            on_output(piece)
        if isinstance(self.ending, Exception):
            raise self.ending
        return self.ending

    def any_running(self) -> bool:
        return False

    def python(self, program: str, channel: int) -> PythonRun:
        raise AssertionError("code is run in the real sandbox only")


@attrs.define
class Bench:
    """One session's workspace `root`, with an `outside` folder next to it."""

    root: Path
    outside: Path
    ledger: ReadLedger = attrs.field(factory=ReadLedger)
    cancel: CancelToken = attrs.field(factory=CancelToken)
    shell: ScriptedShell = attrs.field(factory=ScriptedShell)
    sandbox: Shell | None = None
    """A real shell, in place of the scripted one."""
    terminals: list[RecordingTerminal] = attrs.field(factory=list)
    plans: list[tuple[PlanEntry, ...]] = attrs.field(factory=list)
    nested: list[tuple[str, Any]] = attrs.field(factory=list)
    """The calls that running code made."""
    granted: list[tuple[str, AccessMode]] = attrs.field(factory=list)
    hidden: Path | None = None
    """What no grant covers, as it is with credential stores."""

    @classmethod
    def in_folder(cls, folder: Path) -> Bench:
        real = folder.resolve()
        bench = cls(real / "work", real / "outside")
        bench.root.mkdir()
        bench.outside.mkdir()
        return bench

    @property
    def workspace(self) -> Workspace:
        return Workspace(str(self.root))

    @property
    def files(self) -> FileScope:
        return FileScope(self.workspace, self.ledger, self._allowed)

    def grant(self, path: Path, mode: AccessMode) -> None:
        """Allow what is at or below `path`, outside the workspace."""
        self.granted.append((str(path), mode))

    def write(self, name: str, content: str | bytes) -> Path:
        """Put a file into the workspace, behind the session's back."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def plan(self, tool: str, **arguments: Any) -> CallPlan:
        return TOOLS[tool].plan(self.parse(tool, arguments), self.workspace)

    def run(self, tool: str, **arguments: Any) -> ToolOutcome:
        """Call a tool as the loop does: arguments as JSON, planned before it runs."""
        params = self.parse(tool, arguments)
        TOOLS[tool].plan(params, self.workspace)
        return TOOLS[tool].run(params, self.context())

    def run_cancelled_late(self, tool: str, **arguments: Any) -> ToolOutcome:
        """Call an edit tool whose turn is cancelled once the file has been looked at."""

        def cancel_now(_path: str) -> bool:
            self.cancel.cancel()
            return False

        files = FileScope(self.workspace, self.ledger, self._allowed, cancel_now)
        context = attrs.evolve(self.context(), files=files)
        return TOOLS[tool].run(self.parse(tool, arguments), context)

    def parse(self, tool: str, arguments: dict[str, Any]) -> Any:
        return parse_arguments(TOOLS[tool], json.dumps(arguments))

    def replace(self, name: str, *pairs: tuple[str, str], replace_all: bool = False) -> ToolOutcome:
        replacements = [
            {"search_content": old, "replace_content": new, "replace_all": replace_all}
            for old, new in pairs
        ]
        return self.run("search_replace", path=name, replacements=replacements)

    def context(self) -> ToolContext:
        return ToolContext(
            workspace=self.workspace,
            files=self.files,
            shell=self.sandbox or self.shell,
            cancel=self.cancel,
            open_terminal=self._open_terminal,
            set_plan=self.plans.append,
            redact_file=Redactor({}).file,
            run_nested=self.run_nested,
        )

    def run_nested(self, tool: str, arguments: str, cancel: CancelToken) -> ToolOutcome:
        """Call a tool for a running one; a call that fails is an outcome."""
        cancel.raise_if_cancelled()
        self.nested.append((tool, json.loads(arguments)))
        try:
            return TOOLS[tool].run(parse_arguments(TOOLS[tool], arguments), self.context())
        except ToolError as error:
            return ToolOutcome(str(error), failed=True)

    def names(self, folder: Path | None = None) -> list[str]:
        """What is in a folder, also what starts with a dot."""
        return sorted(path.name for path in (folder or self.root).iterdir())

    def _open_terminal(self, command: str) -> RecordingTerminal:
        self.terminals.append(RecordingTerminal(command))
        return self.terminals[-1]

    def _allowed(self, path: str, mode: AccessMode) -> bool:
        if self.hidden is not None and _is_below(path, str(self.hidden)):
            return False
        return self.workspace.contains(path) or any(
            mode is granted_mode and _is_below(path, granted)
            for granted, granted_mode in self.granted
        )


def change_of(outcome: ToolOutcome) -> FileChange:
    """The one change that an edit shows the user."""
    (content,) = outcome.content
    assert isinstance(content, DiffContent)
    (change,) = content.changes
    return change


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
