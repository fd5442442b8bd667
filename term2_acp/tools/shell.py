"""The shell tool: a command in the sandbox, shown in a terminal."""

from __future__ import annotations

from enum import StrEnum

import attrs

from term2_acp.agent.ports import (
    CallPlan,
    ToolContext,
    ToolError,
    ToolKind,
    ToolOutcome,
)
from term2_acp.tools.parameters import parameter
from term2_acp.tools.running import run_shown
from term2_acp.workspace import Workspace

LARGEST_COMMAND = 100_000
"""The longest command, in bytes; Linux takes no argument of 128 KiB."""


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
        if len(params.command.encode()) > LARGEST_COMMAND:
            raise ToolError(
                f"command is longer than {LARGEST_COMMAND} bytes; write it to a file and run that."
            )
        return CallPlan(title=f"Run `{params.command}`", executes=True)

    def run(self, params: ShellParams, context: ToolContext) -> ToolOutcome:
        """Run it, failed if it ends with another status than 0; see `Tool.run`."""
        return run_shown(
            "command",
            params.command,
            params.timeout_s,
            context,
            lambda take: context.shell.run(
                params.command,
                timeout_s=params.timeout_s,
                cancel=context.cancel,
                on_output=take,
            ),
        )
