"""Checks where diagnostics and the trace go."""

from __future__ import annotations

import os

from term2_acp import diagnostics
from term2_acp.append_file import AppendFile
from term2_acp.doctor.report import Check, Fact, Finding, failed, warning
from term2_acp.trace import VARIABLE


def check() -> Check:
    """Judge the variables for diagnostics; the files that they name are opened."""
    level, kind, log, problems = diagnostics.read(os.environ)
    trace = os.environ.get(VARIABLE, "")
    findings = [warning(problem, "the default is used") for problem in problems]
    findings += [
        finding
        for variable, path in ((diagnostics.FILE, log), (VARIABLE, trace))
        if path
        for finding in _unwritable(variable, path)
    ]
    places = [f"{level} and above on stderr as {kind}"]
    places += [f"in {log}"] if log else []
    places += [f"a wire trace in {trace}"] if trace else []
    return Check(
        "diagnostics",
        ", ".join(places),
        tuple(findings),
        (
            Fact("level", level),
            Fact("format", kind),
            Fact("log_file", log or None),
            Fact("trace_file", trace or None),
        ),
    )


def _unwritable(variable: str, path: str) -> list[Finding]:
    path = os.path.expanduser(path)
    there = os.path.lexists(path)
    try:
        AppendFile(path).close()
        if not there:
            os.unlink(path)
    except OSError as error:
        return [
            failed(
                f"{variable}: {path} cannot be written ({error.strerror})",
                "name a file in a folder that is there and writable for you, or unset it",
            )
        ]
    return []
