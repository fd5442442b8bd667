"""
The protocols that the loop is built on; implementations are handed in by `serve`.

A tool describes a call before it runs (`Tool.plan`), permissions judge that plan,
and the tool then runs with a `ToolContext` whose `files` reaches only what was
granted: a tool cannot forget to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import attrs

if TYPE_CHECKING:
    from term2_acp.agent.cancel import CancelToken
    from term2_acp.agent.model import ModelEvent, ModelRequest
    from term2_acp.workspace import FileScope, Workspace


def nothing_waits() -> None:
    """For who does not care when a provider waits."""


class Provider(Protocol):
    """A model behind a vendor's interface (spec section 2)."""

    name: str

    def stream(
        self,
        request: ModelRequest,
        cancel: CancelToken,
        before_wait: Callable[[], None] = nothing_waits,
    ) -> Generator[ModelEvent, None, None]:
        """
        Ask the model once and yield its events as they arrive.

        `before_wait` is called, on the thread that reads, whenever what was yielded so
        far is all that arrived: events between two calls may be shown together.

        Raises:
            ProviderError: the request failed or the stream broke.
            Cancelled: `cancel` was set; at once, whatever was being waited for.

        What `before_wait` raises comes out as it is.
        """
        ...

    def context_window(self, model: str, cancel: CancelToken) -> int | None:
        """
        The window of a model in tokens as the service itself tells it, if it does.

        Asked once, for a model that neither the catalog nor the configuration
        describes; a failure is None, never an error.

        Raises:
            Cancelled: `cancel` was set.
        """
        ...


class AccessMode(StrEnum):
    """What a call does to a path."""

    READ = "read"
    EDIT = "edit"


@attrs.frozen
class Access:
    """One path that a call reaches: absolute and real (see `Workspace.resolve`)."""

    path: str
    mode: AccessMode


@attrs.frozen
class Location:
    """A place that an editor may follow: absolute path, 1-based line."""

    path: str
    line: int | None = None


@attrs.frozen
class CallPlan:
    """
    What a call would do, told before it does anything.

    `title` may have any length and credentials; it is shown as one short line without.
    """

    title: str
    accesses: tuple[Access, ...] = ()
    # Runs a program: asks every time (spec section 7).
    executes: bool = False
    locations: tuple[Location, ...] = ()


class ToolKind(StrEnum):
    """The category of a tool, in ACP's words."""

    READ = "read"
    SEARCH = "search"
    EDIT = "edit"
    EXECUTE = "execute"
    THINK = "think"
    OTHER = "other"


@attrs.frozen
class TextContent:
    """Text that a call shows the user."""

    text: str


class ChangeKind(StrEnum):
    """What happened to a file."""

    ADD = "add"
    MODIFY = "modify"
    DELETE = "delete"


@attrs.frozen
class FileChange:
    """
    One changed file; of a large one only the changed region, as whole lines.

    Args:
        path: absolute.
        old: its text, without byte order mark; None for a new file.
        new: the text that it has now; None for a deleted file.
        first_line: the line in which both begin.
        left_out: so many characters were too many to be kept; the texts are empty then.
        has_bom: the file begins with a byte order mark in UTF-8.
        is_executable: as its mode says.
    """

    path: str
    old: str | None
    new: str | None
    first_line: int = 1
    left_out: int = 0
    has_bom: bool = False
    is_executable: bool = False

    @property
    def kind(self) -> ChangeKind:
        """The change that the two texts describe."""
        if self.old is None:
            return ChangeKind.ADD
        return ChangeKind.DELETE if self.new is None else ChangeKind.MODIFY


@attrs.frozen
class DiffContent:
    """The files that one call changed."""

    changes: tuple[FileChange, ...]


@attrs.frozen
class TerminalContent:
    """A reference to a terminal opened by `ToolContext.open_terminal`."""

    terminal_id: str


ToolContent = TextContent | DiffContent | TerminalContent


@attrs.frozen
class ToolOutcome:
    """
    How a call ended: `text` for the model, `content` for the user.

    An empty `content` means that the user is shown `text`.
    """

    text: str
    failed: bool = False
    content: tuple[ToolContent, ...] = ()
    locations: tuple[Location, ...] = ()


class ToolError(Exception):
    """The call failed; the message tells the model what was wrong and what would be right."""


@attrs.frozen
class ShellResult:
    """
    How a sandboxed command ended.

    Exactly one of `exit_code` and `signal` is set when the command ran to its own
    end. `sandbox_error` is set when the sandbox could not be built: then nothing
    of the command ran. `hint` says in plain words that the sandbox was probably
    why a command failed.
    """

    exit_code: int | None = None
    signal: str | None = None
    timed_out: bool = False
    duration_s: float = 0.0
    sandbox_error: str | None = None
    hint: str | None = None


class PythonRun(Protocol):
    """One run of Python in the sandbox; made by `Shell.python`, which starts nothing."""

    def run(
        self, *, timeout_s: float, cancel: CancelToken, on_output: Callable[[bytes], None]
    ) -> ShellResult:
        """
        Run it, once, and wait for it; see `Shell.run`.

        Raises:
            Cancelled: after everything that was started was killed.
        """
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Let none of its time pass while the block runs, on any thread."""
        ...


class Shell(Protocol):
    """Runs a command inside the sandbox of one session (spec section 9)."""

    def run(
        self,
        command: str,
        *,
        timeout_s: float,
        cancel: CancelToken,
        on_output: Callable[[bytes], None],
    ) -> ShellResult:
        """
        Run `command` with bash in the workspace and wait for it.

        `on_output` gets stdout and stderr merged, as they come, on the calling
        thread; it may block, and the time-out stands still meanwhile.

        Raises:
            Cancelled: after everything that the command started was killed.
        """
        ...

    def any_running(self) -> bool:
        """
        Whether a command or code runs now, of this or of another session of the process.

        Its sandbox guards the inodes that it has mounted, not what takes their names.
        """
        ...

    def python(self, program: str, channel: int) -> PythonRun:
        """
        Prepare a run of our own Python, isolated from the user's settings and packages.

        `program` is its source text. It inherits the descriptor `channel` and finds its
        number in `sys.argv[1]`; the caller closes it after the run.
        """
        ...


class Terminal(Protocol):
    """An agent-owned terminal as the user sees it."""

    terminal_id: str

    def output(self, data: bytes) -> bytes:
        """
        Show bytes; may block while the client does not read.

        Returns what may be told of what came so far: credentials are replaced, and
        what may be the beginning of one waits for the next bytes or `finish`.
        """
        ...

    def finish(self) -> bytes:
        """Show what waited, and return it."""
        ...

    def exited(self, exit_code: int | None, signal: str | None) -> None:
        """Mark the terminal as ended; once, after `finish`."""
        ...


class PlanPriority(StrEnum):
    """How much an entry of the plan matters."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class PlanStatus(StrEnum):
    """How far an entry of the plan is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


@attrs.frozen
class PlanEntry:
    """One step of the plan that the user is shown."""

    content: str
    priority: PlanPriority
    status: PlanStatus


@attrs.frozen
class ToolContext:
    """What a running call may use."""

    workspace: Workspace
    files: FileScope
    shell: Shell
    cancel: CancelToken
    open_terminal: Callable[[str], Terminal]
    """Open a terminal that shows the given command."""
    set_plan: Callable[[tuple[PlanEntry, ...]], None]
    """Replace the plan that the user is shown."""
    redact_file: Callable[[str, str], str]
    """
    Return the text of a file, given its path and its text, without what the model must not see.

    Only what is recognised by more than the piece that is shown: keys of several lines, and
    the assignments of `.env` files. Line numbers stay as they are.
    """
    run_nested: Callable[[str, str, CancelToken], ToolOutcome]
    """
    Run a call of another tool, given its name and its arguments as JSON text, for this call.

    It is shown, judged and asked on its own, and the outcome is what the model would be told.
    The token ends it; Cancelled is raised then. From one other thread at a time, until the
    call that it is for returns.
    """


class Tool(Protocol):
    """One tool of spec section 7. Stateless: one object serves every session."""

    name: str
    description: str
    kind: ToolKind
    params: type[Any]
    """An attrs class; its fields are the parameters, see `tools.parameters`."""

    def plan(self, params: Any, workspace: Workspace) -> CallPlan:
        """
        Say what the call would do, without side effects and without reading content.

        Raises:
            ToolError: the parameters make no sense.
        """
        ...

    def run(self, params: Any, context: ToolContext) -> ToolOutcome:
        """
        Do it.

        Raises:
            ToolError: it failed, nothing was changed.
            Cancelled: the turn was cancelled.
        """
        ...
