"""
A whole exchange with the agent, to look at: `make demo`.

It makes a small project in a temporary folder, starts `term2 acp` with the offline model
as an editor would, and shows every line of the conversation. The agent reads a file, edits
it, edits a protected file and runs a command; the demo gives the two permissions that it
asks for. At the end the files are checked; exit status 1 if anything is not as it should be.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from stdio_client import Client, ExchangeError, scratch_environment, server_argv

DEADLINE_S = 60
LINE_WIDTH = 400

FILES = {
    "README.md": "# Greeter\n\nA small program that greets.\n",
    "greeter.py": 'name = "world"\nprint(f"Hello, {name}!")\n',
}
COMMAND = (
    "wc -l < greeter.py > lines.txt;"
    " echo leaked > ../outside.txt;"
    " echo greeter.py has $(cat lines.txt) lines"
)
PROMPT = f"""\
Please do these, one after the other:
/think A greeting can be kinder.
/read README.md
/replace greeter.py Hello => Good morning
/create .vscode/settings.json <<{{}}
/shell {COMMAND}"""


class Check(NamedTuple):
    """One thing that must hold after the exchange, and what was found."""

    what: str
    held: bool
    found: str | int | None


def main() -> int:
    """Run the demo; the exit status."""
    with tempfile.TemporaryDirectory(prefix="term2-demo-") as folder:
        root = Path(folder).resolve()
        project = root / "project"
        project.mkdir()
        for name, text in FILES.items():
            (project / name).write_text(text, encoding="utf-8")
        print(f"A scratch project in {project}: {', '.join(FILES)}.")
        print("--> is what an editor sends, <-- is what the agent answers.\n")
        try:
            checks = list(exchange(root, project))
        except ExchangeError as error:
            print(f"\nThe demo broke off: {error}")
            return 1
    print("\nSummary:")
    for check in checks:
        print(f"  ok      {check.what}" if check.held else failure_line(check))
    return 0 if all(check.held for check in checks) else 1


def failure_line(check: Check) -> str:
    """What is said of a check that did not hold."""
    return f"  FAILED  {check.what}; found: {check.found}"


def exchange(root: Path, project: Path) -> Iterator[Check]:
    """
    Talk to the agent as an editor does, then check what it left on the disk.

    Raises:
        ExchangeError: the agent did not follow the protocol, or took too long.
    """
    with Client(
        server_argv(), environment=scratch_environment(root), deadline_s=DEADLINE_S, show=show
    ) as client:
        client.call("initialize", {"protocolVersion": 2, "info": {"name": "demo", "version": "1"}})
        session = client.call("session/new", {"cwd": str(project)})["sessionId"]
        prompt = [{"type": "text", "text": PROMPT}]
        client.call("session/prompt", {"sessionId": session, "prompt": prompt})
        stop_reason = client.read_until_idle()
        status = client.close()

    yield Check("the turn ended with end_turn", stop_reason == "end_turn", stop_reason)
    statuses = final_statuses(client)
    yield Check(
        "four tool calls were completed",
        statuses == ["completed"] * 4,
        f"{statuses}, and the agent said:\n{client.spoken_text()}",
    )
    titles = [permission["title"] for permission in client.permissions]
    yield Check(
        "permission was asked twice: for the protected file and for the command",
        len(titles) == 2,
        "; ".join(titles),
    )
    greeter = content(project / "greeter.py")
    yield Check("greeter.py was edited", greeter == kinder_greeter(), greeter)
    settings = content(project / ".vscode" / "settings.json")
    yield Check(".vscode/settings.json was created", settings == "{}\n", settings)
    lines = content(project / "lines.txt")
    yield Check("the command wrote into the project", (lines or "").strip() == "2", lines)
    outside = content(root / "outside.txt")
    yield Check("the sandbox kept its other write inside", outside is None, outside)
    yield Check("the agent ended with its input", status == 0, status)


def final_statuses(client: Client) -> list[str]:
    """The last status of each tool call, in their order."""
    statuses = {
        update["toolCallId"]: update["status"]
        for update in client.updates
        if update.get("sessionUpdate") == "tool_call_update" and update.get("status")
    }
    return list(statuses.values())


def kinder_greeter() -> str:
    """What greeter.py is to be after the edit."""
    return FILES["greeter.py"].replace("Hello", "Good morning")


def content(path: Path) -> str | None:
    """The text of a file; None if it is not there."""
    return path.read_text(encoding="utf-8") if path.exists() else None


def show(direction: str, line: str) -> None:
    """Print one line of the conversation, its end cut off if it is very long."""
    rest = len(line) - LINE_WIDTH
    print(direction, line if rest <= 0 else f"{line[:LINE_WIDTH]}… ({rest} more)", flush=True)


if __name__ == "__main__":
    sys.exit(main())
