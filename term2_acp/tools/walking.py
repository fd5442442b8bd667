"""Walking a tree of files for glob and grep: sorted, granted paths only, .gitignore honoured."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress

import attrs

from term2_acp.agent.ports import ToolContext, ToolError
from term2_acp.files.errors import FileRefusedError, file_errors
from term2_acp.files.folder import Entry, EntryKind, OpenFolder
from term2_acp.files.scope import FileScope
from term2_acp.tools import ignoring
from term2_acp.tools.ignoring import IgnoreFile, IgnoreRules

_DEEPEST = 128
"""Folders held open at once by one walk."""

Parts = tuple[str, ...]


@attrs.define
class WalkGaps:
    """What a walk did not look at, though it was asked to."""

    too_deep: bool = attrs.field(default=False, init=False)
    rules: int = attrs.field(default=0, init=False)

    def notes(self) -> list[str]:
        """Say it to the model."""
        notes: list[str] = []
        if self.too_deep:
            notes.append(f"folders more than {_DEEPEST} deep were not searched")
        if self.rules:
            notes.append(f".gitignore rules not applied as too many or too slow: {self.rules}")
        return notes


@attrs.frozen
class Found:
    """
    A file, folder or symbolic link that a walk came by.

    Args:
        parts: its path below the root of the walk, as components.
        kind: what it is; a link is not followed.
    """

    parts: Parts
    kind: EntryKind
    _folder: OpenFolder

    @property
    def path(self) -> str:
        """Its absolute path, real but for a link itself."""
        return self._folder.path_of(self.parts[-1])

    def read(self, *, limit: int) -> bytes:
        """
        Read the file whole; only until the walk goes on.

        Raises:
            FileRefusedError: not granted, no regular file, or larger than `limit` bytes.
            OSError: it cannot be read.
        """
        return self._folder.read(self.parts[-1], limit=limit)


@attrs.frozen
class _Level:
    """One folder on the way down: what is left of it, and the rules that hold in it."""

    folder: OpenFolder
    parts: Parts
    rules: IgnoreRules
    entries: Iterator[Entry]


def is_folder(context: ToolContext, path: str) -> bool:
    """
    Whether a search at the real path `path` covers a folder (or else one file).

    Raises:
        ToolError: nothing is there, or it may not be looked at.
    """
    status = context.files.stat(path)
    if status is None:
        shown = context.workspace.display(path)
        raise ToolError(f"cannot search {shown}: there is no such file or folder.")
    return stat.S_ISDIR(status.st_mode)


def walk(
    files: FileScope,
    root: str,
    *,
    enter: Callable[[Parts], bool],
    honour_ignores: bool,
    check: Callable[[], None],
    gaps: WalkGaps,
) -> Generator[Found]:
    """
    Yield what is below the folder `root`, sorted by path; `.git` is always left out.

    Symbolic links are yielded but not followed: what they lead to inside the root is met
    under its real path anyway, and what lies outside must not be read through them. Folders
    that cannot be opened are passed over. Close the iterator to give the descriptors back.

    Args:
        files: what may be read.
        root: the real path of a folder.
        enter: whether to go into a folder, given its path below the root.
        honour_ignores: leave out what .gitignore files say, those above the root included
            as far as the workspace goes. A root that is ignored itself was asked for
            expressly: then only the files inside it count.
        check: called at every entry, also one that is left out; ends the walk by raising.
        gaps: takes what was not looked at.

    Raises:
        ToolError: the root cannot be listed.
    """
    above: Parts = ()
    rules = IgnoreRules()
    if honour_ignores and files.workspace.contains(root):
        above, rules = _rules_above(files, root, check, gaps)
    levels: list[_Level] = []
    try:
        with file_errors("list", files.workspace.display(root)):
            levels.append(_level(files.open_folder(root), above, rules, honour_ignores, gaps))
        while levels:
            level = levels[-1]
            entry = next(level.entries, None)
            if entry is None:
                levels.pop().folder.close()
                continue
            check()
            parts = (*level.parts, entry.name)
            if _is_left_out(level, entry, parts, files, check):
                continue
            found = Found(parts[len(above) :], entry.kind, level.folder)
            yield found
            if entry.kind is not EntryKind.FOLDER or not enter(found.parts):
                continue
            if len(levels) == _DEEPEST:
                gaps.too_deep = True
                continue
            # One that vanished or is closed to us is passed over.
            with suppress(OSError, FileRefusedError):
                below = level.folder.open(entry.name)
                levels.append(_level(below, parts, level.rules, honour_ignores, gaps))
    finally:
        for level in levels:
            level.folder.close()


def _rules_above(
    files: FileScope, root: str, check: Callable[[], None], gaps: WalkGaps
) -> tuple[Parts, IgnoreRules]:
    """Return where the root is in the workspace, and the rules of the folders above it."""
    top = files.workspace.root
    parts = tuple(part for part in root[len(top) :].split("/") if part)
    rules = IgnoreRules()
    for depth in range(len(parts)):
        path = os.path.join(top, *parts[:depth], ignoring.NAME)
        with suppress(ToolError):
            data = files.read(path, limit=ignoring.LIMIT)
            rules = _and_file(rules, parts[:depth], data, gaps)
        if rules.ignore(parts[: depth + 1], folder=True, check=check):
            return parts, IgnoreRules()
    return parts, rules


def _and_file(rules: IgnoreRules, folder: Parts, data: bytes, gaps: WalkGaps) -> IgnoreRules:
    file = IgnoreFile.parse(folder, data)
    gaps.rules += file.left_out
    return rules.and_file(file)


def _level(
    folder: OpenFolder, parts: Parts, rules: IgnoreRules, honour_ignores: bool, gaps: WalkGaps
) -> _Level:
    """List a folder that was just opened; it is closed again if that fails."""
    try:
        entries = folder.entries()
        if honour_ignores and Entry(ignoring.NAME, EntryKind.FILE) in entries:
            with suppress(OSError, FileRefusedError):
                data = folder.read(ignoring.NAME, limit=ignoring.LIMIT)
                rules = _and_file(rules, parts, data, gaps)
    except BaseException:
        folder.close()
        raise
    return _Level(folder, parts, rules, iter(sorted(entries, key=_path_order)))


def _is_left_out(
    level: _Level, entry: Entry, parts: Parts, files: FileScope, check: Callable[[], None]
) -> bool:
    return (
        entry.name == ".git"
        or entry.kind is EntryKind.OTHER
        or level.rules.ignore(parts, folder=entry.kind is EntryKind.FOLDER, check=check)
        or not files.may_read(level.folder.path_of(entry.name))
    )


def _path_order(entry: Entry) -> str:
    """Sort so that whole paths come out in order: `a-b`, `a/x`, `ab`."""
    return entry.name + "/" if entry.kind is EntryKind.FOLDER else entry.name
