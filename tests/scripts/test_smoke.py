"""`scripts/smoke`, the check for operators: one line of JSON and an exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SMOKE = Path(__file__).resolve().parents[2] / "scripts" / "smoke"
DEADLINE_S = 60


def run_smoke(*arguments: str) -> tuple[int, dict[str, Any]]:
    finished = subprocess.run(
        [sys.executable, str(SMOKE), *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    (line,) = finished.stdout.splitlines()
    return finished.returncode, json.loads(line)


def fake_server(program: str) -> tuple[str, ...]:
    """Arguments that let smoke check a Python program in place of the server."""
    return ("--", sys.executable, "-c", program)


def test_a_working_server_passes() -> None:
    """The report names the version and every check, and the exit status is 0."""
    status, report = run_smoke()
    assert status == 0, report
    assert report["ok"] is True
    assert report["version"]
    assert [
        "protocol version 2",
        "session opened",
        "prompt accepted",
        "turn ended",
        "text streamed",
        "file written",
        "clean exit",
    ] == report["checked"]


def test_a_server_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    """At the deadline the whole process group goes, and the report says so."""
    fifo = tmp_path / "held-open"
    subprocess.run(["mkfifo", str(fifo)], check=True)
    # The server's child holds the fifo open; reading it ends when the child is gone.
    command = f"exec 3<>{fifo}; echo started >&3; sleep 600 & wait"
    with subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE) as reader:
        status, report = run_smoke("--deadline", "1", "--", "sh", "-c", command)
        output, _ = reader.communicate(timeout=DEADLINE_S)
    assert output == b"started\n"
    assert status == 1
    assert "deadline" in report["error"]


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("print('hello')", "not JSON"),
        ("pass", "closed its output"),
        ("import sys; sys.exit('no such option')", "closed its output"),
        ("print('[1]')", "not a JSON-RPC message"),
        ('print(\'{"id": 1, "error": {"code": -32603}}\')', "initialize was refused"),
        ('print(\'{"id": 1, "result": {"protocolVersion": 1}}\')', "protocol version 2"),
        ('print(\'{"id": 1, "result": {}}\')', "protocolVersion"),
    ],
)
def test_a_broken_server_fails_with_the_reason(program: str, error: str) -> None:
    """Whatever comes out of the server, the report is one line that says what was wrong."""
    status, report = run_smoke(*fake_server(program))
    assert status == 1
    assert report["ok"] is False
    assert error in report["error"]


def test_what_the_server_said_on_stderr_is_reported() -> None:
    """The diagnostics of a server that failed are part of the report."""
    _, report = run_smoke(*fake_server("import sys; sys.exit('the store is damaged')"))
    assert "the store is damaged" in report["stderr"]


def test_a_command_that_does_not_exist_fails(tmp_path: Path) -> None:
    """A server that cannot be started is a failure like any other."""
    status, report = run_smoke("--", str(tmp_path / "missing"))
    assert status == 1
    assert "missing" in report["error"]
