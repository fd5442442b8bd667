"""`scripts/setup.sh`: what it says on a machine where something is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parents[2] / "scripts" / "setup.sh"
BASICS = ("cat", "cksum", "dirname", "id", "uname")
DEADLINE_S = 60

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the packages are Debian's")


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Path:
    """A checkout with only the script, and a folder for the programs of the machine."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(SETUP, tmp_path / "scripts")
    (tmp_path / "bin").mkdir()
    for name in BASICS:
        link(tmp_path, name, str(shutil.which(name)))
    return tmp_path


def link(machine: Path, name: str, target: str) -> None:
    (machine / "bin" / name).symlink_to(target)


def program(machine: Path, name: str, script: str) -> None:
    """Give the machine a program, written in sh."""
    path = machine / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run_setup(machine: Path, arguments: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(machine / "scripts" / "setup.sh"), *arguments],
        env={"PATH": str(machine / "bin")},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def test_missing_programs_are_named_where_nothing_can_install_them(machine: Path) -> None:
    """Without apt the message names the packages and leaves the way to the user."""
    finished = run_setup(machine)
    assert finished.returncode == 1
    assert "missing: git bubblewrap" in finished.stderr
    assert "package manager of this system" in finished.stderr


def test_the_command_to_run_is_told_without_the_right_to_install(machine: Path) -> None:
    """An ordinary user without sudo is told what to run."""
    (machine / "bin" / "id").unlink()
    program(machine, "id", "echo 1000")
    program(machine, "apt-get", "exit 1")
    finished = run_setup(machine)
    assert finished.returncode == 1
    assert "run: sudo apt-get install git bubblewrap" in finished.stderr


def test_root_installs_what_is_missing(machine: Path) -> None:
    """As root the missing packages go to apt-get, after an update; those there do not."""
    (machine / "bin" / "id").unlink()
    program(machine, "id", "echo 0")
    link(machine, "env", "/usr/bin/env")
    program(machine, "git", "exit 0")
    program(machine, "apt-get", f'echo "$@" >> {machine}/apt.log')
    finished = run_setup(machine)
    log = (machine / "apt.log").read_text().splitlines()
    update, install = (line.split() for line in log)
    assert "update" in update
    assert "install" in install
    assert install[-1] == "bubblewrap"
    assert "git" not in install
    assert "no Python 3.11 or newer" in finished.stderr


def test_an_old_python_is_not_taken(machine: Path) -> None:
    """Without Python 3.11 the message says so, and how another one is named."""
    for name in ("git", "bwrap"):
        program(machine, name, "exit 0")
    program(machine, "python3", "exit 1")
    finished = run_setup(machine)
    assert finished.returncode == 1
    assert "no Python 3.11 or newer" in finished.stderr
    assert "PYTHON=" in finished.stderr


def test_a_python_without_venv_names_the_package(machine: Path) -> None:
    """On Debian `python3` alone cannot make a virtual environment; the package is named."""
    for name in ("git", "bwrap"):
        program(machine, name, "exit 0")
    program(
        machine, "python3", 'case "$2" in *ensurepip*) exit 1;; *print*) echo python3.11;; esac'
    )
    finished = run_setup(machine)
    assert finished.returncode == 1
    assert "cannot make virtual environments" in finished.stderr
    assert "python3-venv" in finished.stderr
