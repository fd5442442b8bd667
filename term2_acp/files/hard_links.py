"""
The names of a file that has several (spec section 7: an edit reaches only what was allowed).

Writing into such a file changes it under all its names, and one of them may be where the call
may not write: a package store that a workspace is linked from, a protected path. So it is
written in place only when each of its names was found and may be edited by this call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress

MOST_ENTRIES = 500_000
"""So many entries of the workspace are looked at; in a larger one not all names are found."""


def all_names_allowed(
    path: str,
    status: os.stat_result,
    *,
    root: str,
    allowed: Callable[[str], bool],
    check: Callable[[], None],
) -> bool:
    """
    Whether every name of a file is known and allowed.

    Args:
        path: the real path that it was reached by, which is allowed.
        status: of the file.
        root: the folder to look for other names in.
        allowed: judges a real path.
        check: called for each folder; stops the search by raising.
    """
    names = {path}
    if len(names) == status.st_nlink:
        return True
    left = MOST_ENTRIES
    folders = [root]
    while folders:
        check()
        for entry in _entries(folders.pop()):
            left -= 1
            if left < 0:
                return False
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif entry.inode() == status.st_ino and _is_on(entry, status.st_dev):
                names.add(entry.path)
        if len(names) == status.st_nlink:
            return all(allowed(name) for name in names)
    return False


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    # What cannot be listed hides the names in it, so they are not found.
    with suppress(OSError), os.scandir(folder) as listing:
        yield from listing


def _is_on(entry: os.DirEntry[str], device: int) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_dev == device
    except OSError:
        return False
