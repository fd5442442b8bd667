"""What the doctor found: values, and their one shape in JSON (see docs/ops.md)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import attrs

FORMAT = 1
"""The number of the JSON shape; it grows when a member changes its meaning or goes away."""


class Status(StrEnum):
    """How a check ended; a report is good unless one has failed."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@attrs.frozen
class Finding:
    """
    One thing that is not as it should be.

    Args:
        message: what it is, on one line.
        remedy: what helps; empty where the message says it.
    """

    status: Status
    message: str
    remedy: str = ""


FactValue = str | int | bool | None


@attrs.frozen
class Fact:
    """A name and a value that a bug report needs; never a secret."""

    name: str
    value: FactValue


@attrs.frozen
class Check:
    """
    One check: a line for people, what is wrong, and facts.

    Args:
        skipped: nothing could be looked at, and that is no fault of its own.
    """

    name: str
    summary: str
    findings: tuple[Finding, ...] = ()
    facts: tuple[Fact, ...] = ()
    skipped: bool = False

    @property
    def status(self) -> Status:
        """The worst of the findings."""
        found = {finding.status for finding in self.findings}
        for status in (Status.FAILED, Status.WARNING):
            if status in found:
                return status
        return Status.SKIPPED if self.skipped else Status.OK


@attrs.frozen
class Report:
    """All checks, in the order in which they were made."""

    version: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return all(check.status != Status.FAILED for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """The value that `term2 doctor --json` prints."""
        return {
            "format": FORMAT,
            "term2": self.version,
            "ok": self.ok,
            "checks": [
                {
                    "name": check.name,
                    "status": str(check.status),
                    "summary": check.summary,
                    "findings": [
                        {
                            "status": str(finding.status),
                            "message": finding.message,
                            "remedy": finding.remedy,
                        }
                        for finding in check.findings
                    ],
                    "facts": {fact.name: fact.value for fact in check.facts},
                }
                for check in self.checks
            ],
        }


def failed(message: str, remedy: str = "") -> Finding:
    """Something that must be mended."""
    return Finding(Status.FAILED, message, remedy)


def warning(message: str, remedy: str = "") -> Finding:
    """Something to know of."""
    return Finding(Status.WARNING, message, remedy)
