"""Whether a sandbox can be built here; if not, exactly why and what to do."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping

import attrs

from sandbox import control_group, group_place, private, stubs
from sandbox.diagnosis import TRY_BY_HAND
from sandbox.errors import SandboxError
from sandbox.policy import Policy
from sandbox.process import Process
from sandbox.result import Result

_PROBE_TIMEOUT_S = 20.0
_TRUE = "/usr/bin/true" if sys.platform == "darwin" else "/bin/true"


@attrs.frozen
class Availability:
    """
    Whether commands can be run sandboxed.

    Attributes:
        ok: they can.
        reason: why not.
        remedy: what would help, empty if nothing is known.
        remark: what does not hold although they can, empty if all does.
    """

    ok: bool
    reason: str = ""
    remedy: str = ""
    remark: str = ""


def probe(
    environ: Mapping[str, str] | None = None, *, timeout_s: float = _PROBE_TIMEOUT_S
) -> Availability:
    """
    Build a real sandbox, with every flag, in a temporary workspace, and run `true` in it.

    Takes some 20 ms. Nothing is cached: call it once at the start.
    """
    variables = os.environ if environ is None else environ
    try:
        with tempfile.TemporaryDirectory(prefix="sandbox-probe-") as folder:
            workspace = os.path.join(folder, "workspace")
            os.mkdir(workspace)
            policy = Policy.for_workspace(
                workspace, state_dir=os.path.join(folder, "state"), environ=variables
            )
            try:
                result = Process(policy, _TRUE, environ=variables).run(
                    timeout_s=timeout_s, on_output=lambda _: None
                )
            finally:
                policy.discard()
    except (OSError, SandboxError) as error:
        return Availability(False, str(error))
    if result.failure:
        return Availability(False, result.failure.reason, result.failure.remedy)
    if result.exit_code != 0:
        return Availability(False, f"{_TRUE} {_ending(result, timeout_s)}", TRY_BY_HAND)
    return Availability(True, remark=_remark(policy))


def _ending(result: Result, timeout_s: float) -> str:
    if result.timed_out:
        return f"did not end in it within {timeout_s:g} s"
    if result.signal is not None:
        return f"was killed in it by {result.signal}"
    return f"ended in it with exit status {result.exit_code}"


def _remark(policy: Policy) -> str:
    reason = policy.group_place.reason
    return f"the number of processes is not limited for root: {reason}" if reason else ""


def sweep(state_dir: str) -> None:
    """Remove what sessions and calls left behind whose process was killed."""
    stubs.sweep(state_dir)
    private.sweep(state_dir)
    control_group.sweep(group_place.here())
