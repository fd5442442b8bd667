"""`scripts/interop.sh`: what is missing makes it fail, and is named."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.home import SOURCE

BASICS = ("cat", "cksum", "dirname", "id")
DEADLINE_S = 60


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Path:
    """A checkout with the script and a .venv, and a folder for the machine's programs."""
    for folder in ("scripts", "bin", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(SOURCE / "scripts" / "interop.sh", tmp_path / "scripts")
    for name in BASICS:
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    program(tmp_path / ".venv/bin/python", "echo the tests ran")
    return tmp_path


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run_script(machine: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(machine / "scripts" / "interop.sh")],
        env={"PATH": str(machine / "bin")},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def test_missing_programs_are_named_where_nothing_can_install_them(machine: Path) -> None:
    """Without Node.js and apt nothing is skipped: it fails and says what to install."""
    finished = run_script(machine)
    assert finished.returncode == 1
    assert "missing: nodejs npm" in finished.stderr
    assert "install Node.js 18 or newer" in finished.stderr
    assert finished.stdout == ""


def test_a_missing_program_is_installed_by_apt(machine: Path) -> None:
    """With apt and the rights, only what is missing is installed."""
    program(machine / "bin/npm", "exit 0")
    program(machine / "bin/id", "echo 0")
    program(machine / "bin/env", 'shift; exec "$@"')
    program(machine / "bin/apt-get", 'echo "$@" >&2; exit 1')
    finished = run_script(machine)
    assert "install -y --no-install-recommends nodejs\n" in finished.stderr
    assert finished.returncode == 1


def test_an_old_node_is_refused(machine: Path) -> None:
    """The version that is there is named, and the one that is needed."""
    program(machine / "bin/npm", "exit 0")
    program(machine / "bin/node", 'test "$1" = --version && echo v16.1.0; test "$1" != -e')
    finished = run_script(machine)
    assert finished.returncode == 1
    assert "v16.1.0 is too old" in finished.stderr
    assert finished.stdout == ""


def test_a_missing_environment_is_named(machine: Path) -> None:
    """Without .venv it says which target makes it."""
    shutil.rmtree(machine / ".venv")
    finished = run_script(machine)
    assert finished.returncode == 1
    assert "run: make interop" in finished.stderr
