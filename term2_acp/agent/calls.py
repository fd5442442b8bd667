"""Runs the tool calls of a model step: shown, judged, asked, run, ended (spec sections 7 and 8)."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from term2_acp.agent.approval import Approval
from term2_acp.agent.call_events import CallEvents
from term2_acp.agent.cancel import Cancelled, CancelToken
from term2_acp.agent.ports import (
    CallPlan,
    PlanEntry,
    Shell,
    TerminalContent,
    Tool,
    ToolContent,
    ToolContext,
    ToolError,
    ToolKind,
    ToolOutcome,
)
from term2_acp.agent.terminal import LiveTerminal
from term2_acp.agent.turn_log import NestedLog, TurnLog
from term2_acp.dotenv import names_dotenv
from term2_acp.errors import StoreError
from term2_acp.eventlog import (
    PlannedCall,
    TerminalOpened,
    ToolCallShowed,
    ToolCallStarted,
    ToolStatus,
)
from term2_acp.files.ledger import ReadLedger
from term2_acp.identifiers import new_id
from term2_acp.permissions import PermissionClient, Permissions
from term2_acp.redaction import Redactor
from term2_acp.tools.parameters import parse_arguments
from term2_acp.workspace import FileScope, Workspace

__all__ = ["CallRunner", "Surroundings", "TurnLog"]

logger = logging.getLogger(__name__)

_MAX_PARALLEL = 8
_READ_ONLY = frozenset({ToolKind.READ, ToolKind.SEARCH})
_DENIED = (
    "The user denied this call, so it did not run."
    " Do not try it again; ask the user or go on without it."
)
_CANCELLED = "The call was cancelled."
_FAILED = "The tool {} failed inside the agent; its stderr says why."


@attrs.frozen
class Surroundings:
    """What the calls of one session share."""

    session_id: str
    workspace: Workspace
    permissions: Permissions
    ledger: ReadLedger
    shell: Shell
    tools: Mapping[str, Tool]
    client: PermissionClient
    redactor: Redactor


class CallRunner:
    """
    Runs calls for one turn.

    Whatever happens, a call that was created is ended before `run` returns or
    raises. `run` may be used from several threads at once.

    Args:
        surroundings: of the session.
        log: of the turn.
        is_nested: the calls are made by a call that is still running.
    """

    def __init__(
        self, surroundings: Surroundings, log: TurnLog, *, is_nested: bool = False
    ) -> None:
        self._around = surroundings
        self._log = log
        self._is_nested = is_nested
        self._events = CallEvents(
            surroundings.session_id,
            surroundings.workspace.root,
            surroundings.tools,
            surroundings.redactor,
        )
        self._approval = Approval(
            surroundings.client, surroundings.permissions.grants, log, is_nested=is_nested
        )
        # The terminal that a call shows stays when the call is cancelled.
        self._terminals: dict[str, tuple[ToolContent, ...]] = {}

    def as_logged(self, calls: Sequence[PlannedCall]) -> tuple[PlannedCall, ...]:
        """The calls as they are stored and told to the model again: without credentials."""
        return tuple(map(self._events.planned, calls))

    def run_all(self, calls: Sequence[PlannedCall], note: str = "") -> list[bool]:
        """
        Run the calls of one step: side by side when all only read, else in order.

        Returns for each whether it completed. `note` is added to failed results.

        Raises:
            Cancelled: the turn was cancelled; later calls did not start.
        """
        kinds = {tool.kind if (tool := self._tool(call)) else ToolKind.OTHER for call in calls}
        if len(calls) > 1 and kinds <= _READ_ONLY:
            starts = range(0, len(calls), _MAX_PARALLEL)
            parts = [calls[start : start + _MAX_PARALLEL] for start in starts]
            return [done for part in parts for done in self._run_side_by_side(part, note)]
        return [self.run(call, note) for call in calls]

    def _run_side_by_side(self, calls: Sequence[PlannedCall], note: str) -> list[bool]:
        completed: dict[str, bool] = {}
        errors: list[BaseException] = []

        def run(call: PlannedCall) -> None:
            try:
                completed[call.tool_call_id] = self.run(call, note)
            except BaseException as error:  # noqa: BLE001  raised again by the caller
                errors.append(error)

        threads = [
            threading.Thread(target=run, args=(call,), name=f"term2-{call.tool_call_id}")
            for call in calls[1:]
        ]
        started = []
        for thread, call in zip(threads, calls[1:], strict=True):
            try:
                thread.start()
                started.append(thread)
            except RuntimeError:
                # The machine gives no more threads: then one after the other.
                run(call)
        run(calls[0])
        for thread in started:
            thread.join()
        self._log.cancel.raise_if_cancelled()
        if errors:
            raise errors[0]
        return [completed[call.tool_call_id] for call in calls]

    def run(self, call: PlannedCall, note: str = "") -> bool:
        """
        Run one call from its first to its last event; whether it completed.

        Raises:
            Cancelled: the turn was cancelled before or while it ran.
        """
        return not self._outcome(call, note).failed

    def _outcome(self, call: PlannedCall, note: str) -> ToolOutcome:
        self._log.cancel.raise_if_cancelled()
        tool = self._tool(call)
        if tool is None:
            known = ", ".join(sorted(self._around.tools))
            reason = f"There is no tool {self._events.name(call)!r}. The tools are: {known}."
            return self._refuse(call, reason, note)
        try:
            params = parse_arguments(tool, call.arguments)
            plan = tool.plan(params, self._around.workspace)
        except ToolError as error:
            return self._refuse(call, str(error), note, tool)
        except Exception:
            logger.exception("the plan of the tool %s failed", tool.name)
            return self._refuse(call, _FAILED.format(tool.name), note, tool)
        self._log.emit(self._events.created(call, tool, plan))
        try:
            outcome = self._run_judged(call, tool, params, plan)
        except Cancelled:
            shown = self._terminals.get(call.tool_call_id, ())
            self._end(call, ToolStatus.CANCELLED, ToolOutcome(_CANCELLED, content=shown))
            raise
        if outcome.failed:
            self._end(call, ToolStatus.FAILED, outcome, note)
        else:
            self._end(call, ToolStatus.COMPLETED, outcome)
        return outcome

    def _run_judged(
        self, call: PlannedCall, tool: Tool, params: Any, plan: CallPlan
    ) -> ToolOutcome:
        judgement = self._around.permissions.judge(plan)
        if judgement.asks:
            question = self._events.question(call, tool, plan, judgement)
            if not self._approval.ask(question, judgement):
                return ToolOutcome(_DENIED, failed=True)
        self._log.cancel.raise_if_cancelled()
        self._log.emit(ToolCallStarted(call.tool_call_id))
        context = ToolContext(
            workspace=self._around.workspace,
            files=FileScope(
                self._around.workspace, self._around.ledger, judgement.permits, self._in_place
            ),
            shell=self._around.shell,
            cancel=self._log.cancel,
            open_terminal=lambda command: self._open_terminal(call, command),
            set_plan=self._set_plan,
            redact_file=functools.partial(self._redact_file, names_dotenv(call.arguments)),
            run_nested=functools.partial(self._run_nested, call),
        )
        try:
            return tool.run(params, context)
        except ToolError as error:
            return ToolOutcome(str(error), failed=True)
        except (Cancelled, StoreError):
            raise
        except Exception:
            logger.exception("the tool %s failed", tool.name)
            return ToolOutcome(_FAILED.format(tool.name), failed=True)

    def _run_nested(
        self, outer: PlannedCall, name: str, arguments: str, cancel: CancelToken
    ) -> ToolOutcome:
        """Run a call for a running one; see `ToolContext.run_nested`."""
        others = {
            tool: self._around.tools[tool] for tool in self._around.tools if tool != outer.name
        }
        nested = CallRunner(
            attrs.evolve(self._around, tools=others), NestedLog(cancel, self._log), is_nested=True
        )
        call = PlannedCall(new_id("call"), name, arguments)
        outcome = nested._outcome(call, "")
        return attrs.evolve(outcome, text=self._around.redactor.text(outcome.text))

    def _redact_file(self, is_dotenv: bool, path: str, text: str) -> str:
        """Redact the text of a file; see `ToolContext.redact_file`."""
        return self._around.redactor.file(".env" if is_dotenv else path, text)

    def _in_place(self, path: str) -> bool:
        """Whether an edit keeps the inode, which a sandbox that runs now may have mounted."""
        guarded = self._is_nested or self._around.shell.any_running()
        return guarded and self._around.permissions.is_protected(path)

    def _open_terminal(self, call: PlannedCall, command: str) -> LiveTerminal:
        redactor = self._around.redactor
        terminal = LiveTerminal(new_id("term"), self._log.emit, redactor)
        self._terminals[call.tool_call_id] = (TerminalContent(terminal.terminal_id),)
        self._log.emit(
            TerminalOpened(
                terminal.terminal_id, redactor.text(command), self._around.workspace.root
            ),
            ToolCallShowed(call.tool_call_id, (TerminalContent(terminal.terminal_id),)),
        )
        return terminal

    def _set_plan(self, entries: tuple[PlanEntry, ...]) -> None:
        self._log.emit(self._events.plan_updated(entries))

    def _tool(self, call: PlannedCall) -> Tool | None:
        return self._around.tools.get(call.name)

    def _refuse(
        self, call: PlannedCall, reason: str, note: str, tool: Tool | None = None
    ) -> ToolOutcome:
        """A call that cannot run is shown and failed, and the model is told why."""
        self._log.emit(self._events.unplanned(call, tool))
        outcome = ToolOutcome(reason, failed=True)
        self._end(call, ToolStatus.FAILED, outcome, note)
        return outcome

    def _end(
        self, call: PlannedCall, status: ToolStatus, outcome: ToolOutcome, note: str = ""
    ) -> None:
        self._log.emit(self._events.ended(call, status, outcome, note))
