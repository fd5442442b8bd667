"""Which files of a tree grep searches."""

from __future__ import annotations

import attrs

from term2_acp.tools.glob_pattern import GlobPattern
from term2_acp.tools.walking import Parts


@attrs.frozen
class FileFilter:
    """Which files of a tree are searched."""

    _include: GlobPattern | None
    _exclude: GlobPattern | None

    @classmethod
    def parse(cls, include: str | None, exclude: str | None) -> FileFilter:
        """
        Read the two globs.

        Raises:
            ToolError: one of them is no glob relative to the folder.
        """
        return cls(_glob("include", include), _glob("exclude", exclude))

    def takes(self, parts: Parts) -> bool:
        """Whether to search a file, given its path below the root of the search."""
        included = self._include is None or self._include.matches(parts)
        return included and self.enters(parts)

    def enters(self, parts: Parts) -> bool:
        """Whether to go into a folder."""
        return self._exclude is None or not self._exclude.matches(parts)


def _glob(parameter: str, pattern: str | None) -> GlobPattern | None:
    if pattern is None:
        return None
    pattern = pattern.rstrip("/")
    return GlobPattern.parse(parameter, pattern if "/" in pattern else f"**/{pattern}")
