"""
The macOS profile of a session's policy, as text and arguments for `sandbox-exec`.

Pure, and tested as text only: it has NOT been run on a Mac; `sandbox_exec` runs it. What
it lacks compared with Linux: no process namespace (a command's group and descendants
are swept by hand), no private view of /tmp and the home (variables point there
instead), and denials can only be read from the system log by their tag.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

import attrs

from sandbox.git import is_repository
from sandbox.limits import BASH, Limits, gated
from sandbox.policy import Policy
from sandbox.protected import FILES, FOLDERS, GIT_NAMES

SANDBOX_EXEC = "/usr/bin/sandbox-exec"
MARK = "SANDBOX_CALL"
_SYSCTLS = (
    "hw.activecpu",
    "hw.byteorder",
    "hw.cachelinesize",
    "hw.logicalcpu",
    "hw.machine",
    "hw.memsize",
    "hw.ncpu",
    "hw.pagesize",
    "hw.physicalcpu",
    "kern.argmax",
    "kern.hostname",
    "kern.maxfilesperproc",
    "kern.ngroups",
    "kern.osproductversion",
    "kern.osrelease",
    "kern.ostype",
    "kern.osversion",
    "kern.version",
    "sysctl.proc_cputype",
)
# User names and groups; not the keychain, the pasteboard or launch services.
_MACH_SERVICES = (
    "com.apple.system.opendirectoryd.libinfo",
    "com.apple.system.opendirectoryd.membership",
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx")


@attrs.frozen
class Profile:
    """
    A profile and the paths in it.

    Paths are passed as parameters (`-D`) and never pasted into the text, so that no
    name of a folder can change what the profile says.
    """

    text: str
    parameters: tuple[tuple[str, str], ...]


def profile(policy: Policy, *, tag: str, read_only: Iterable[str] = ()) -> Profile:
    """
    The profile for commands of `policy`'s session; the last rule that matches wins.

    Args:
        policy: its paths must be canonical in the Mac's sense (/private/tmp, not /tmp).
        tag: appears in the system log with every denial.
        read_only: protected paths that their names do not show: what a protected name
            that is a link leads to.
    """
    if not re.fullmatch(r"[A-Za-z0-9-]+", tag):
        raise ValueError(f"tag {tag!r} must be letters, digits and dashes")
    names = _Parameters()
    workspace = names.subpath("WORKSPACE", policy.workspace)
    git = [names.subpath("GIT", path) for path in policy.writable[1:]]
    private = [names.subpath("PRIVATE", path) for path in (policy.folders.tmp, policy.folders.home)]
    homes = [names.subpath("HOME", home) for home in policy.homes]
    readable = [names.subpath("READABLE", item.source) for item in policy.readable]
    hidden = [names.subpath("HIDDEN", path) for path in policy.hidden]
    on_the_way = [
        names.literal("ANCESTOR", folder)
        for folder in _ancestors([policy.workspace, *policy.writable, policy.folders.path])
    ]
    rules = [
        "(version 1)",
        f'(deny default (with message "{tag}"))',
        "(allow process-exec process-fork)",
        "(allow signal process-info* (target same-sandbox))",
        _rule("allow sysctl-read", [f'(sysctl-name "{name}")' for name in _SYSCTLS]),
        "(allow ipc-posix-sem)",
        _rule("allow mach-lookup", [f'(global-name "{name}")' for name in _MACH_SERVICES]),
        "(allow file-read*)",
        _rule("deny file-read*", homes),
        _rule("allow file-read*", [workspace, *git, *readable]),
        _rule("allow file-read-metadata", on_the_way),
        _rule("allow file-write*", [workspace, *git, *(f'(literal "{d}")' for d in _DEVICES)]),
        '(allow file-write* file-ioctl (regex #"^/dev/ttys[0-9]+$"))',
        _rule("deny file-write*", [f"(require-all {workspace} {_protected()})"]),
        _rule("deny file-write*", [names.subpath("READONLY", path) for path in read_only]),
        _rule("deny file-write*", _git_admin(policy, names)),
        # Renaming a folder away would take what is protected in it along (finding F2).
        _rule("deny file-write-unlink", _pinned(policy, names)),
        _rule("deny file-read* file-write*", hidden),
        _rule("allow file-read* file-write*", private),
        # A set-user-ID file would outlive the sandbox (finding F8).
        "(deny file-write-setugid)",
    ]
    return Profile("\n".join(rule for rule in rules if rule) + "\n", names.values())


def command_line(program: str, found: Profile, command: str, limits: Limits) -> list[str]:
    """The argv by which `program`, sandbox-exec, runs `command` under the profile."""
    definitions = [part for name, path in found.parameters for part in ("-D", f"{name}={path}")]
    return [program, "-p", found.text, *definitions, *gated(command, limits, shell=BASH)]


def environment(policy: Policy, *, tag: str) -> dict[str, str]:
    """
    The policy's variables, leading to the private folders where they really are.

    `tag` is in it too, as `MARK`: by that a process is known that has left its group.
    """
    return {
        **policy.environment,
        "HOME": policy.folders.home,
        "TMPDIR": policy.folders.tmp,
        MARK: tag,
    }


@attrs.define
class _Parameters:
    _names: dict[str, str] = attrs.field(factory=dict)

    def subpath(self, kind: str, path: str) -> str:
        """A filter for `path` and everything below it."""
        return f'(subpath (param "{self._add(kind, path)}"))'

    def literal(self, kind: str, path: str) -> str:
        """A filter for `path` alone."""
        return f'(literal (param "{self._add(kind, path)}"))'

    def values(self) -> tuple[tuple[str, str], ...]:
        """All parameters so far."""
        return tuple(self._names.items())

    def _add(self, kind: str, path: str) -> str:
        name = f"{kind}_{len(self._names)}"
        self._names[name] = path
        return name


def _rule(operation: str, filters: Iterable[str]) -> str:
    """No filter at all would mean everything, so no rule then."""
    text = " ".join(filters)
    return f"({operation} {text})" if text else ""


def _protected() -> str:
    """Protected names at any depth, present or absent, without regard to case."""
    names = "|".join(_any_case(name) for name in (*FOLDERS, *FILES))
    git = "|".join(_any_case(name) for name in GIT_NAMES)
    folder = _any_case(".git")
    inner = f"(({_any_case('modules')}|{_any_case('worktrees')})/.+/)?"
    return f'(regex #"/(({names})|{folder}/{inner}({git}))(/|$)")'


def _any_case(name: str) -> str:
    return "".join(
        f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() else re.escape(letter)
        for letter in name
    )


def _git_admin(policy: Policy, names: _Parameters) -> list[str]:
    folders = [policy.link.git_dir, policy.link.common_dir] if policy.link else []
    if is_repository(policy.workspace):
        # A bare one.
        folders.append(policy.workspace)
    paths = [os.path.join(folder, name) for folder in dict.fromkeys(folders) for name in GIT_NAMES]
    if policy.link:
        paths.append(_dot_git(policy))
    return [names.subpath("ADMIN", path) for path in paths]


def _pinned(policy: Policy, names: _Parameters) -> list[str]:
    folders = [_dot_git(policy), os.path.join(policy.workspace, ".github")]
    folders += _ancestors(policy.nested, below=policy.workspace)
    return [names.literal("PINNED", folder) for folder in dict.fromkeys(folders)]


def _dot_git(policy: Policy) -> str:
    return os.path.join(policy.workspace, ".git")


def _ancestors(paths: Iterable[str], *, below: str = "") -> list[str]:
    found: dict[str, None] = {}
    for path in paths:
        folder = os.path.dirname(path)
        while folder not in ("/", below):
            found[folder] = None
            folder = os.path.dirname(folder)
    return sorted(found)
