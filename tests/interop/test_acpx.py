"""acpx, the headless command-line client of version 1, drives the program."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.home import Home
from tests.harness.process import SERVE
from tests.harness.processes import processes_with, wait_until_gone
from tests.interop.client_process import NODE_MODULES, TOOLS, locked_version, tool

pytestmark = pytest.mark.interop

DEADLINE_S = 60
DENIED = 5
"""acpx's exit status when it could not ask anyone."""


class Acpx:
    """
    The command line of acpx in a project.

    Each command is a process of its own; what keeps a session and its agent between them is
    a background process of acpx, which is ended with whatever else is left by `end`.
    """

    def __init__(self, home: Home, project: Path) -> None:
        self.home = home
        self.project = project
        self._program = [tool(TOOLS / "node"), tool(NODE_MODULES / ".bin" / "acpx")]
        self._folder = home.path / ".acpx"
        self._folder.mkdir()
        # It makes them outside of the home, and leaves them.
        self._socket_folders: set[Path] = set()
        settings = {"defaultAgent": "term2", "agents": {"term2": {"argv": list(SERVE)}}}
        (self._folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command; its output is JSON lines, its messages are in them too."""
        return subprocess.Popen(
            [*self._program, "--format", "json", "--json-strict", *arguments],
            cwd=self.project,
            env=self.home.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def run(self, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
        """Run a command to its end; what it printed."""
        with self.start(*arguments) as command:
            output, log = command.communicate(timeout=DEADLINE_S)
        assert command.returncode == status, (arguments, output, log)
        return [json.loads(line) for line in output.splitlines()]

    def version(self) -> str:
        """What acpx says of itself."""
        return subprocess.check_output(
            [*self._program, "--version"], env=self.home.environment(), encoding="utf-8"
        ).strip()

    def end(self) -> None:
        """Kill what is left of the commands and their agents, and remove the sockets."""
        for lock in self._folder.glob("queues/*.lock"):
            owner = json.loads(lock.read_text(encoding="utf-8"))
            self._socket_folders.add(Path(owner["socketPath"]).parent)
        for pid in processes_with(self.home.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until_gone(self.home.mark)
        for folder in self._socket_folders:
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(name="acpx")
def _acpx(home: Home, project: Path) -> Iterator[Acpx]:
    acpx = Acpx(home, project)
    yield acpx
    acpx.end()


def updates(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The updates of a kind that a command printed."""
    shown = [line["params"]["update"] for line in lines if line.get("method") == "session/update"]
    return [update for update in shown if update["sessionUpdate"] == kind]


def text(lines: list[dict[str, Any]], kind: str) -> str:
    """The text of all chunks of a kind."""
    return "".join(update["content"]["text"] for update in updates(lines, kind))


def calls(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tool calls as their updates leave them."""
    left = {call["toolCallId"]: dict(call) for call in updates(lines, "tool_call")}
    for update in updates(lines, "tool_call_update"):
        left[update["toolCallId"]].update(update)
    return list(left.values())


def stop_reason(lines: list[dict[str, Any]]) -> str:
    """How the turn ended, which is the last that a prompt prints."""
    reason: str = lines[-1]["result"]["stopReason"]
    return reason


def test_the_command_line_client_does_a_whole_exchange(acpx: Acpx, project: Path) -> None:
    """A session, an edit, permissions allowed and denied, a cancel, a resume, a close."""
    assert acpx.version() == locked_version("acpx")
    (created,) = acpx.run("sessions", "new")
    session = created["acpxSessionId"]

    # A prompt with an edit, in a new process of the agent, which resumes the session.
    lines = acpx.run("/think Water first.\n/replace src/kettle.py 100 => 96\n/say Tea is ready.")
    assert stop_reason(lines) == "end_turn"
    assert text(lines, "agent_thought_chunk") == "Water first."
    assert text(lines, "agent_message_chunk") == "Tea is ready."
    path = project / "src/kettle.py"
    assert calls(lines)[0]["content"] == [
        {
            "type": "diff",
            "path": str(path),
            "oldText": "BOILING_POINT = 100\n",
            "newText": "BOILING_POINT = 96\n",
        }
    ]
    assert path.read_text(encoding="utf-8") == "BOILING_POINT = 96\n"

    # What needs permission: allowed, denied, and with nobody to ask.
    lines = acpx.run(
        "--approve-all", "/create .vscode/a.json <<{}\n/shell echo out > made; echo hi"
    )
    assert [(call["kind"], call["status"]) for call in calls(lines)] == [
        ("edit", "completed"),
        ("execute", "completed"),
    ]
    assert "hi" in calls(lines)[1]["content"][0]["content"]["text"]
    assert (project / ".vscode/a.json").read_text(encoding="utf-8") == "{}\n"
    assert (project / "made").read_text(encoding="utf-8") == "out\n"
    for arguments, status in (
        (("--deny-all",), 0),
        (("--approve-reads", "--non-interactive-permissions", "fail"), DENIED),
    ):
        lines = acpx.run(*arguments, "/shell touch denied", status=status)
        assert [call["status"] for call in calls(lines)] == ["failed"]
        assert not (project / "denied").exists()

    # A cancel by another command.
    with acpx.start("/say Wait.\n/sleep 600") as waiting:
        assert waiting.stdout is not None
        for line in waiting.stdout:
            if "Wait." in line and "agent_message_chunk" in line:
                break
        (cancelled,) = acpx.run("cancel")
        assert cancelled["cancelled"] is True
        output, _ = waiting.communicate(timeout=DEADLINE_S)
    assert stop_reason([json.loads(line) for line in output.splitlines()]) == "cancelled"

    # A turn that fails, and a resume after acpx's process and the agent were killed.
    failed = acpx.run("prompt", "/fail", status=1)
    assert next(line["error"]["code"] for line in failed if "error" in line) == -32603
    acpx.end()
    lines = acpx.run("/read README.md\n/say Again.")
    assert [line.get("method") for line in lines if "id" in line][:3] == [
        "initialize",
        None,
        "session/resume",
    ]
    assert stop_reason(lines) == "end_turn"
    assert "A small program that pours tea." in calls(lines)[0]["content"][0]["content"]["text"]

    # The list of the agent, and a close, after which there is no agent either.
    (listed,) = acpx.run("sessions", "list")
    (entry,) = listed["sessions"]
    assert (entry["sessionId"], entry["title"]) == (session, "/think Water first.")
    acpx.run("sessions", "close")
    wait_until_gone(acpx.home.mark, DEADLINE_S)
