"""
The paths in a workspace that no command may change (the table of spec section 7).

Listed freshly for every call, by names that are fixed here: what the workspace
holds can only add restrictions, never take one away.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

import attrs

from sandbox import paths
from sandbox.errors import is_out_of_descriptors
from sandbox.git import GitLink, is_repository
from sandbox.stubs import Stub
from sandbox.tracking import Moved

FOLDERS = (".vscode", ".idea", ".claude", ".cursor", ".github/workflows")
FILES = (
    ".bash_profile",
    ".bashrc",
    ".envrc",
    ".gitconfig",
    ".gitmodules",
    ".mcp.json",
    ".profile",
    ".ripgreprc",
    ".zprofile",
    ".zshrc",
)
# Of a git directory. `commondir` and `gitdir` say where git finds config and hooks.
GIT_NAMES = ("hooks", "config", "config.worktree", "commondir", "gitdir")
# A git directory with more modules or worktrees than this has them read-only as a whole.
_MOST_LISTED = 16
_MOST_LOOKED_AT = 256
_COMMON_DIR = "commondir"
# What makes a folder a git directory, of a module or of a worktree.
_SIGNS_OF_GIT = ("HEAD", "gitdir")
# An empty folder is invisible to git and easily removed again (finding F9), but where
# git expects a file only a file has the meaning of "absent".
_GIT_STUBS = {"hooks": None, "config": b"", "config.worktree": b"", _COMMON_DIR: b".\n"}


@attrs.frozen
class Survey:
    """
    What is to be bound read-only and what can only be watched.

    Attributes:
        read_only: existing real paths, each with the writable folder it lies in.
        pins: folders to bind onto themselves: a mount point cannot be renamed away with
            the protected path in it (finding F2). Not so far below the top level, where
            mount points would get in the way of ordinary renames; the audit covers those.
        links: protected names that are symlinks: those cannot be mounted on (finding F7).
        absent: what is not there, cannot be stood in for, and must not appear.
    """

    read_only: tuple[tuple[str, str], ...]
    pins: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    absent: tuple[tuple[str, str], ...]


def stub_candidates(workspace: str, link: GitLink | None) -> tuple[Stub, ...]:
    """What is to exist, empty, while a command runs, so that it cannot be created."""
    found = []
    for name in FOLDERS + FILES:
        path = os.path.join(workspace, name)
        found += [Stub(workspace, part, None) for part in paths.ancestors(path, workspace)]
        found.append(Stub(workspace, path, None))
    for root, admin in _admin_folders(workspace, link):
        if paths.kind(os.path.join(admin, "HEAD")) is None:
            continue
        found += [
            Stub(root, os.path.join(admin, name), content)
            for name, content in _GIT_STUBS.items()
            # A bare repository or a module with a `commondir` is another repository.
            if name != _COMMON_DIR or os.path.basename(admin) == ".git"
        ]
    return tuple(found)


_UNMOVED = Moved()


def survey(
    workspace: str, link: GitLink | None, nested: Iterable[str], moved: Moved = _UNMOVED
) -> Survey:
    """
    The protected paths that exist now.

    Args:
        workspace: real path.
        link: the checked target of a `.git` file.
        nested: further paths below the workspace, found when the session started.
        moved: those of them whose folder has another place now.
    """
    found = _Collected()
    for name in (*FOLDERS, *FILES):
        found.add(workspace, os.path.join(workspace, name))
    dot_git = os.path.join(workspace, ".git")
    if paths.kind(dot_git) == stat.S_IFLNK:
        found.add_links(workspace, paths.follow(dot_git)[0])
    elif paths.kind(dot_git) != stat.S_IFDIR:
        found.add(workspace, dot_git)
    for root, admin in _admin_folders(workspace, link):
        for path in _git_paths(admin):
            found.add(root, path)
    pins = {
        folder for path, root in found.read_only.items() for folder in paths.ancestors(path, root)
    }
    for path in (*nested, *moved.present):
        found.add(workspace, path)
    for path in moved.gone:
        if paths.kind(path) is None:
            found.absent[path] = workspace
    return Survey(
        tuple(sorted(found.read_only.items())),
        tuple(sorted(pins)),
        tuple(sorted(found.links.items())),
        tuple(sorted(found.absent.items())),
    )


@attrs.define
class _Collected:
    """Paths with the writable folder that each lies in."""

    read_only: dict[str, str] = attrs.field(factory=dict)
    links: dict[str, str] = attrs.field(factory=dict)
    absent: dict[str, str] = attrs.field(factory=dict)

    def add_links(self, root: str, met: Iterable[str]) -> None:
        """Replacing any of a chain of links would lead elsewhere."""
        self.links |= {link: root for link in met if paths.is_within(link, root)}

    def add(self, root: str, path: str) -> None:
        """Sort in `path` by what it, or the first obstacle on the way to it, is."""
        for part in (*paths.ancestors(path, root), path):
            kind = paths.kind(part)
            if kind == stat.S_IFLNK:
                met, target = paths.follow(path)
                self.add_links(root, met)
                if target is not None and paths.is_within(target, root) and target != root:
                    here = self.absent if paths.kind(target) is None else self.read_only
                    here[target] = root
                return
            if kind is None:
                if part == path and _is_gits_own(path):
                    self.absent[path] = root
                return
            if kind != stat.S_IFDIR or part == path:
                self.read_only[part] = root


def _is_gits_own(path: str) -> bool:
    """Whether `path` would have a meaning for git, as its folder is a git directory."""
    folder, name = os.path.split(path)
    return name in GIT_NAMES and any(
        paths.kind(os.path.join(folder, sign)) for sign in _SIGNS_OF_GIT
    )


def _admin_folders(workspace: str, link: GitLink | None) -> Iterator[tuple[str, str]]:
    """The git directories that commands can write, each with the writable folder around it."""
    roots = (workspace, *(link.writable if link else ()))
    named = [os.path.join(workspace, ".git")]
    if is_repository(workspace):
        # A bare one.
        named.append(workspace)
    if link:
        named += [link.git_dir, link.common_dir]
    for admin in dict.fromkeys(os.path.realpath(name) for name in named):
        root = paths.deepest(admin, roots)
        if root and paths.kind(admin) == stat.S_IFDIR:
            yield root, admin


def _git_paths(admin: str) -> Iterator[str]:
    yield from (os.path.join(admin, name) for name in GIT_NAMES)
    for collection in ("modules", "worktrees"):
        folder = os.path.join(admin, collection)
        if paths.kind(folder) != stat.S_IFDIR:
            continue
        members = _members(folder)
        if members is None:
            yield folder
        else:
            yield from (os.path.join(member, name) for member in members for name in GIT_NAMES)


def _members(folder: str) -> list[str] | None:
    """
    The git directories below `folder` (a name may have slashes).

    None if they are too many, or cannot be looked for as too many files are open.
    """
    pending, found, seen = [folder], [], 0
    while pending:
        try:
            with os.scandir(pending.pop()) as listing:
                entries = [entry for entry in listing if entry.is_dir(follow_symlinks=False)]
        except OSError as error:
            if is_out_of_descriptors(error):
                return None
            continue
        seen += len(entries)
        if seen > _MOST_LOOKED_AT:
            return None
        for entry in entries:
            if not any(paths.kind(os.path.join(entry.path, name)) for name in _SIGNS_OF_GIT):
                pending.append(entry.path)
                continue
            found.append(entry.path)
            if paths.kind(os.path.join(entry.path, "modules")) == stat.S_IFDIR:
                pending.append(os.path.join(entry.path, "modules"))
    return found if len(found) <= _MOST_LISTED else None
