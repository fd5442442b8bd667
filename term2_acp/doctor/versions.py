"""Tells the versions of what the program runs on."""

from __future__ import annotations

import platform
import re
import sqlite3
import subprocess
import sys
from importlib import metadata

from term2_acp import __version__
from term2_acp.doctor.report import Check, Fact, failed
from term2_acp.shell import sandbox_program

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_TIMEOUT_S = 5.0


def check() -> Check:
    """Every version; a package that is needed and missing has failed."""
    found = {name: _installed(name) for name in _required()}
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
        f" {len(found)} packages",
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


def _required() -> list[str]:
    """What this program needs, by its own metadata; looked up, not imported."""
    try:
        lines = metadata.requires("term2") or []
    except metadata.PackageNotFoundError:
        # Run from its source: what is missing tells of itself.
        return []
    names = [_NAME.match(line) for line in lines if "extra ==" not in line]
    return sorted(name[0] for name in names if name)


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
