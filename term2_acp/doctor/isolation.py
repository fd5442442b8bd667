"""Checks the sandbox: one is built for real, with every flag, and a program is run in it."""

from __future__ import annotations

import os

from term2_acp.doctor.report import Check, Fact, failed, warning
from term2_acp.shell import check_sandbox, sandbox_program


def check() -> Check:
    """Whether commands can be run on this machine."""
    available = check_sandbox()
    program = sandbox_program()
    as_root = os.geteuid() == 0
    facts = (
        Fact("available", available.ok),
        Fact("program", program),
        Fact("reason", available.reason or None),
        Fact("remedy", available.remedy or None),
        Fact("remark", available.remark or None),
        Fact("as_root", as_root),
    )
    if not available.ok:
        finding = failed(available.reason, available.remedy)
        return Check("sandbox", "commands are refused here", (finding,), facts)
    findings = [warning("term2 runs as root", "a normal user is safer")] if as_root else []
    if available.remark:
        findings.append(warning(available.remark, "run term2 as a normal user"))
    return Check("sandbox", f"commands run in a sandbox of {program}", tuple(findings), facts)
