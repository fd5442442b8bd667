"""A client of another project as a subprocess: it drives `term2 acp` and tells how it went."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.harness.home import SOURCE, Home
from tests.harness.process import SERVE

FOLDER = SOURCE / "tests" / "interop"
# What `make interop` installed: the Python SDK and Node.js, and what npm brought.
TOOLS = SOURCE / ".venv-interop" / "bin"
NODE_MODULES = FOLDER / "node_modules"
DEADLINE_S = 90


def run_client(command: Sequence[str], home: Home, project: Path) -> dict[str, Any]:
    """
    Run a client on a project with the server of this tree; its report.

    Raises:
        AssertionError: it was not done in time, or printed something other than a line of
            JSON. Whatever it started is killed.
    """
    with subprocess.Popen(
        [*command, str(project), *SERVE],
        env=home.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    ) as client:
        try:
            output, log = client.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            _kill_group(client.pid)
            output, log = client.communicate()
            raise AssertionError(
                f"the client was not done after {DEADLINE_S} s: {output}{log}"
            ) from None
        _kill_group(client.pid)
    lines = output.splitlines()
    assert len(lines) == 1, f"the client printed {output!r} and on stderr: {log}"
    report: dict[str, Any] = json.loads(lines[0])
    assert report["ok"] is (client.returncode == 0), log
    return report


def tool(path: Path) -> str:
    """
    A program that `make interop` installed, as an argument.

    Raises:
        AssertionError: it is not there.
    """
    assert path.exists(), f"{path.name} is missing; run `make interop`"
    return str(path)


def locked_version(package: str) -> str:
    """The version of an npm package in package-lock.json, by its name in node_modules."""
    lock = json.loads((FOLDER / "package-lock.json").read_text(encoding="utf-8"))
    version: str = lock["packages"][f"node_modules/{package}"]["version"]
    return version


def _kill_group(pid: int) -> None:
    """Kill what is left of the client's process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
