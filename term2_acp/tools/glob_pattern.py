"""Glob patterns over paths: `*`, `?`, `[...]`, `{a,b}`, and `**` for any number of folders."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import attrs

from term2_acp.agent.ports import ToolError

_ANY_FOLDERS = "**"
_MOST_ALTERNATIVES = 64
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


@attrs.frozen
class GlobPattern:
    """
    A pattern, ready to be compared with paths that are given as their components.

    It matches component by component, so that no pattern takes more than linear time in the
    length of a name. Upper and lower case differ.
    """

    _alternatives: tuple[tuple[str, ...], ...]

    @classmethod
    def parse(cls, parameter: str, pattern: str) -> GlobPattern:
        """
        Read a pattern relative to some folder.

        Args:
            parameter: the name of the tool's parameter, for errors.
            pattern: what the model gave.

        Raises:
            ToolError: the pattern is empty, absolute, leaves the folder, or has too many
                alternatives in braces.
        """
        alternatives = tuple(
            _segments(parameter, alternative) for alternative in _expand(parameter, pattern)
        )
        return cls(alternatives)

    @property
    def any_depth(self) -> bool:
        """Whether the pattern contains `**`."""
        return any(_ANY_FOLDERS in segments for segments in self._alternatives)

    def matches(self, parts: Sequence[str]) -> bool:
        """Whether the whole path matches."""
        return any(len(segments) in _reached(segments, parts) for segments in self._alternatives)

    def may_match_below(self, parts: Sequence[str]) -> bool:
        """Whether some path below the folder `parts` could match."""
        return any(
            any(position < len(segments) for position in _reached(segments, parts))
            for segments in self._alternatives
        )


def _reached(segments: Sequence[str], parts: Sequence[str]) -> set[int]:
    """Return how many segments may be used up by exactly these components, each way."""
    positions = _skip_any_folders(segments, {0})
    for part in parts:
        following = set()
        for position in positions:
            if position == len(segments):
                continue
            if segments[position] == _ANY_FOLDERS:
                following.add(position)
            elif _segment_matcher(segments[position])(part):
                following.add(position + 1)
        positions = _skip_any_folders(segments, following)
    return positions


def _skip_any_folders(segments: Sequence[str], positions: set[int]) -> set[int]:
    """Add the positions behind a `**`, which may stand for no folder."""
    closed = set(positions)
    for position, segment in enumerate(segments):
        if position in closed and segment == _ANY_FOLDERS:
            closed.add(position + 1)
    return closed


def _segments(parameter: str, pattern: str) -> tuple[str, ...]:
    if pattern.startswith("/"):
        raise ToolError(f"{parameter} {pattern!r} is absolute; give it relative to path.")
    segments = tuple(segment for segment in pattern.split("/") if segment not in ("", "."))
    if ".." in segments:
        raise ToolError(f"{parameter} {pattern!r} leaves the folder; give that folder as path.")
    if not segments:
        raise ToolError(f"{parameter} is empty; give a glob such as **/*.py.")
    return segments


def _expand(parameter: str, pattern: str) -> list[str]:
    """Write the braces out, the innermost ones first."""
    pending, done = [pattern], []
    while pending:
        current = pending.pop()
        braces = _BRACES.search(current)
        if braces is None:
            done.append(current)
        else:
            pending += [
                current[: braces.start()] + alternative + current[braces.end() :]
                for alternative in braces[1].split(",")
            ]
        if len(pending) + len(done) > _MOST_ALTERNATIVES:
            raise ToolError(
                f"{parameter} {pattern!r} stands for more than {_MOST_ALTERNATIVES} patterns; "
                "use fewer braces."
            )
    return done


@lru_cache(maxsize=256)
def _segment_matcher(segment: str) -> Callable[[str], object]:
    return re.compile(fnmatch.translate(segment)).match
