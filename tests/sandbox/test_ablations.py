"""
What each part of the sandbox is for: without it, the escape works.

Each test takes one part away and shows the difference; a part whose absence
changes nothing would be an ornament. Nothing here writes outside the test's own
folders; kernel settings are only opened and closed again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from sandbox import Policy, bwrap, layout, mounts, protected, seccomp, stubs
from sandbox.mounts import Bind, Mount, Tmpfs

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")
_AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root could do this anyway")

Reduce = Callable[[list[str]], list[str]]
ReduceMounts = Callable[[tuple[Mount, ...]], tuple[Mount, ...]]


@attrs.frozen
class Bench:
    """A workspace whose sandbox can be built with parts missing."""

    policy: Policy

    def run(
        self,
        command: str,
        *,
        options: Reduce = list,
        reduce: ReduceMounts = tuple,
        filtered: bool = True,
    ) -> str:
        """Run with what `options` and `reduce` leave; everything that was printed."""
        policy = self.policy
        with stubs.held(policy.state_dir, protected.stub_candidates(policy.workspace, policy.link)):
            found = protected.survey(policy.workspace, policy.link, policy.nested)
            planned = reduce(mounts.arrange(layout.gather(policy, found, ())))
            allow_all = seccomp.program()[-8:]
            filter_fd = os.memfd_create("filter")
            os.write(filter_fd, seccomp.program() if filtered else allow_all)
            os.lseek(filter_fd, 0, os.SEEK_SET)
            planned_options = bwrap.options(planned, directory=policy.workspace)
            arguments = options(planned_options.decode().split("\0")[:-1])
            arguments += ["--seccomp", str(filter_fd)]
            done = subprocess.run(
                ["bwrap", *arguments, "--", "/bin/bash", "-c", command],
                env=policy.environment,
                pass_fds=(filter_fd,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=30,
                check=False,
            )
            os.close(filter_fd)
        return done.stdout.decode("utf-8", "replace")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A repository as workspace."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    policy = Policy.for_workspace(str(workspace), state_dir=str(tmp_path / "state"))
    yield Bench(policy)
    policy.discard()


def without(*words: str) -> Reduce:
    """Leaves out one run of options."""

    def reduce(options: list[str]) -> list[str]:
        for start in range(len(options)):
            if tuple(options[start : start + len(words)]) == words:
                return options[:start] + options[start + len(words) :]
        raise AssertionError(f"{words} is no option")

    return reduce


@_AS_ROOT
def test_read_only_proc_keeps_kernel_settings(bench: Bench) -> None:
    """F1: what root outside owns below /proc/sys, root inside could write."""
    command = "(exec 3<>/proc/sys/kernel/panic) 2>/dev/null && echo open || echo shut"
    assert "shut\n" == bench.run(command)
    assert "open\n" == bench.run(command, options=without("--remount-ro", "/proc"))


@_AS_ROOT
def test_dropped_capabilities_keep_the_masks(bench: Bench) -> None:
    """F1: root would keep all capabilities and could unmount what protects the config."""
    command = "umount .git/config 2>/dev/null && echo gone || echo kept"
    assert "kept\n" == bench.run(command, options=without("--disable-userns"), filtered=False)
    assert "gone\n" == bench.run(
        command,
        options=lambda found: without("--cap-drop", "ALL")(without("--disable-userns")(found)),
        filtered=False,
    )


def test_pinned_git_folder_cannot_be_swapped(bench: Bench) -> None:
    """F2: a folder that is no mount point takes its protected files with it when renamed."""
    command = "mv .git .g2 2>/dev/null && mkdir .git && echo swapped || echo kept"
    git = f"{bench.policy.workspace}/.git"

    def unpinned(planned: tuple[Mount, ...]) -> tuple[Mount, ...]:
        return tuple(mount for mount in planned if mount.dest != git)

    assert "kept\n" == bench.run(command)
    assert "swapped\n" == bench.run(command, reduce=unpinned)


def test_stand_ins_keep_absent_paths_absent(bench: Bench) -> None:
    """Without a mount in its place a protected path could simply be made."""
    command = "(echo evil > .envrc) 2>/dev/null && echo made || echo kept"
    path = f"{bench.policy.workspace}/.envrc"

    def unguarded(planned: tuple[Mount, ...]) -> tuple[Mount, ...]:
        return tuple(mount for mount in planned if mount.dest != path)

    assert "kept\n" == bench.run(command)
    assert "made\n" == bench.run("rmdir .envrc; " + command, reduce=unguarded)


def test_private_home_hides_the_real_one(bench: Bench) -> None:
    """Without it the home is readable like the rest of the system."""

    def open_home(planned: tuple[Mount, ...]) -> tuple[Mount, ...]:
        return tuple(m for m in planned if not m.dest.startswith(bench.policy.homes[0]))

    if not bench.policy.homes or len(os.listdir(bench.policy.homes[0])) < 5:
        pytest.skip("this user's home has nothing to hide")
    inside = bench.run("ls -A ~").split()
    outside = bench.run("ls -A ~", reduce=open_home).split()
    assert set(inside) < set(outside)


def test_run_is_hidden(bench: Bench) -> None:
    """The sockets of system services lie there."""

    def open_run(planned: tuple[Mount, ...]) -> tuple[Mount, ...]:
        return tuple(m for m in planned if not (isinstance(m, Tmpfs) and m.dest == "/run"))

    assert "" == bench.run("ls /run")
    assert sorted(os.listdir("/run")) == sorted(bench.run("ls -A /run", reduce=open_run).split())


def test_filter_refuses_set_user_id(bench: Bench) -> None:
    """F8: the bit would stay on the host's file."""
    command = "cp /bin/true t; chmod 4755 t 2>/dev/null && echo set || echo refused; rm t"
    assert "refused\n" == bench.run(command)
    assert "set\n" == bench.run(command, filtered=False)


def test_environment_of_popen_is_what_hides_secrets(bench: Bench) -> None:
    """F3: bwrap's own flags leave what it was started with readable as /proc/1/environ."""
    done = subprocess.run(
        [
            *("bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/"),
            *("--proc", "/proc", "--clearenv", "--", "/bin/cat", "/proc/1/environ"),
        ],
        env={"SECRET": "tkn-0123456789"},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert b"tkn-0123456789" in done.stdout
    assert "tkn" not in bench.run("cat /proc/1/environ")


def test_network_namespace_is_what_isolates(bench: Bench) -> None:
    """Without it the host's interfaces are there."""
    command = "grep -c : /proc/net/dev"
    assert "1\n" == bench.run(command)
    with open("/proc/net/dev", encoding="ascii") as table:
        interfaces = table.read().count(":")
    assert f"{interfaces}\n" == bench.run(command, options=without("--unshare-net"))


def test_a_mask_over_an_outer_folder_is_in_place_before_binds(bench: Bench) -> None:
    """The order of mounts is the policy: the workspace last, its protected paths after it."""
    policy = bench.policy
    found = protected.survey(policy.workspace, policy.link, policy.nested)
    planned = mounts.arrange(layout.gather(policy, found, ()))
    order = [mount.dest for mount in planned]
    assert order.index("/tmp") < order.index(policy.workspace)
    assert order.index(policy.workspace) < order.index(f"{policy.workspace}/.git")
    git = order.index(f"{policy.workspace}/.git")
    assert git < order.index(f"{policy.workspace}/.git/config")
    assert Bind(policy.workspace, policy.workspace, writable=True) in planned
