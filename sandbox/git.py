"""
The git directory behind the `.git` file of a worktree or submodule.

Resolved once, when a session starts (spec section 9): nothing that a sandboxed
command can write later decides what is bound.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

import attrs

from sandbox import paths

_SMALL_FILE = 64 * 1024
_READ_BY_GIT = ("HEAD", "commondir", "config", "config.worktree")


@attrs.frozen
class GitLink:
    """
    The directories behind the `.git` file of a worktree or submodule, checked.

    `writable` are the folders to bind: the common directory as a whole, or, where
    that would hold the workspace too (worktrees inside a bare repository), only
    what a commit writes.
    """

    git_dir: str
    common_dir: str
    writable: tuple[str, ...]


def resolve_link(workspace: str, *, never: Iterable[str] = ()) -> GitLink | None:
    """
    The checked target of the workspace's `.git` file; None if there is none or it does not check.

    It checks when the directory that the file names points back at this workspace:
    `gitdir` of a worktree, `core.worktree` of a submodule. A `.git` file that was
    forged in the workspace can therefore not open any other directory.

    Args:
        workspace: real path.
        never: folders that must not become writable, nor what contains them.
    """
    dot_git = os.path.join(workspace, ".git")
    named = _read_pointer(dot_git, "gitdir: ", workspace)
    if named is None or not os.path.isdir(named):
        return None
    common = _read_pointer(os.path.join(named, "commondir"), "", named)
    if common is None:
        common = named
        checked = _submodule_points_back(named, workspace)
    else:
        # `commondir` alone proves nothing: it could have been written in a sandbox.
        nested = os.path.dirname(named) == os.path.join(common, "worktrees")
        back = _read_pointer(os.path.join(named, "gitdir"), "", named)
        checked = nested and back == dot_git
    if not checked or not is_repository(common):
        return None
    writable = _writable_parts(named, common, workspace)
    if any(paths.is_within(barred, part) for barred in never for part in writable):
        return None
    return GitLink(git_dir=named, common_dir=common, writable=writable)


def opened_by_git(workspace: str) -> Iterator[str]:
    """
    What git may open to find out which repository `workspace` belongs to, and its settings.

    It looks for one there and in every folder above, also for a bare one.
    """
    folder = workspace
    while True:
        dot_git = os.path.join(folder, ".git")
        admins = [folder, dot_git]
        named = _read_pointer(dot_git, "gitdir: ", folder)
        if named is not None:
            common = _read_pointer(os.path.join(named, "commondir"), "", named)
            admins += [named, common or named]
        yield from (os.path.join(admin, name) for admin in admins for name in _READ_BY_GIT)
        if folder == "/":
            return
        folder = os.path.dirname(folder)


def _read_pointer(path: str, prefix: str, base: str) -> str | None:
    """The real path that a one-line git file names, None if it is no such regular file."""
    try:
        line = os.fsdecode(paths.read_file(path, _SMALL_FILE))
    except (OSError, ValueError):
        return None
    target = line.removeprefix(prefix).rstrip("\r\n")
    if not line.startswith(prefix) or not target or "\0" in target:
        return None
    return os.path.realpath(os.path.join(base, target))


def _submodule_points_back(git_dir: str, workspace: str) -> bool:
    config = os.path.join(git_dir, "config")
    try:
        worktree = _core_worktree(os.fsdecode(paths.read_file(config, _SMALL_FILE)))
    except OSError:
        return False
    if worktree is None or "\0" in worktree:
        return False
    return os.path.realpath(os.path.join(git_dir, worktree)) == workspace


def _core_worktree(config: str) -> str | None:
    """`core.worktree` as git itself writes it: its own line, quoted only around odd spaces."""
    section, found = "", None
    for line in config.split("\n"):
        text = line.strip()
        if text.startswith("["):
            section = text.strip("[]").lower()
        name, _, value = text.partition("=")
        if section == "core" and name.strip().lower() == "worktree":
            found = value.strip().strip('"').replace("\\\\", "\\").replace('\\"', '"')
    return found


def is_repository(path: str) -> bool:
    """Whether `path` looks to git like a git directory."""
    return os.path.isfile(os.path.join(path, "HEAD")) and all(
        os.path.isdir(os.path.join(path, name)) for name in ("objects", "refs")
    )


def _writable_parts(git_dir: str, common: str, workspace: str) -> tuple[str, ...]:
    if not paths.is_within(workspace, common):
        return (common,)
    # git makes this one when the first commit from a worktree needs it; inside it could not.
    with contextlib.suppress(OSError):
        os.mkdir(os.path.join(common, "logs"))
    parts = [git_dir] + [os.path.join(common, name) for name in ("objects", "refs", "logs")]
    return tuple(part for part in parts if os.path.isdir(part) and paths.is_real(part))
