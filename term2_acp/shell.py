"""The shell port on top of the sandbox package: one per session (spec section 9)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from sandbox import Policy, PolicyError, Process
from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.ports import ShellResult

logger = logging.getLogger(__name__)


class SandboxedShell:
    """
    Runs commands of one session in its sandbox; an `agent.ports.Shell`.

    The policy is made when the session starts and never again from what the
    workspace says later. Without one nothing runs, and the reason is told.
    """

    def __init__(
        self, workspace: str, *, session_id: str, state_dir: str, hidden: Sequence[str]
    ) -> None:
        self._policy: Policy | None = None
        self._reason = ""
        try:
            self._policy = Policy.for_workspace(
                workspace, state_dir=state_dir, session=session_id, hidden=hidden
            )
        except PolicyError as error:
            self._reason = str(error)
        except OSError as error:
            self._reason = f"the session's private folders cannot be made: {error.strerror}"
        if self._reason:
            logger.warning("session %s has no sandbox: %s", session_id, self._reason)

    def run(
        self,
        command: str,
        *,
        timeout_s: float,
        cancel: CancelToken,
        on_output: Callable[[bytes], None],
    ) -> ShellResult:
        """Run a command and wait for it; see `agent.ports.Shell`."""
        cancel.raise_if_cancelled()
        if self._policy is None:
            return ShellResult(sandbox_error=self._reason)
        process = Process(self._policy, command)
        with cancel.on_cancel(process.kill):
            result = process.run(timeout_s=timeout_s, on_output=on_output)
        cancel.raise_if_cancelled()
        return ShellResult(
            exit_code=result.exit_code,
            signal=result.signal,
            timed_out=result.timed_out,
            duration_s=result.duration_s,
            sandbox_error=result.setup_error,
            hint=result.hint,
        )

    def close(self) -> None:
        """Remove the session's private folders; after its turn has ended."""
        if self._policy is not None:
            self._policy.discard()
