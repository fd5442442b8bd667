"""
Which processes belong to a command, where no namespace of processes holds them together.

As well as that can be found out: those in its group, what descends from them, and what
has the command's mark in its environment. A process that has left all three is missed.
"""

from __future__ import annotations

import os
import subprocess
import sys

_TIMEOUT_S = 5.0
_COLUMNS = ("-o", "pid=", "-o", "ppid=", "-o", "pgid=", "-o", "command=")
# Both show the environment after the arguments, where they may.
_DARWIN = ("/bin/ps", "-A", "-ww", "-E", *_COLUMNS)
_OTHERS = ("/bin/ps", "axwwe", *_COLUMNS)


def find(group: int, mark: str) -> set[int]:
    """
    The processes of `group`, their descendants, and those that have `mark` in the environment.

    Never this process itself; none where they cannot be listed.
    """
    try:
        listed = subprocess.run(
            _DARWIN if sys.platform == "darwin" else _OTHERS,
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return set()
    return choose(listed.decode("utf-8", "replace"), group, mark) - {os.getpid()}


def choose(listing: str, group: int, mark: str) -> set[int]:
    """Those of a listing: a process a line, its number, parent, group, and the rest."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    for line in listing.split("\n"):
        fields = line.split(None, 3)
        if len(fields) < 3 or not "".join(fields[:3]).isdecimal():
            continue
        pid, parent, own_group = map(int, fields[:3])
        parents[pid] = parent
        if own_group == group or mark in fields[3:][0].split() if fields[3:] else False:
            found.add(pid)
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found
