"""Saying that the sandbox was probably why, and saying nothing when it was not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import Policy, hints
from tests.sandbox.machine import Machine


@pytest.fixture
def policy(tmp_path: Path) -> Iterator[Policy]:
    """A session's policy."""
    (tmp_path / "ws").mkdir()
    policy = Policy.for_workspace(str(tmp_path / "ws"), state_dir=str(tmp_path / "state"))
    yield policy
    policy.discard()


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("curl: (6) Could not resolve host: example.org", "no network"),
        ("connect: Network is unreachable", "no network"),
        ("Temporary failure in name resolution", "no network"),
        ("npm ERR! code EAI_AGAIN\nnpm ERR! request failed: getaddrinfo EAI_AGAIN x", "no network"),
        ("curl: (7) Failed to connect to 1.1.1.1 port 80", "no network"),
        ("/bin/bash: line 1: .vscode/a: Read-only file system", "{ws}/.vscode/a"),
        ("mv: cannot move '.git' to '.g2': Device or resource busy", "{ws}/.git"),
        ("cat: /etc/shadow: Permission denied", "/etc/shadow"),
        ("touch: cannot touch '/etc/x': Read-only file system", "/etc/x lies outside"),
        ("touch: cannot touch '../../../../../../x': Read-only file system", "/x lies outside"),
        ("/bin/bash: line 1: .vscode/a: Is a directory", "{ws}/.vscode/a"),
        ("mkdir: cannot create directory '.git': File exists", "{ws}/.git"),
        ("OSError: [Errno 30] Read-only file system", "only in the workspace"),
        ("EROFS: read-only file system, open '/opt/y'", "/opt/y lies outside"),
    ],
)
def test_refusals_of_the_sandbox_are_explained(policy: Policy, output: str, words: str) -> None:
    """The path or the missing network is named."""
    guarded = frozenset({f"{policy.workspace}/.git", f"{policy.workspace}/.vscode", "/etc/shadow"})
    hint = hints.explain(policy, output.encode(), guarded)
    assert hint is not None
    assert words.format(ws=policy.workspace) in hint


@pytest.mark.parametrize(
    "output",
    [
        "",
        "assert 1 == 2",
        "bash: ./script.sh: Permission denied",
        "/usr/bin/python3: Permission denied",
        "curl: (7) Failed to connect to localhost port 8000",
        "rm: cannot remove 'x': Operation not permitted",
        "cat: src: Is a directory",
        "\xff\xfe",
    ],
)
def test_other_failures_are_not_blamed_on_it(policy: Policy, output: str) -> None:
    """A test that fails or a missing mode bit has nothing to do with the sandbox."""
    guarded = frozenset({f"{policy.workspace}/.git"})
    assert hints.explain(policy, output.encode("latin-1"), guarded) is None


def test_success_has_no_hint(machine: Machine) -> None:
    """Whatever it printed; a failure of the same kind has one."""
    machine.open_session()
    message = "echo x > .envrc"
    assert machine.run(f"{message}; true").hint is None
    assert ".envrc" in (machine.run(message).hint or "")


def test_restored_paths_are_told(machine: Machine) -> None:
    """Also when the command succeeded."""
    (machine.workspace / ".bashrc").symlink_to("elsewhere")
    machine.open_session()
    ran = machine.run("rm .bashrc")
    assert ran.exit_code == 0
    assert "put back" in (ran.hint or "")
    assert str(machine.workspace / ".bashrc") in (ran.hint or "")
