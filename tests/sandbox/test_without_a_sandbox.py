"""The real program where no sandbox can be built: its tools say why, and nothing runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.client import Client
from tests.sandbox.machine import REPOSITORY

# What bwrap prints, and what the reason and the remedy must speak of.
_REFUSALS = {
    "debian's sysctl": (
        (
            "bwrap: No permissions to create new namespace, likely because the kernel does not "
            "allow non-privileged user namespaces. On e.g. debian this can be enabled with "
            "'sysctl kernel.unprivileged_userns_clone=1'."
        ),
        ("not permitted", "unprivileged_userns_clone=1"),
    ),
    "ubuntu's apparmor": (
        "bwrap: setting up uid map: Permission denied",
        ("AppArmor", "apparmor_restrict_unprivileged_userns"),
    ),
    "ubuntu's apparmor, network": (
        "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
        ("private network", "apparmor_restrict_unprivileged_userns"),
    ),
    "rhel's limit": (
        (
            "bwrap: Creating new namespace failed: nesting depth or "
            "/proc/sys/user/max_*_namespaces exceeded (ENOSPC)"
        ),
        ("refuses new namespaces", "max_user_namespaces above 0"),
    ),
    "docker's seccomp": (
        "bwrap: Creating new namespace failed: Operation not permitted",
        ("refuses new namespaces", "--security-opt seccomp=unconfined"),
    ),
    "docker's masked proc": (
        "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
        ("mounting in a namespace", "systempaths=unconfined"),
    ),
    "docker's apparmor": (
        "bwrap: Failed to make / slave: Permission denied",
        ("a mount is not permitted", "apparmor=unconfined"),
    ),
    "podman's root": (
        "bwrap: pivot_root: Operation not permitted",
        ("a mount is not permitted", "in a container"),
    ),
    "a set-user-ID build": (
        "bwrap: The --size option is not permitted in setuid mode",
        ("set-user-ID", "chmod u-s", "unprivileged_userns_clone=1"),
    ),
    "an old one": ("bwrap: Unknown option --disable-userns", ("older than 0.8", "install")),
    "no bash": (
        "bwrap: execvp /bin/bash: No such file or directory",
        ("/bin/bash cannot be run", "install bash"),
    ),
    "no seccomp": (
        "bwrap: prctl(PR_SET_SECCOMP): Invalid argument",
        ("system call filter", "seccomp filters"),
    ),
}
Start = Callable[..., Client]


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """All the programs of PATH but bwrap."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for name in os.listdir(place) if os.path.isdir(place) else ():
            if name != "bwrap" and not (folder / name).is_symlink():
                (folder / name).symlink_to(os.path.join(place, name))
    return folder


def refused_calls(start: Start, project: Path, programs: Path) -> list[str]:
    """What the shell and the run_code call of one turn say; neither may leave a trace."""
    client = start(PATH=str(programs))
    client.initialize()
    client.permissions.allow_all()
    session = client.new_session(project)
    before = sorted(os.listdir(project))
    turn = client.run(session, "/shell touch ran\n/code open('ran', 'w')")
    assert "end_turn" == turn.stop_reason
    assert ["shell", "run_code"] == [call["name"] for call in turn.calls]
    assert {"failed"} == {call["status"] for call in turn.calls}
    assert before == sorted(os.listdir(project))
    client.still_works(session)
    return [json.dumps(call["content"], ensure_ascii=False) for call in turn.calls]


def test_without_bwrap_both_tools_say_what_to_install(
    start: Start, project: Path, programs: Path
) -> None:
    """It is not on PATH, and no other place is tried."""
    for text in refused_calls(start, project, programs):
        assert "did not run: bubblewrap (bwrap) is not on PATH" in text
        assert "install bubblewrap 0.8 or later" in text


def test_refusal_of_the_kernel_is_told_by_both_tools(
    start: Start, project: Path, programs: Path, tmp_path: Path
) -> None:
    """With each message that bwrap has for it: the meaning, the message, what to do."""
    said = tmp_path / "message"
    program = programs / "bwrap"
    program.write_text(f"#!/bin/bash\ncat {said} >&2\nexit 1\n")
    program.chmod(0o755)
    client = start(PATH=str(programs))
    client.initialize()
    client.permissions.allow_all()
    session = client.new_session(project)
    before = sorted(os.listdir(project))
    for message, words in _REFUSALS.values():
        said.write_text(message + "\n")
        turn = client.run(session, "/shell touch ran\n/code open('ran', 'w')")
        assert [("shell", "failed"), ("run_code", "failed")] == [
            (call["name"], call["status"]) for call in turn.calls
        ]
        for call in turn.calls:
            text = _text(call)
            assert message.split(". On e.g.")[0] in text
            for word in words:
                assert word in text, text
    assert before == sorted(os.listdir(project))


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param("--disable-userns --proc /proc", "new namespaces", id="no namespaces"),
        pytest.param("--unshare-pid --proc /proc --tmpfs /proc/irq", "mounting", id="masked proc"),
        pytest.param("--ro-bind /proc /proc", "/proc is missing, masked", id="read-only proc"),
        pytest.param("--tmpfs /proc", "/proc is missing, masked", id="no proc"),
    ],
)
def test_inside_a_container_the_reason_is_told(options: str, reason: str) -> None:
    """For real: in surroundings as a container has them, made by bwrap itself."""
    code = "import sandbox; found = sandbox.probe(); print(found.ok, found.reason, found.remedy)"
    done = subprocess.run(
        [
            *("bwrap", "--unshare-user", "--bind", "/", "/", "--dev", "/dev", *options.split()),
            *("--chdir", str(REPOSITORY), "--", sys.executable, "-c", code),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("False "), done
    assert reason in done.stdout
    assert "in a container the runtime forbids it" in done.stdout


def _text(call: dict[str, Any]) -> str:
    return json.dumps(call["content"], ensure_ascii=False).replace('\\"', '"')
