"""The macOS profile as text; it has not been run on a Mac."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from sandbox import Policy, seatbelt
from sandbox.git import GitLink
from sandbox.protected import FILES, FOLDERS


@pytest.fixture
def policy(tmp_path: Path) -> Iterator[Policy]:
    """A session in a workspace with a name that is full of syntax."""
    workspace = tmp_path / 'ws ") (allow default'
    workspace.mkdir()
    policy = Policy.for_workspace(
        str(workspace), state_dir=str(tmp_path / "state"), hidden=["/config"]
    )
    yield policy
    policy.discard()


def test_nothing_is_allowed_by_default(policy: Policy) -> None:
    """The tag shows in every denial."""
    text = seatbelt.profile(policy, tag="run-1").text
    assert text.startswith('(version 1)\n(deny default (with message "run-1"))\n')
    assert "network" not in text
    assert "(allow default" not in text


@pytest.mark.parametrize(
    ("clause", "present"),
    [
        pytest.param(r"^\(version 1\)$", True, id="1 version"),
        pytest.param(r'^\(deny default \(with message "t"\)\)$', True, id="1 default and tag"),
        pytest.param(r"^\(allow process-exec process-fork\)$", True, id="2 processes"),
        pytest.param(
            r"^\(allow signal process-info\* \(target same-sandbox\)\)$", True, id="2 signals"
        ),
        pytest.param(r"\(allow (signal|process-info\*)\)", False, id="2 to all"),
        pytest.param(r'^\(allow sysctl-read \(sysctl-name "hw', True, id="3 named settings"),
        pytest.param(r"sysctl-write|\(allow sysctl-read\)", False, id="3 other settings"),
        pytest.param(r"^\(allow ipc-posix-sem\)$", True, id="3 semaphores"),
        pytest.param(r"^\(allow mach-lookup \(global-name", True, id="3 named services"),
        pytest.param(r"opendirectoryd\.libinfo", True, id="3 user names"),
        pytest.param(
            r"(?i)SecurityServer|securityd|trustd|launchservices|pasteboard|appleevent|coreservices",
            False,
            id="3 keychain, pasteboard, launch services",
        ),
        pytest.param(r"\(allow mach-lookup\)|mach-register|iokit|job-creation", False, id="3 rest"),
        pytest.param(r"^\(allow file-read\*\)$", True, id="4 the system"),
        pytest.param(r"^\(allow file-write\* \(subpath", True, id="5 the workspace"),
        pytest.param(r"^\(allow file-write\*\)", False, id="5 everywhere"),
        pytest.param(r'^\(allow file-write\*.*\(literal "/dev/null"\)', True, id="5 devices"),
        pytest.param(r'file-ioctl \(regex #"\^/dev/ttys\[0-9\]\+\$"\)', True, id="5 terminals"),
        pytest.param(r"^\(deny file-write\* \(require-all \(subpath", True, id="6 protected"),
        pytest.param(r"^\(deny file-write-unlink \(literal", True, id="6 folders around"),
        pytest.param(r"network|socket|com\.apple\.dnssd", False, id="7 network"),
        pytest.param(r"\(deny file-write-setugid\)\n\Z", True, id="set-user-ID, last"),
    ],
)
def test_each_clause_of_the_outline(policy: Policy, clause: str, present: bool) -> None:
    """What is allowed is named; what is not named is denied."""
    text = seatbelt.profile(policy, tag="t").text
    assert present == bool(re.search(clause, text, re.MULTILINE))


def test_folders_around_what_is_protected_cannot_be_moved(policy: Policy) -> None:
    """On the way to it, inside the workspace, and not the workspace itself (F2)."""
    nested = f"{policy.workspace}/a/b/.envrc"
    found = seatbelt.profile(attrs.evolve(policy, nested=(nested,)), tag="t")
    line = next(x for x in found.text.splitlines() if x.startswith("(deny file-write-unlink"))
    names = re.findall(r'"(\w+)"', line)
    paths = dict(found.parameters)
    assert {"/.git", "/.github", "/a", "/a/b"} == {
        paths[name].removeprefix(policy.workspace) for name in names
    }


def test_what_a_protected_link_leads_to_is_denied(policy: Policy) -> None:
    """By its path, after the workspace was allowed."""
    target = f"{policy.workspace}/dotfiles/bashrc"
    found = seatbelt.profile(policy, tag="t", read_only=[target])
    (name,) = [name for name, path in found.parameters if path == target]
    assert f'(deny file-write* (subpath (param "{name}")))' in found.text
    assert found.text.index("allow file-write*") < found.text.index(f'"{name}"')


def test_paths_are_parameters_and_never_text(policy: Policy) -> None:
    """No folder's name can change the profile."""
    found = seatbelt.profile(policy, tag="t")
    assert policy.workspace not in found.text
    assert policy.workspace in dict(found.parameters).values()
    assert set(re.findall(r'\(param "(\w+)"\)', found.text)) == set(dict(found.parameters))


def test_rules_come_in_an_order_in_which_the_last_wins(policy: Policy) -> None:
    """Home denied, workspace allowed, protected denied, hidden denied, private allowed."""
    found = seatbelt.profile(policy, tag="t")
    lines = found.text.splitlines()

    def place(operation: str, path: str) -> int:
        names = [name for name, value in found.parameters if value == path]
        return next(
            number
            for number, line in enumerate(lines)
            if line.startswith(f"({operation}") and any(f'"{name}"' in line for name in names)
        )

    protected = next(n for n, line in enumerate(lines) if "require-all" in line)
    order = [
        place("deny file-read*", policy.homes[0]) if policy.homes else 0,
        place("allow file-read*", policy.workspace),
        place("allow file-write*", policy.workspace),
        protected,
        place("deny file-read* file-write*", policy.state_dir),
        place("allow file-read* file-write*", policy.folders.home),
    ]
    assert sorted(order) == order
    assert place("deny file-read* file-write*", "/config") == order[4]


@pytest.mark.parametrize("name", [*FOLDERS, *FILES, ".git/hooks", ".git/config"])
def test_protected_names_match_at_any_depth_and_in_any_case(policy: Policy, name: str) -> None:
    """Present or not; names that only look similar do not match."""
    text = seatbelt.profile(policy, tag="t").text
    pattern = re.search(r'require-all .* \(regex #"([^"]+)"\)', text)
    assert pattern
    for path in (f"/ws/{name}", f"/ws/a/{name.upper()}", f"/ws/{name}/inner"):
        assert re.search(pattern[1], path), path
    for path in (f"/ws/x{name}x", f"/ws/{name}2", "/ws/.git/refs/heads/main", "/ws/.git/index"):
        assert not re.search(pattern[1], path), path


def test_git_directory_of_a_worktree_is_writable_without_hooks_and_config(policy: Policy) -> None:
    """And the `.git` file itself stays."""
    link = GitLink("/repo/.git/worktrees/w", "/repo/.git", ("/repo/.git",))
    found = seatbelt.profile(attrs.evolve(policy, link=link), tag="t")
    paths = {path for _, path in found.parameters}
    assert {
        "/repo/.git",
        "/repo/.git/hooks",
        "/repo/.git/config",
        "/repo/.git/worktrees/w/commondir",
        f"{policy.workspace}/.git",
    } <= paths


def test_bare_repository_as_workspace_keeps_hooks_and_config(policy: Policy) -> None:
    """They lie at the top level there, where their names alone say nothing."""
    workspace = Path(policy.workspace)
    for name in ("objects", "refs"):
        (workspace / name).mkdir()
    before = {path for _, path in seatbelt.profile(policy, tag="t").parameters}
    (workspace / "HEAD").write_text("ref: refs/heads/main\n")
    found = {path for _, path in seatbelt.profile(policy, tag="t").parameters}
    assert {f"{workspace}/hooks", f"{workspace}/config"} <= found - before


def test_command_line_passes_profile_and_command_whole(policy: Policy) -> None:
    """The program is named by its absolute path."""
    found = seatbelt.profile(policy, tag="t")
    argv = seatbelt.command_line(seatbelt.SANDBOX_EXEC, found, "echo $HOME", policy.limits)
    assert ["/usr/bin/sandbox-exec", "-p", found.text] == argv[:3]
    assert ["/bin/bash", "echo $HOME"] == argv[-2:]
    assert argv[3:-5:2] == ["-D"] * len(found.parameters)
    assert f"ulimit -n {policy.limits.open_files}" in argv[-3]


def test_home_and_tmp_are_the_private_folders(policy: Policy) -> None:
    """Nothing can be mounted there, so the variables lead to them."""
    found = seatbelt.environment(policy, tag="run-1")
    assert (policy.folders.home, policy.folders.tmp) == (found["HOME"], found["TMPDIR"])
    assert "run-1" == found[seatbelt.MARK]


@pytest.mark.parametrize("tag", ["", 'x"', "a b"])
def test_tag_must_be_plain(policy: Policy, tag: str) -> None:
    """It is pasted into the text."""
    with pytest.raises(ValueError, match="letters"):
        seatbelt.profile(policy, tag=tag)
