"""
Runs sandboxed commands for the tests as whichever user it was started as.

Reads one JSON object a line on stdin and answers each with one on stdout. It is a
program of its own, so that a test can also kill it.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
from typing import Any

import sandbox
from sandbox.limits import Limits


def serve() -> None:
    """Answer requests until stdin ends."""
    policies: dict[str, sandbox.Policy] = {}
    for line in sys.stdin:
        request = json.loads(line)
        answer = json.dumps(_answer(request, policies))
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


def _answer(request: dict[str, Any], policies: dict[str, sandbox.Policy]) -> dict[str, Any]:
    environ = {**os.environ, **request.get("environ", {})}
    if request["do"] == "probe":
        found = sandbox.probe(environ)
        return {
            "ok": found.ok,
            "reason": found.reason,
            "remedy": found.remedy,
            "remark": found.remark,
        }
    if request["do"] == "sweep":
        sandbox.sweep(request["state"])
        return {}
    if request["do"] == "forget":
        for name in [name for name in policies if name.startswith(request["sessions"])]:
            policies.pop(name).discard()
        return {}
    if request["do"] == "policy":
        try:
            policy = sandbox.Policy.for_workspace(
                request["workspace"],
                state_dir=request["state"],
                session=request["session"],
                hidden=request["hidden"],
                environ=environ,
                limits=Limits(**request["limits"]) if request["limits"] else None,
            )
        except sandbox.PolicyError as error:
            return {"refused": str(error)}
        policies[request["session"]] = policy
        return {"python": policy.python, "tmp": policy.folders.tmp, "home": policy.home}
    return _run(request, policies[request["session"]])


def _run(request: dict[str, Any], policy: sandbox.Policy) -> dict[str, Any]:
    output: list[bytes] = []
    environ = {**os.environ, **request.get("environ", {})}
    process = sandbox.Process(policy, request["command"], environ=environ)

    def take(piece: bytes) -> None:
        output.append(piece)
        if request.get("announce") and not sys.stdout.closed:
            sys.stdout.write(json.dumps({"piece": piece.decode("utf-8", "replace")}) + "\n")
            sys.stdout.flush()

    result = process.run(timeout_s=request["timeout"], on_output=take)
    return {
        "exit_code": result.exit_code,
        "signal": result.signal,
        "timed_out": result.timed_out,
        "killed": result.killed,
        "setup_error": result.setup_error,
        "hint": result.hint,
        "restored": list(result.restored),
        "output": base64.b64encode(b"".join(output)).decode("ascii"),
        "threads": threading.active_count(),
    }


if __name__ == "__main__":
    serve()
