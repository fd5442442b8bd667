"""
Protected paths below the top level of a workspace, found once when a session starts.

The search is bounded, outermost folders first: the start of a session and the
number of mounts must not grow with the workspace.
"""

from __future__ import annotations

import itertools
import os
from collections import deque

from sandbox.errors import is_out_of_descriptors
from sandbox.protected import FILES, FOLDERS, GIT_NAMES

_MOST_ENTRIES = 20_000
_MOST_FOUND = 64
# Installed or built by programs, large, and not read by editors.
_SKIPPED = frozenset({".git", ".venv", "__pycache__", "node_modules", "target", "venv"})
_SIMPLE = frozenset(name for name in FOLDERS + FILES if "/" not in name)
_WORKFLOWS = os.path.join(".github", "workflows")


def find(workspace: str) -> tuple[str, ...]:
    """
    The existing protected paths below the top level of `workspace`, at most 64.

    Raises:
        OSError: too many files are open.
    """
    pending = deque([workspace])
    found: list[str] = []
    looked_at = 0
    while pending and looked_at < _MOST_ENTRIES and len(found) < _MOST_FOUND:
        folder = pending.popleft()
        try:
            with os.scandir(folder) as listing:
                entries = list(itertools.islice(listing, _MOST_ENTRIES))
        except OSError as error:
            if is_out_of_descriptors(error):
                raise
            continue
        looked_at += len(entries)
        for entry in entries:
            if folder != workspace:
                found += _protected_by(entry)
            if entry.name not in _SKIPPED and entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
    return tuple(found[:_MOST_FOUND])


def _protected_by(entry: os.DirEntry[str]) -> list[str]:
    if entry.name in _SIMPLE:
        return [entry.path]
    if entry.name == ".github":
        candidates = [os.path.join(os.path.dirname(entry.path), _WORKFLOWS)]
    elif entry.name == ".git" and entry.is_dir(follow_symlinks=False):
        candidates = [os.path.join(entry.path, name) for name in GIT_NAMES]
    elif entry.name == ".git":
        return [entry.path]
    else:
        return []
    return [path for path in candidates if os.path.lexists(path)]
