"""A sandboxed run as the user and the model are shown it: a terminal, and a bounded report."""

from __future__ import annotations

import signal
from collections.abc import Callable

from term2_acp.agent.ports import (
    ShellResult,
    TerminalContent,
    TextContent,
    ToolContent,
    ToolContext,
    ToolError,
    ToolOutcome,
)
from term2_acp.tools.bounds import OutputBuffer

_KEPT_BYTES = 32 << 10
_KILLED = "SIGKILL"
# A shell tells of a command that a signal ended by this and the number of the signal.
_SIGNALLED = 128


def run_shown(
    what: str,
    command: str,
    timeout_s: float,
    context: ToolContext,
    run: Callable[[Callable[[bytes], None]], ShellResult],
) -> ToolOutcome:
    """
    Run something in a terminal of the call's own, and report how it ended.

    Another status than 0, a signal and the time-out are failures, with the output.

    Args:
        what: what is run, as a noun: "command".
        command: how the terminal names it.
        timeout_s: the time that it has.
        context: of the call.
        run: runs it; gets what takes its output.

    Raises:
        ToolError: it did not run for want of a sandbox.
        Cancelled: the turn was cancelled.
    """
    terminal = context.open_terminal(command)
    kept = OutputBuffer(head_limit=_KEPT_BYTES, tail_limit=_KEPT_BYTES)

    def take(data: bytes) -> None:
        kept.append(terminal.output(data))

    try:
        result = run(take)
    except BaseException:
        # Cancelled, above all: the terminal must not look as if it still ran.
        terminal.finish()
        terminal.exited(None, _KILLED)
        raise
    kept.append(terminal.finish())
    if result.sandbox_error is not None:
        terminal.exited(None, None)
        raise ToolError(f"The {what} did not run: {result.sandbox_error}")
    terminal.exited(result.exit_code, _signal(result))
    report = _report(f"the {what}", result, timeout_s)
    output = kept.text()
    line_break = "" if not output or output.endswith("\n") else "\n"
    content: tuple[ToolContent, ...] = (TerminalContent(terminal.terminal_id),)
    if result.timed_out or result.hint:
        # The terminal tells the user of neither.
        content += (TextContent(report),)
    return ToolOutcome(
        text=f"{output}{line_break}{report}",
        failed=result.timed_out or result.exit_code != 0,
        content=content,
    )


def _signal(result: ShellResult) -> str | None:
    if result.exit_code is None and result.signal is None:
        return _KILLED
    return result.signal


def _report(what: str, result: ShellResult, timeout_s: float) -> str:
    report = f"[{_ending(result, what, timeout_s)}]"
    return f"{report}\n[{result.hint}]" if result.hint else report


def _ending(result: ShellResult, what: str, timeout_s: float) -> str:
    if result.timed_out:
        return f"timed out after {timeout_s} s; {what} and all it started were killed"
    if result.exit_code is None:
        return f"killed by {_signal(result)} after {result.duration_s:.1f} s"
    return f"exit status {_status(result.exit_code)} after {result.duration_s:.1f} s"


def _status(exit_code: int) -> str:
    """Name the signal that a shell, or the sandbox for it, tells of by its status."""
    number = exit_code - _SIGNALLED
    names = {each.value: each.name for each in signal.Signals}
    return f"{exit_code} (that of an end by {names[number]})" if number in names else str(exit_code)
