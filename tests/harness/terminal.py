"""The program on a pseudo-terminal, as a person would type to it."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

import pexpect

from tests.harness.home import SOURCE, Home

TIMEOUT = 20.0


class Terminal:
    """
    `term2 ARGS` on a pseudo-terminal without echo; standard error goes to a file.

    A terminal's line discipline bounds a typed line (4096 bytes on Linux).
    """

    def __init__(self, home: Home, *args: str, **environment: str) -> None:
        self._stderr = home.root / f"stderr-{len(list(home.root.glob('stderr-*')))}"
        argv = [sys.executable, "-m", "term2_acp", *args]
        # The shell only redirects; `exec` makes the program the child itself.
        line = f"exec {shlex.join(argv)} 2>{shlex.quote(str(self._stderr))}"
        self.child = pexpect.spawn(
            "/bin/sh",
            ["-c", line],
            cwd=str(SOURCE),
            env=home.environment(**environment),
            echo=False,
            encoding="utf-8",
            timeout=TIMEOUT,
        )

    @property
    def stderr(self) -> str:
        """What the program wrote to standard error."""
        return self._stderr.read_text(encoding="utf-8", errors="backslashreplace")

    def type(self, message: Any) -> None:
        """Type a message as one line."""
        self.child.sendline(json.dumps(message))

    def read_message(self) -> Any:
        """Read the next line, which must be JSON."""
        self.child.expect("\r?\n")
        return json.loads(self.child.before)

    def type_eof(self) -> int | None:
        """Press Ctrl-D and wait for the end; the exit status."""
        self.child.sendeof()
        return self.wait_end()

    def wait_end(self) -> int | None:
        """Wait for the end of the program; the exit status."""
        self.child.expect(pexpect.EOF)
        self.child.wait()
        status: int | None = self.child.exitstatus
        return status

    def close(self) -> None:
        """End the program, by force if need be."""
        self.child.close(force=True)
