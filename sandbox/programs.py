"""Finding programs on PATH, never in a folder that a sandboxed command can write."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from sandbox import paths


def find(name: str, environ: Mapping[str, str], *, never_in: Iterable[str]) -> str | None:
    """
    The absolute path of the first program `name` on PATH, or None.

    Relative PATH entries are passed over, and so is what lies in `never_in`, by
    its own or by its real path. No other place than PATH is tried.
    """
    refused = tuple(never_in)
    for folder in environ.get("PATH", "").split(os.pathsep):
        candidate = os.path.join(folder, name)
        if not os.path.isabs(folder) or not os.path.isfile(candidate):
            continue
        places = (os.path.normpath(candidate), os.path.realpath(candidate))
        if any(paths.is_within(place, area) for place in places for area in refused):
            continue
        if os.access(candidate, os.X_OK):
            return candidate
    return None
