"""`term2 chat` on a pseudo-terminal or over pipes, as a person or a script drives it."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pexpect

from tests.harness.home import Home

TIMEOUT = 30.0
# -P, as an installed program: the folder that it is started in is not on its path.
COMMAND = (sys.executable, "-P", "-m", "term2_acp")
# What the line editor switches on with each prompt.
PROMPT = "\x1b[?2004h"


class ChatTerminal:
    """
    The program on a pseudo-terminal; `output` is all that it wrote.

    Waiting raises pexpect's exceptions when the time is up.
    """

    def __init__(
        self,
        home: Home,
        folder: Path,
        *args: str,
        size: tuple[int, int] = (24, 80),
        **environment: str,
    ) -> None:
        self._log = io.StringIO()
        variables = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environment}
        self.child = pexpect.spawn(
            COMMAND[0],
            [*COMMAND[1:], "chat", *args],
            cwd=str(folder),
            env=home.environment(**variables),
            encoding="utf-8",
            timeout=TIMEOUT,
            dimensions=size,
        )
        self.child.logfile_read = self._log
        self.child.delaybeforesend = None

    @property
    def output(self) -> str:
        """What it wrote so far, as far as it was waited for."""
        return self._log.getvalue()

    def expect(self, *texts: str) -> None:
        """Wait for texts in their order."""
        for text in texts:
            self.child.expect_exact(text)

    def prompt(self) -> None:
        """Wait until it is ready for a text."""
        self.expect(PROMPT)

    def keys(self, keys: str) -> None:
        """Press keys, all at once."""
        self.child.send(keys)

    def line(self, text: str) -> None:
        """Type a line."""
        self.child.send(f"{text}\r")

    def server_pid(self) -> int:
        """The process of its server."""
        return child_of(self.child.pid)

    def wait_end(self) -> int | None:
        """Wait for its end; the exit status."""
        self.child.expect(pexpect.EOF)
        self.child.wait()
        status: int | None = self.child.exitstatus
        return status

    def close(self) -> None:
        """End it, by force if need be."""
        self.child.close(force=True)


def run_plain(
    home: Home, folder: Path, text: str, *args: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run it over pipes with all of its input at once."""
    return subprocess.run(
        [*COMMAND, "chat", *args],
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        cwd=folder,
        env=home.environment(**environment),
        timeout=60,
    )


def child_of(pid: int) -> int:
    """The only child of a process (Linux)."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)
