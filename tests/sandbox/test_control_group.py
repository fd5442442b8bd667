"""The bound on processes for root: where it can be made, that it holds, and that it goes."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from sandbox import control_group, group_place
from sandbox.group_place import find_place
from tests.sandbox.machine import Machine

_DEADLINE_S = 20.0
_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 0.5; echo over"
_COUNT = (
    "python3 - <<'END'\nimport os, time\ncount = 0\ntry:\n  while count < 300:\n"
    "    if os.fork() == 0: time.sleep(600)\n    count += 1\n"
    "except BlockingIOError: pass\nprint('forked', count)\nEND"
)
needs_place = pytest.mark.skipif(
    group_place.here().parent is None, reason="only root needs a group, where one can be made"
)


def tree(base: Path, **files: str) -> None:
    """Make a hierarchy: `a__b` is the file of that name in the group `a`."""
    for name, text in files.items():
        group, _, file = name.rpartition("__")
        path = base / group.replace("__", "/") / file.replace("_", ".", 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_first_hierarchies_count_processes_in_one_of_their_own(tmp_path: Path) -> None:
    """Next to others; its folder is that of our own group."""
    (tmp_path / "pids/mine").mkdir(parents=True)
    mounts = (
        f"33 25 0:27 / {tmp_path}/memory rw - cgroup cgroup rw,memory\n"
        f"36 25 0:30 / {tmp_path}/pids rw - cgroup cgroup rw,pids\n"
        f"38 25 0:32 / {tmp_path}/unified rw - cgroup2 cgroup2 rw\n"
    )
    found = find_place("9:pids:/mine\n4:memory:/x\n0::/\n", mounts)
    assert (f"{tmp_path}/pids/mine", "") == (found.parent, found.reason)


def test_mount_of_a_part_shows_only_that(tmp_path: Path) -> None:
    """As in a container: the mount's root is not that of the hierarchy."""
    (tmp_path / "pids/inner").mkdir(parents=True)
    mounts = f"36 25 0:30 /docker/1 {tmp_path}/pids rw - cgroup cgroup rw,pids\n"
    assert f"{tmp_path}/pids/inner" == find_place("9:pids:/docker/1/inner\n", mounts).parent


def test_unified_hierarchy_is_searched_upwards(tmp_path: Path) -> None:
    """A group with processes of its own can have no counted children, but its parent may."""
    tree(
        tmp_path,
        cgroup_controllers="pids",
        cgroup_subtree_control="cpu pids",
        user__cgroup_controllers="cpu pids",
        user__cgroup_subtree_control="memory pids",
        user__session__cgroup_controllers="pids",
        user__session__cgroup_subtree_control="",
    )
    mounts = f"38 25 0:32 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
    assert f"{tmp_path}/user" == find_place("0::/user/session\n", mounts).parent


@pytest.mark.parametrize(
    ("controllers", "subtree", "reason"),
    [("hugetlb", "", "has no controller"), ("pids", "", "does not give its groups")],
)
def test_unified_hierarchy_without_a_count_is_said(
    tmp_path: Path, controllers: str, subtree: str, reason: str
) -> None:
    """It names the place."""
    tree(tmp_path, cgroup_controllers=controllers, cgroup_subtree_control=subtree)
    found = find_place("0::/\n", f"38 25 0:32 / {tmp_path} rw - cgroup2 cgroup2 rw\n")
    assert found.parent is None
    assert reason in found.reason
    assert str(tmp_path) in found.reason


def test_no_hierarchy_is_said() -> None:
    """Nothing is mounted, as in a small container."""
    found = find_place("0::/\n", "25 1 254:0 / / rw - ext4 /dev/vda rw\n")
    assert (None, "no hierarchy of control groups is mounted") == (found.parent, found.reason)


def test_read_only_hierarchy_is_said(tmp_path: Path) -> None:
    """As docker mounts it."""
    mounts = f"36 25 0:30 / {tmp_path} ro,nosuid - cgroup cgroup rw,pids\n"
    found = find_place("9:pids:/\n", mounts)
    assert found.parent is None
    assert "read-only" in found.reason


def test_number_of_processes_is_bounded_or_that_is_stated(machine: Machine) -> None:
    """For everybody; where root cannot be bounded, the probe says why."""
    machine.open_session(limits={"processes": 60})
    ran = machine.run(_COUNT)
    forked = int(ran.text.split()[-1])
    remark = machine.remote.ask(do="probe")["remark"]
    if machine.uid == 0 and group_place.here().parent is None:
        assert forked == 300
        assert "not limited for root" in remark
    else:
        assert 30 < forked <= 60
        assert remark == ""


def test_number_holds_where_bwrap_started_before_it_joined(machine: Machine) -> None:
    """What it starts is in no group then of itself: as where `bwrap` is a script."""
    real = shutil.which("bwrap") or "/usr/bin/bwrap"
    program = machine.write("bin/bwrap", f'#!/bin/bash\n{real} "$@"\n', 0o755)
    machine.open_session(limits={"processes": 60})
    machine.begin(
        _COUNT, timeout=30, environ={"PATH": f"{program.parent}:{machine.environ['PATH']}"}
    )
    output = base64.b64decode(machine.remote.receive()["output"])
    forked = int(output.split()[-1])
    assert 30 < forked <= 60 or (machine.uid == 0 and group_place.here().parent is None)


def test_fork_bomb_hits_only_itself(machine: Machine) -> None:
    """Another command of the same user runs on, and nothing of the bomb is left."""
    if machine.uid == 0 and group_place.here().parent is None:
        pytest.skip("no control group can be made here, which the probe states")
    machine.open_session(limits={"processes": 50})
    machine.open_session(session="other", limits={"processes": 50})
    ran = machine.run(_BOMB)
    assert "over" in ran.text or ran.exit_code
    assert "fine\n" == machine.run("(true | cat) && echo fine", session="other").text
    _assert_gone(machine)


@needs_place
def test_group_is_gone_after_the_call(machine: Machine) -> None:
    """Also after a time-out and a command that could not be started."""
    if machine.uid != 0:
        pytest.skip("only root has one")
    machine.open_session()
    machine.begin("echo x; sleep 600", timeout=1, announce=True)
    assert "x\n" == machine.remote.receive()["piece"]
    assert _groups(machine.remote.popen.pid)
    assert machine.remote.receive()["timed_out"]
    assert machine.run("x" * 200_000).setup_error
    _assert_gone(machine)


@needs_place
def test_group_of_a_killed_server_goes_at_the_next_start(expendable: Machine) -> None:
    """Its processes are dead by then."""
    machine = expendable
    if machine.uid != 0:
        pytest.skip("only root has one")
    machine.open_session()
    machine.begin("echo x; sleep 600", announce=True)
    machine.remote.receive()
    pid = machine.remote.popen.pid
    machine.remote.popen.kill()
    machine.remote.popen.wait(_DEADLINE_S)
    assert 1 == len(_groups(pid))
    machine.restart()
    machine.open_session(session="next")
    assert [] == _groups(pid)


@needs_place
def test_more_processes_than_there_can_be_are_no_error() -> None:
    """The kernel takes no such number."""
    group = control_group.make(1 << 40, group_place.here())
    assert group is not None
    group.remove()


@needs_place
def test_group_that_somebody_removed_is_made_again() -> None:
    """A server in a container does not see that its owner lives."""
    group = control_group.make(5, group_place.here())
    assert group is not None
    os.rmdir(group.path)
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        group.add(child.pid)
        assert str(child.pid) == Path(group.path, "cgroup.procs").read_text().strip()
        assert "8" == Path(group.path, "pids.max").read_text().strip()
    control_group.sweep(group_place.here())
    group.remove()


@needs_place
def test_group_that_is_removed_at_any_moment_is_made_and_joined() -> None:
    """By a server in a container that starts over and over again."""
    place = group_place.here()
    assert place.parent is not None
    over = threading.Event()

    def remove_all() -> None:
        while not over.is_set():
            for name in _groups(os.getpid()):
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(str(place.parent), name))

    remover = threading.Thread(target=remove_all, name="remover")
    remover.start()
    try:
        with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
            for _ in range(200):
                group = control_group.make(5, place)
                assert group is not None
                group.add(child.pid)
                assert str(child.pid) == Path(group.path, "cgroup.procs").read_text().strip()
    finally:
        over.set()
        remover.join()
    control_group.sweep(place)
    group.remove()


@needs_place
def test_groups_of_the_living_and_of_others_stay() -> None:
    """Whatever is not named like ours, too."""
    place = group_place.here()
    assert place.parent is not None
    others = Path(place.parent, "sandbox-of-others")
    others.mkdir()
    group = control_group.make(5, place)
    assert group is not None
    try:
        control_group.sweep(place)
        assert others.is_dir()
        assert os.path.isdir(group.path)
        assert "8" == Path(group.path, "pids.max").read_text().strip()
    finally:
        others.rmdir()
        group.remove()
    assert not os.path.exists(group.path)


def _assert_gone(machine: Machine) -> None:
    """A dead process may be counted for a moment; each try lets some time pass."""
    deadline = time.monotonic() + _DEADLINE_S
    while left := _groups(machine.remote.popen.pid):
        assert time.monotonic() < deadline, left
        machine.remote.ask(do="sweep", state=str(machine.state))


def _groups(pid: int) -> list[str]:
    parent = group_place.here().parent
    return [n for n in os.listdir(parent) if n.startswith(f"sandbox-{pid}-")] if parent else []
