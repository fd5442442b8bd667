"""`make demo`: what a newcomer sees, and that it notices when something is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "scripts" / "demo.py"
DEADLINE_S = 100


def run_demo(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(DEMO)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env={**os.environ, **environment},
        check=False,
    )


def test_the_demo_shows_a_whole_exchange() -> None:
    """Both directions are shown from initialize to idle, and every check is ok."""
    finished = run_demo()
    assert finished.returncode == 0, finished.stdout + finished.stderr
    lines = finished.stdout.splitlines()
    assert any(line.startswith("-->") and '"initialize"' in line for line in lines)
    assert any(line.startswith("<--") and "session/request_permission" in line for line in lines)
    assert any(line.startswith("<--") and '"end_turn"' in line for line in lines)
    assert "FAILED" not in finished.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox of Linux is taken away")
def test_the_demo_fails_without_a_sandbox(tmp_path: Path) -> None:
    """Where the command cannot run, the summary says so and the exit status is 1."""
    finished = run_demo(PATH=str(tmp_path))
    assert finished.returncode == 1
    assert "FAILED  the command wrote into the project" in finished.stdout
    assert "ok      greeter.py was edited" in finished.stdout
