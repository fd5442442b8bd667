"""Tells the versions of what the program runs on."""

from __future__ import annotations

import platform
import sqlite3
import subprocess
import sys
from importlib import metadata

from term2_acp import __version__
from term2_acp.doctor.report import Check, Fact, failed
from term2_acp.shell import sandbox_program

PACKAGES = (
    "anthropic",
    "attrs",
    "cattrs",
    "httpcore2",
    "httpx2",
    "jsonrpcserver",
    "openai",
    "pathspec",
    "platformdirs",
    "regex",
)
"""What the program needs; looked up, not imported."""

_TIMEOUT_S = 5.0


def check() -> Check:
    """Every version; one that is missing has failed."""
    found = {name: _installed(name) for name in PACKAGES}
    python = platform.python_version()
    bubblewrap = _bubblewrap()
    findings = tuple(
        failed(f"the package {name} is not installed", "install term2 again")
        for name, version in found.items()
        if version is None
    )
    return Check(
        "versions",
        f"Python {python}, SQLite {sqlite3.sqlite_version}, {bubblewrap or 'no bubblewrap'},"
        f" openai {found['openai']}, anthropic {found['anthropic']}",
        findings,
        (
            Fact("term2", __version__),
            Fact("python", python),
            Fact("python_path", sys.executable),
            Fact("sqlite", sqlite3.sqlite_version),
            Fact("bubblewrap", bubblewrap),
            Fact("system", platform.platform()),
            *(Fact(name, version) for name, version in found.items()),
        ),
    )


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _bubblewrap() -> str | None:
    """What `bwrap --version` says; None if there is none that works."""
    program = sandbox_program()
    if program is None:
        return None
    try:
        said = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return said.decode(errors="replace").strip()[:100] or None
