"""
A sandbox for shell commands (Linux: bubblewrap, macOS: sandbox-exec); usable on its own.

    policy = Policy.for_workspace(cwd, state_dir=state, session=session_id, hidden=[...])
    process = Process(policy, "make test")          # starts nothing yet
    with cancel.on_cancel(process.kill):            # any thread, any time, never blocks
        result = process.run(timeout_s=120, on_output=show)
    policy.discard()                                # when the session closes

- `Policy.for_workspace(...)` once a session: looks at git and the home once, makes the
  private tmp and home; `policy.python` is the interpreter to use inside,
  `policy.folders.tmp` the host folder seen as /tmp inside. Raises `PolicyError`.
- `Process(policy, command).run(timeout_s=, on_output=) -> Result` never raises for a
  sandbox that cannot be built: `Result.setup_error` says why, and nothing ran.
- `probe(...) -> Availability` builds a real sandbox with the real flags once.
- `sweep(state_dir)` clears up after processes that were killed; `for_workspace` does too.
- `Limits` are those of a command: processes, size of a file, open files.

What it does not do: bound memory or disk; hold the number of processes for root where no
control group can be made (`Availability.remark`); mask sockets that appear while a command
runs; protect what is absent below the top level; let root write in a workspace that belongs
to another user. It was not run on a Mac. docs/sandbox.md has an example and a picture.
"""

from sandbox.errors import PolicyError, SandboxError, SetupError
from sandbox.limits import Limits
from sandbox.policy import Policy
from sandbox.probe import Availability, probe, sweep
from sandbox.process import Process
from sandbox.result import Result

__all__ = [
    "Availability",
    "Limits",
    "Policy",
    "PolicyError",
    "Process",
    "Result",
    "SandboxError",
    "SetupError",
    "probe",
    "sweep",
]
