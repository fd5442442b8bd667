"""What commits made outside would use of the user's git settings; the home is hidden inside."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping

import attrs

from sandbox import paths, programs
from sandbox.git import opened_by_git

_TIMEOUT_S = 2.0
_LARGEST_ANSWER = 64 * 1024
_LARGEST_IGNORE_FILE = 256 * 1024
# A repository must not be able to start a program through our own git (finding F5).
_HARMLESS = (
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "safe.bareRepository=explicit"),
)
_WANTED = r"^(user\.(name|email)|core\.excludesfile)$"
# Only from here may a file be read: a repository could name any other.
_TRUSTED_SCOPES = ("global", "system")


@attrs.frozen
class GitSettings:
    """
    The user's git settings that come in.

    Attributes:
        identity: `GIT_AUTHOR_*` and `GIT_COMMITTER_*` variables; what is not
            configured is left out.
        ignored: the text of the user's own ignore file.
    """

    identity: Mapping[str, str]
    ignored: bytes


def read(workspace: str, environ: Mapping[str, str]) -> GitSettings:
    """Ask `git config` once, with everything off by which a repository could start a program."""
    git = programs.find("git", environ, never_in=(workspace,))
    # Git would wait for somebody to write to a FIFO. The user's own settings do not depend on it.
    folder = "/" if any(map(paths.is_special, opened_by_git(workspace))) else workspace
    values = _ask(git, folder, environ) if git else {}
    identity = {}
    for key, field in (("user.name", "NAME"), ("user.email", "EMAIL")):
        for role in ("AUTHOR", "COMMITTER"):
            variable = f"GIT_{role}_{field}"
            value = environ.get(variable) or values.get(key)
            if value:
                identity[variable] = value
    return GitSettings(identity, _read_ignore_file(values.get("core.excludesfile"), environ))


def _ask(git: str, folder: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The wanted settings; where one is set twice, the last counts."""
    argv = [git, *_HARMLESS, "config", "-z", "--show-scope", "--get-regexp", _WANTED]
    environment = {**environ, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        answer = _output(argv, folder, environment)
    except (OSError, ValueError):
        return {}
    fields = os.fsdecode(answer).split("\0")
    found = {}
    for scope, setting in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = setting.partition("\n")
        if key.startswith("user.") or scope in _TRUSTED_SCOPES:
            found[key] = value.strip()
    return found


def _output(argv: list[str], folder: str, environment: Mapping[str, str]) -> bytes:
    """
    All that a program prints; then it is killed with its group, for it may have hung.

    Raises:
        OSError: it cannot be run, or takes too long, or prints too much.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    with subprocess.Popen(
        argv,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            return b"" if process.stdout is None else _read_all(process.stdout.fileno(), deadline)
        finally:
            # It is not reaped yet, so the number still belongs to its group.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _read_all(stream: int, deadline: float) -> bytes:
    answer = b""
    poller = select.poll()
    poller.register(stream, select.POLLIN)
    while poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
        piece = os.read(stream, _LARGEST_ANSWER)
        if not piece:
            return answer
        answer += piece
        if len(answer) > _LARGEST_ANSWER:
            raise OSError(errno.EMSGSIZE, "it prints too much")
    raise TimeoutError


def _read_ignore_file(configured: str | None, environ: Mapping[str, str]) -> bytes:
    home = environ.get("HOME", "")
    if configured is None:
        settings = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
        path = os.path.join(settings, "git", "ignore")
    elif configured.startswith("~/"):
        path = os.path.join(home, configured[2:])
    else:
        path = configured
    if not os.path.isabs(path):
        return b""
    with contextlib.suppress(OSError):
        return paths.read_file(os.path.realpath(path), _LARGEST_IGNORE_FILE)
    return b""
