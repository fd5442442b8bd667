"""The run_code tool: Python in the sandbox that may call the other tools."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources

import attrs

from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.ports import (
    CallPlan,
    ShellResult,
    ToolContext,
    ToolError,
    ToolKind,
    ToolOutcome,
)
from term2_acp.tools.bounds import safe_line
from term2_acp.tools.code_channel import CodeChannel
from term2_acp.tools.parameters import parameter
from term2_acp.tools.running import run_shown
from term2_acp.workspace import Workspace

TIME_LIMIT_S = 600
"""The code's own time, without that of its calls."""
LARGEST_CODE = 1 << 20
"""The longest code, in characters."""
_PROGRAM = "run_code.py.txt"


@attrs.frozen
class RunCodeParams:
    """What a model tells run_code."""

    code: str = parameter(
        "The Python code. tools.NAME(**parameters) calls another tool and returns its text; a "
        "call that fails raises ToolFailed. Print what you want to see."
    )


class RunCode:
    """
    Runs Python code and reports its output.

    Each call that the code makes is shown, judged and asked on its own; the user's
    approval of the code approves none of them (spec section 7).
    """

    name = "run_code"
    description = (
        "Run Python code in the workspace, in a sandbox without network, with only the standard "
        "library. Use it for many or dependent tool calls at once, or to compute. Returns stdout "
        "and stderr together, beginning and end if there is much."
    )
    kind = ToolKind.EXECUTE
    params = RunCodeParams

    def __init__(self) -> None:
        self._program = resources.files(__package__).joinpath(_PROGRAM).read_text("utf-8")

    def plan(self, params: RunCodeParams, workspace: Workspace) -> CallPlan:  # noqa: ARG002
        """Say what would run; see `Tool.plan`."""
        if not params.code.strip():
            raise ToolError("code is empty; give Python code.")
        if "\0" in params.code:
            raise ToolError("code contains a NUL character; Python cannot take it.")
        if len(params.code) > LARGEST_CODE:
            raise ToolError(f"code is longer than {LARGEST_CODE} characters; write it to a file.")
        return CallPlan(title=f"Run Python: {params.code.lstrip()}", executes=True)

    def run(self, params: RunCodeParams, context: ToolContext) -> ToolOutcome:
        """Run it, failed if it ends with an exception or a status; see `Tool.run`."""
        return run_shown(
            "code",
            safe_line(f"python: {params.code.lstrip()}"),
            TIME_LIMIT_S,
            context,
            lambda take: self._run(params.code, context, take),
        )

    def _run(self, code: str, context: ToolContext, take: Callable[[bytes], None]) -> ShellResult:
        # Ends the code and the call that it may be making, whichever of them ends first.
        over = CancelToken()
        channel = CodeChannel(code)
        python = context.shell.python(self._program, channel.descriptor)

        def call(name: str, arguments: str) -> ToolOutcome:
            if name == self.name:
                return ToolOutcome(f"{name} cannot be called by code.", failed=True)
            over.raise_if_cancelled()
            with python.paused():
                return context.run_nested(name, arguments, over)

        try:
            with context.cancel.on_cancel(over.cancel), channel.serving(call, over.cancel):
                try:
                    return python.run(timeout_s=TIME_LIMIT_S, cancel=over, on_output=take)
                finally:
                    over.cancel()
        finally:
            if channel.failure is not None:
                raise channel.failure
