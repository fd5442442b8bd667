"""The report for people: a line a check, and under it what is wrong and what helps."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from term2_acp.doctor.report import Check, Report, Status

_LABELS = {
    Status.OK: ("ok", "32"),
    Status.WARNING: ("warning", "33"),
    Status.FAILED: ("FAILED", "31"),
    Status.SKIPPED: ("skipped", "2"),
}
_INDENT = " " * 25
_NARROWEST = 50


def table(report: Report, *, width: int, colour: bool) -> str:
    """The whole text; `width` is in characters."""
    lines = [f"term2 {report.version} doctor", ""]
    for check in report.checks:
        lines += _check(check, max(width, _NARROWEST), colour=colour)
    counts = [sum(c.status == status for c in report.checks) for status in Status]
    said = ", ".join(
        f"{count} {status}" for count, status in zip(counts, Status, strict=True) if count
    )
    lines += ["", f"{len(report.checks)} checks: {said}."]
    return "\n".join(lines) + "\n"


def _check(check: Check, width: int, *, colour: bool) -> Iterator[str]:
    label, code = _LABELS[check.status]
    first = f"  {label:<8} {check.name:<14}"
    text = _wrapped(check.summary, width, first=first)
    if colour:
        text = text.replace(label, f"\033[{code}m{label}\033[0m", 1)
    yield text
    for finding in check.findings:
        yield _wrapped(finding.message, width, first=f"{_INDENT}! ")
        if finding.remedy:
            yield _wrapped(finding.remedy, width, first=f"{_INDENT}> ")


def _wrapped(text: str, width: int, *, first: str) -> str:
    return textwrap.fill(
        printable(text),
        width=width,
        initial_indent=first,
        subsequent_indent=_INDENT + ("  " if first.startswith(_INDENT) else ""),
        break_long_words=False,
        break_on_hyphens=False,
    )


def printable(text: str) -> str:
    """A text without what would move a terminal's cursor; names of files may have it."""
    return "".join(c if c.isprintable() else " " if c == "\n" else repr(c)[1:-1] for c in text)
