"""The shell tool: a command in the sandbox, shown in a terminal."""

from __future__ import annotations

from enum import StrEnum

import attrs

from term2_acp.agent.ports import (
    CallPlan,
    ShellResult,
    TerminalContent,
    ToolContext,
    ToolError,
    ToolKind,
    ToolOutcome,
)
from term2_acp.tools.bounds import OutputBuffer, title_line
from term2_acp.tools.parameters import parameter
from term2_acp.workspace import Workspace

_KEPT_BYTES = 32 << 10
_KILLED = "SIGKILL"


class SandboxChoice(StrEnum):
    """Where a command runs; both mean the sandbox (spec section 9)."""

    DEFAULT = "default"
    UNSANDBOXED = "unsandboxed"


@attrs.frozen
class ShellParams:
    """What a model tells shell."""

    command: str = parameter("The command, run by bash in the workspace.")
    timeout_s: int = parameter(
        "Seconds until the command and all it started are killed.",
        default=120,
        minimum=1,
        maximum=600,
    )
    sandbox: SandboxChoice = parameter("Leave it at default.", default=SandboxChoice.DEFAULT)


class RunShell:
    """Runs a command and reports its output."""

    name = "shell"
    description = (
        "Run a bash command in the workspace, in a sandbox without network. Standard input is "
        "empty. Returns stdout and stderr together, beginning and end if there is much, and "
        "how the command ended. Prefer the file tools to read, search and edit files."
    )
    kind = ToolKind.EXECUTE
    params = ShellParams

    def plan(self, params: ShellParams, workspace: Workspace) -> CallPlan:  # noqa: ARG002
        """Say what would run; see `Tool.plan`."""
        if not params.command.strip():
            raise ToolError("command is empty; give a bash command.")
        if "\0" in params.command:
            raise ToolError("command contains a NUL character; bash cannot take it.")
        return CallPlan(title=title_line(f"Run `{params.command}`"), executes=True)

    def run(self, params: ShellParams, context: ToolContext) -> ToolOutcome:
        """
        Run it; see `Tool.run`.

        A command that ends with another status than 0, by a signal or by the time-out has
        failed, with its output.
        """
        terminal = context.open_terminal(params.command)
        kept = OutputBuffer(head_limit=_KEPT_BYTES, tail_limit=_KEPT_BYTES)

        def take(data: bytes) -> None:
            kept.append(terminal.output(data))

        try:
            result = context.shell.run(
                params.command,
                timeout_s=params.timeout_s,
                cancel=context.cancel,
                on_output=take,
            )
        except BaseException:
            # Cancelled, above all: the terminal must not look as if the command still ran.
            terminal.finish()
            terminal.exited(None, _KILLED)
            raise
        kept.append(terminal.finish())
        if result.sandbox_error is not None:
            terminal.exited(None, None)
            raise ToolError(f"The command did not run: {result.sandbox_error}")
        terminal.exited(result.exit_code, _signal(result))
        return ToolOutcome(
            text=_report(kept.text(), result, params),
            failed=result.timed_out or result.exit_code != 0,
            content=(TerminalContent(terminal.terminal_id),),
        )


def _signal(result: ShellResult) -> str | None:
    if result.exit_code is None and result.signal is None:
        return _KILLED
    return result.signal


def _report(output: str, result: ShellResult, params: ShellParams) -> str:
    line_break = "" if not output or output.endswith("\n") else "\n"
    report = f"{output}{line_break}[{_ending(result, params)}]"
    return f"{report}\n[{result.hint}]" if result.hint else report


def _ending(result: ShellResult, params: ShellParams) -> str:
    if result.timed_out:
        return f"timed out after {params.timeout_s} s; the command and all it started were killed"
    if result.exit_code is None:
        return f"killed by {_signal(result)} after {result.duration_s:.1f} s"
    return f"exit status {result.exit_code} after {result.duration_s:.1f} s"
