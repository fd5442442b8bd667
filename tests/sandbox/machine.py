"""A made-up machine for one test: home, workspace, a folder outside, and who uses it."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import attrs
import pytest

REPOSITORY = Path(__file__).parents[2]
_NOBODY = 65534
# Folders that stay visible inside: what lies in /tmp or the home is hidden anyway.
VISIBLE = ("/srv", "/opt", "/var/lib")
# In the name of each machine that this process makes.
RUN = f"sandbox-test-{os.getpid()}-"
ENVIRON = {
    "HOME": "/nonexistent",
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "LANG": "C.UTF-8",
    "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(Path(attrs.__file__).parents[1])]),
    "SECRET_TOKEN": "tkn-0123456789",
    "GIT_CONFIG_NOSYSTEM": "1",
}
_REMOTE = Path(__file__).with_name("remote.py")


@attrs.frozen
class Ran:
    """What a command did, as the remote told it."""

    exit_code: int | None
    signal: str | None
    timed_out: bool
    killed: bool
    setup_error: str | None
    hint: str | None
    restored: list[str]
    output: bytes
    threads: int

    @property
    def text(self) -> str:
        return self.output.decode("utf-8", "replace")


class Remote:
    """
    `remote.py`, running as one user.

    Attributes:
        started: the process numbers of all there were.
    """

    started: ClassVar[set[int]] = set()

    def __init__(self, uid: int) -> None:
        self.uid = uid
        prefix: list[str] = []
        if uid != os.geteuid():
            prefix = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        self.popen = subprocess.Popen(
            [*prefix, python_for(uid), "-B", str(_REMOTE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env=ENVIRON,
            text=True,
        )
        self.started.add(self.popen.pid)

    def send(self, **request: Any) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(json.dumps(request) + "\n")
        self.popen.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        assert line, "the remote ended"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, **request: Any) -> dict[str, Any]:
        self.send(**request)
        return self.receive()

    def close(self) -> None:
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.popen.stdin.close()
        self.popen.wait(30)
        self.popen.stdout.close()


class Machine:
    """
    Folders owned by `uid`, in a place that is visible in a sandbox if there is such a place.

    Commands run in `remote`, which several machines may share. Remove it with `close`.
    """

    def __init__(self, uid: int, remote: Remote | None = None) -> None:
        visible = [folder for folder in VISIBLE if os.access(folder, os.W_OK)]
        self.base = Path(tempfile.mkdtemp(prefix=RUN, dir=(visible or [None])[0]))
        self.visible = bool(visible)
        self.base.chmod(0o755)
        self.uid = uid
        self.home = self._folder("home")
        self.workspace = self._folder("workspace")
        self.outside = self._folder("outside")
        self.state = self.base / "home" / ".local" / "state" / "sandbox"
        self.own()
        self._shares = remote is not None
        self.remote = remote or Remote(uid)

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the machine's user."""
        return {**ENVIRON, "HOME": str(self.home)}

    def write(self, path: Path | str, content: str = "x\n", mode: int = 0o644) -> Path:
        """Make a file (and its folders) that belongs to the machine's user."""
        target = self.base / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
        target.chmod(mode)
        self.own()
        return target

    def git(self, *arguments: str, folder: Path | None = None) -> str:
        """Run git outside, as the machine's user."""
        prefix: list[str] = []
        if self.uid != os.geteuid():
            prefix = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]
        done = subprocess.run(
            [*prefix, "git", "-c", "protocol.file.allow=always", *arguments],
            cwd=folder or self.workspace,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def repository(self, folder: Path | None = None) -> Path:
        """A repository with one commit, in the workspace unless said otherwise."""
        where = folder or self.workspace
        if not where.exists():
            where.mkdir(parents=True)
            self.own()
        self.write(self.home / ".gitconfig", "[user]\nname = Ada\nemail = ada@example.org\n")
        self.git("init", "-q", "-b", "main", folder=where)
        self.write(where / "file.txt", "one\n")
        self.git("add", "file.txt", folder=where)
        self.git("commit", "-qm", "first", folder=where)
        return where

    def open_session(
        self,
        workspace: Path | None = None,
        *,
        session: str = "s",
        hidden: Sequence[Path] = (),
        environ: Mapping[str, str] | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        """Make the policy of a session; the remote's answer."""
        return self.remote.ask(
            do="policy",
            workspace=str(workspace or self.workspace),
            state=str(self.state),
            session=self._name(session),
            hidden=[str(path) for path in hidden],
            environ={**self.environ, **(environ or {})},
            limits=dict(limits or {}),
        )

    def run(self, command: str, *, session: str = "s", timeout: float = 30) -> Ran:
        """Run a command in a session that was opened."""
        self.begin(command, session=session, timeout=timeout)
        answer = self.remote.receive()
        return Ran(**{**answer, "output": base64.b64decode(answer["output"])})

    def need_visible_outside(self) -> None:
        """Skip where only root can make a folder that no sandbox hides anyway."""
        if not self.visible:
            pytest.skip("this user cannot make a folder outside of home and tmp")

    def begin(
        self,
        command: str,
        *,
        session: str = "s",
        timeout: float = 600,
        announce: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Only send the command; with `announce` each piece of its output is an answer."""
        self.remote.send(
            do="run",
            session=self._name(session),
            command=command,
            timeout=timeout,
            announce=announce,
            environ=dict(environ or {}),
        )

    def restart(self) -> None:
        """Another server in the place of the one that ended."""
        self.remote.close()
        self.remote = Remote(self.uid)

    def snapshot(self, *folders: Path) -> dict[str, tuple[int, bytes | str]]:
        """Type, mode and content of everything below `folders`."""
        found: dict[str, tuple[int, bytes | str]] = {}
        for folder in folders:
            for path in sorted([folder, *folder.rglob("*")]):
                status = path.lstat()
                content: bytes | str = b""
                if stat.S_ISLNK(status.st_mode):
                    content = str(path.readlink())
                elif stat.S_ISREG(status.st_mode):
                    content = path.read_bytes()
                found[str(path)] = (status.st_mode, content)
        return found

    def close(self) -> None:
        if self._shares:
            self.remote.ask(do="forget", sessions=self._name(""))
        else:
            self.remote.close()
        shutil.rmtree(self.base)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _name(self, session: str) -> str:
        return f"{self.base.name}-{session}"

    def _folder(self, name: str) -> Path:
        path = self.base / name
        path.mkdir()
        return path

    def own(self) -> None:
        """Give everything to the machine's user."""
        if self.uid == os.geteuid():
            return
        for folder, names, files in os.walk(self.base):
            for path in [folder, *(os.path.join(folder, name) for name in (*names, *files))]:
                os.chown(path, self.uid, self.uid, follow_symlinks=False)


def accounts() -> list[int]:
    """The users to test as: ourselves, and if that is root an unprivileged one too."""
    return [os.geteuid()] + ([_NOBODY] if os.geteuid() == 0 else [])


@functools.cache
def python_for(uid: int) -> str:
    """A Python that `uid` can run: ours, or the system's when ours is in a private home."""
    if uid == os.geteuid():
        return sys.executable
    for candidate in (sys.executable, "/usr/bin/python3"):
        code = "import sys, attr; sys.exit(sys.version_info < (3, 11))"
        tried = subprocess.run(
            [
                "setpriv",
                f"--reuid={uid}",
                f"--regid={uid}",
                "--clear-groups",
                candidate,
                "-c",
                code,
            ],
            env={"PYTHONPATH": str(Path(attrs.__file__).parents[1])},
            cwd="/",
            check=False,
            capture_output=True,
        )
        if tried.returncode == 0:
            return candidate
    raise AssertionError(f"no Python that user {uid} can run")
