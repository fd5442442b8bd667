"""The Python SDK's typed client of version 1 drives the program."""

from __future__ import annotations

from pathlib import Path

import pytest

import term2_acp
from tests.harness.home import Home
from tests.interop.client_process import FOLDER, TOOLS, run_client, tool

pytestmark = pytest.mark.interop

CHECKED = {
    "initialize",
    "agentInfo",
    "loadSession",
    "session/new",
    "permission to edit",
    "no edit before",
    "permission to run",
    "options",
    "session/prompt",
    "agent_thought_chunk",
    "agent_message_chunk",
    "plan",
    "tool_call and tool_call_update",
    "diff",
    "edit",
    "protected edit",
    "output of the shell",
    "shell in the sandbox",
    "turn of a rejected call",
    "permission rejected",
    "nothing ran",
    "failed turn",
    "unknown session",
    "unsupported method",
    "busy session",
    "session/cancel during a model call",
    "session/cancel of a permission",
    "session/prompt after a cancel",
    "a late answer runs nothing",
    "session/list",
    "title and updatedAt",
    "exit at the end of input",
    "name of a tool call",
    "every other member of every update understood",
    "session/load with replay in a new process",
    "texts of the replay",
    "prompt in the replay",
    "session/prompt after a load",
    "session/close",
    "session/resume after a close",
    "complaints of the SDK",
}


def test_the_typed_client_of_version_1_does_a_whole_exchange(home: Home, project: Path) -> None:
    """Turns, permissions, cancels, list, load with replay, resume and close, all typed."""
    script = FOLDER / "python_sdk_client.py"
    report = run_client([tool(TOOLS / "python"), "-W", "error", str(script)], home, project)
    assert report["ok"], report
    assert set(report["checked"]) == CHECKED
    assert report["agent"] == term2_acp.__version__
    assert report["version"] == version_in_requirements("agent-client-protocol")


def version_in_requirements(package: str) -> str:
    """The version of a package in requirements.txt."""
    lines = (FOLDER / "requirements.txt").read_text(encoding="utf-8").splitlines()
    (version,) = [line.removeprefix(f"{package}==") for line in lines if line.startswith(package)]
    return version
