"""What a run of these tests has left on the machine: processes, mounts, files, control groups."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Iterable
from pathlib import Path

from sandbox import group_place, sweep
from tests.sandbox.machine import RUN, VISIBLE, Remote

_DEADLINE_S = 20.0


def assert_none(temporary: Path) -> None:
    """
    All is as it was before, once a next start has cleared up after servers that were killed.

    Args:
        temporary: the folder that all `tmp_path` of this run lie in.
    """
    marks = (RUN, str(temporary))
    _wait_for_the_end(_processes(marks))
    sweep(str(temporary))
    for state in temporary.glob("*/state"):
        sweep(str(state))
    left = [*_mounts(marks), *_files(temporary), *_groups()]
    assert not left, "\n".join(left)


def _processes(marks: Iterable[str]) -> dict[int, str]:
    """Those that a mark shows in: in arguments, environment, folder or mounts."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        text = b""
        for name in ("cmdline", "environ", "mountinfo"):
            with contextlib.suppress(OSError):
                text += Path("/proc", pid, name).read_bytes()
        with contextlib.suppress(OSError):
            text += os.fsencode(os.readlink(f"/proc/{pid}/cwd"))
        if any(os.fsencode(mark) in text for mark in marks) and int(pid) != os.getpid():
            found[int(pid)] = text[:200].decode("utf-8", "replace")
    return found


def _wait_for_the_end(processes: dict[int, str]) -> None:
    """What is dying has a moment for it."""
    deadline = time.monotonic() + _DEADLINE_S
    for pid, shown in processes.items():
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        left = max(0.0, deadline - time.monotonic())
        ended = select.select([descriptor], [], [], left)[0]
        os.close(descriptor)
        assert ended, f"process {pid} was left: {shown}"


def _mounts(marks: Iterable[str]) -> list[str]:
    table = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    return [line for line in table.splitlines() if any(mark in line for mark in marks)]


def _files(temporary: Path) -> list[str]:
    """Machines, stand-ins that are still noted, and private folders of sessions."""
    machines = [
        str(path)
        for folder in VISIBLE
        if os.access(folder, os.R_OK)
        for path in Path(folder).glob(f"{RUN}*")
    ]
    noted = [str(path) for path in temporary.glob("*/state/stubs/*.json")]
    private = [str(path) for path in temporary.glob("*/state/sessions/*")]
    return machines + noted + private


def _groups() -> list[str]:
    parent = group_place.here().parent
    owners = {f"sandbox-{pid}-" for pid in (os.getpid(), *Remote.started)}
    return [
        name
        for name in (os.listdir(parent) if parent else ())
        if any(name.startswith(owner) for owner in owners)
    ]
