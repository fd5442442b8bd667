"""Which paths the .gitignore files of a tree leave out."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs
from pathspec import GitIgnoreSpec

NAME = ".gitignore"
LIMIT = 1 << 18
"""The largest .gitignore that is read, in bytes."""

_MOST_RULES = 4000
# Rules become backtracking regular expressions: what a hostile repository could make slow
# with many wildcards is left out.
_MOST_WILDCARDS = 4
_MOST_WILDCARDS_IN_NAME = 3
_WILDCARD = re.compile(r"\*+")


@attrs.frozen
class IgnoreFile:
    """One .gitignore: its rules, and the folder they are relative to, as path components."""

    _folder: tuple[str, ...]
    _rules: GitIgnoreSpec

    @classmethod
    def parse(cls, folder: Sequence[str], data: bytes) -> IgnoreFile:
        """Read a file's content; as git does, a rule that makes no sense is passed over."""
        lines = data.decode("utf-8-sig", "surrogateescape").split("\n")[:_MOST_RULES]
        rules = [rule for rule in (line.removesuffix("\r") for line in lines) if _is_cheap(rule)]
        try:
            compiled = GitIgnoreSpec.from_lines(rules)
        except (ValueError, re.error):
            compiled = GitIgnoreSpec.from_lines(filter(_is_valid, rules))
        return cls(tuple(folder), compiled)

    def judge(self, parts: Sequence[str], *, folder: bool) -> bool | None:
        """Whether the rules ignore (or expressly keep) a path below; None if they say nothing."""
        relative = "/".join(parts[len(self._folder) :]) + ("/" if folder else "")
        return self._rules.check_file(relative).include


@attrs.frozen
class IgnoreRules:
    """The .gitignore files that apply in one folder, the outermost first."""

    _files: tuple[IgnoreFile, ...] = ()

    def and_file(self, file: IgnoreFile) -> IgnoreRules:
        """Return the rules together with those of a folder further in."""
        return IgnoreRules((*self._files, file))

    def ignore(self, parts: Sequence[str], *, folder: bool) -> bool:
        """Whether a path is ignored, given that no folder above it is: the innermost file wins."""
        for file in reversed(self._files):
            verdict = file.judge(parts, folder=folder)
            if verdict is not None:
                return verdict
        return False


def _is_cheap(rule: str) -> bool:
    names = [len(_WILDCARD.findall(name)) for name in rule.split("/")]
    return sum(names) <= _MOST_WILDCARDS and max(names) <= _MOST_WILDCARDS_IN_NAME


def _is_valid(rule: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([rule])
    except (ValueError, re.error):
        return False
    return True
