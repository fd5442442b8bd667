"""What has become of a command."""

from __future__ import annotations

import attrs

from sandbox.errors import SetupError


@attrs.frozen
class Result:
    """
    How a command ended.

    Attributes:
        exit_code: what the command's shell returned (128+n if it died of signal n).
        signal: name of the signal that ended the sandbox, ours or one from outside.
        timed_out: the time ran out; everything was killed.
        killed: `Process.kill` was called; everything was killed.
        duration_s: seconds from start to end.
        failure: why the sandbox could not be built; then nothing of the command ran.
        hint: plain words on why the sandbox was probably the reason of a failure.
        restored: protected paths that were changed all the same, put back where possible.
    """

    exit_code: int | None = None
    signal: str | None = None
    timed_out: bool = False
    killed: bool = False
    duration_s: float = 0.0
    failure: SetupError | None = None
    hint: str | None = None
    restored: tuple[str, ...] = ()

    @property
    def setup_error(self) -> str | None:
        """The text of `failure`: reason and remedy, None if the sandbox could be built."""
        return None if self.failure is None else str(self.failure)
