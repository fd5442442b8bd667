"""Which paths the .gitignore files of a tree leave out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import attrs
from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

NAME = ".gitignore"
LIMIT = 1 << 18
"""The largest .gitignore that is read, in bytes."""

# What a hostile repository could make slow is left out.
_MOST_RULES = 2000
_MOST_ANY_FOLDERS = 3
_SIMPLE_SET = re.compile(r"\[[^]\[\\!^/]+\]")
_STARS = re.compile(r"(?:\[\^/\]\*)+")
# A star, what follows it within the name, and another star.
_BETWEEN_STARS = re.compile(
    r"\[\^/\]\*((?:\\.|\[\^/\](?!\*)|\[[^]\[\\^/]+\]|[^][(){}\\/*+?|.^$])+)(?=\[\^/\]\*)"
)


@attrs.frozen
class IgnoreFile:
    """
    One .gitignore: its rules, and the folder they are relative to, as path components.

    Args:
        left_out: how many rules are not applied, as too many or too slow to match.
    """

    _folder: tuple[str, ...]
    _rules: GitIgnoreSpec
    left_out: int

    @classmethod
    def parse(cls, folder: Sequence[str], data: bytes) -> IgnoreFile:
        """Read a file's content; as git does, a rule that makes no sense is passed over."""
        lines = data.decode("utf-8-sig", "surrogateescape").split("\n")
        given = [line.removesuffix("\r") for line in lines if line.strip() and line[0] != "#"]
        rules = [rule for rule in given[:_MOST_RULES] if _is_cheap(rule)]
        try:
            compiled = GitIgnoreSpec.from_lines(rules)
        except (ValueError, re.error):
            compiled = GitIgnoreSpec.from_lines(filter(_is_valid, rules))
        quick = GitIgnoreSpec(_without_backtracking(rule) for rule in compiled.patterns)
        return cls(tuple(folder), quick, len(given) - len(rules))

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

    def ignore(self, parts: Sequence[str], *, folder: bool, check: Callable[[], None]) -> bool:
        """
        Whether a path is ignored, given that no folder above it is: the innermost file wins.

        `check` is called again and again; it stops the search by raising.
        """
        for file in reversed(self._files):
            check()
            verdict = file.judge(parts, folder=folder)
            if verdict is not None:
                return verdict
        return False


def _is_cheap(rule: str) -> bool:
    names = rule.split("/")
    if sum("**" in name for name in names) > _MOST_ANY_FOLDERS:
        return False
    return not any(name.count("*") > 1 and "[" in _SIMPLE_SET.sub("", name) for name in names)


def _without_backtracking(rule: GitIgnoreSpecPattern) -> GitIgnoreSpecPattern:
    """
    Return a rule that matches the same in linear time for each name of a path.

    What is between two stars may be taken where it comes first: whatever follows it there
    can be matched by the second star.
    """
    if rule.regex is None or rule.include is None:
        return rule
    single = _STARS.sub("[^/]*", rule.regex.pattern)
    quick = _BETWEEN_STARS.sub(r"(?>[^/]*?\1)", single)
    return GitIgnoreSpecPattern(re.compile(quick, rule.regex.flags), rule.include)


def _is_valid(rule: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([rule])
    except (ValueError, re.error):
        return False
    return True
