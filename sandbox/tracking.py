"""
Folders with protected paths in them, found again wherever a command has moved them.

Below the top level folders can be renamed, with what is protected in them. By its name
alone the next command would find that unprotected, and could then move it back.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Self

import attrs

from sandbox import paths
from sandbox.errors import is_out_of_descriptors

# Not on macOS, where the profile knows protected paths by their last names.
_PLACE = getattr(os, "O_PATH", 0)
# A folder may be moved between the question where it is and the look at that place.
_LOOKS = 50
_FLAGS = _PLACE | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@attrs.frozen
class Moved:
    """
    Protected paths whose folder is not where it was.

    Attributes:
        present: where they are now.
        gone: where they were, and where nothing must take their place.
        existing: all that there are, moved or not, by where they are now.
    """

    present: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    existing: frozenset[str] = frozenset()


@attrs.frozen
class Tracker:
    """
    Descriptors of the folders that hold `paths` in `workspace`; made by `follow`.

    May be asked from any thread; `close` ends it, and may be called again.
    """

    workspace: str
    paths: tuple[str, ...]
    _folders: dict[str, int] = attrs.field(factory=dict)

    @classmethod
    def follow(cls, workspace: str, found: Iterable[str]) -> Self:
        """
        Follow the folders of the paths `found`, which are real ones in `workspace`.

        Raises:
            OSError: too many files are open.
        """
        tracker = cls(workspace, tuple(found))
        with contextlib.ExitStack() as failed:
            failed.callback(tracker.close)
            for path in tracker.paths if _PLACE else ():
                folder = os.path.dirname(path)
                if folder not in tracker._folders:
                    try:
                        tracker._folders[folder] = os.open(folder, _FLAGS)
                    except OSError as error:
                        if is_out_of_descriptors(error):
                            raise
            failed.pop_all()
        return tracker

    def look(self) -> Moved:
        """Which of the paths were moved with their folder, within the workspace."""
        places = {folder: _place(opened) for folder, opened in list(self._folders.items())}
        present, gone, existing = [], [], set()
        for path in self.paths:
            folder, name = os.path.split(path)
            place = places.get(folder)
            if place is None:
                continue
            is_inside = paths.is_within(place, self.workspace)
            if is_inside and _exists(name, self._folders[folder]):
                existing.add(os.path.join(place, name))
            if place != folder:
                gone.append(path)
                if is_inside:
                    present.append(os.path.join(place, name))
        return Moved(tuple(present), tuple(gone), frozenset(existing))

    def returned(self, moved: Moved) -> frozenset[str]:
        """What of `moved` is where it was at first, in the same folder."""
        return frozenset(moved.gone).difference(self.look().gone)

    def close(self) -> None:
        """Let the descriptors go."""
        while self._folders:
            os.close(self._folders.popitem()[1])


def _exists(name: str, folder: int) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except OSError:
        return False
    return True


def _place(opened: int) -> str | None:
    """The path of an open folder, None if it was removed; the last one, if it keeps moving."""
    path = None
    for _ in range(_LOOKS):
        now = os.fstat(opened)
        if now.st_nlink == 0:
            return None
        with contextlib.suppress(OSError):
            path = os.readlink(f"/proc/self/fd/{opened}")
            if os.path.samestat(os.lstat(path), now):
                return path
    return path
