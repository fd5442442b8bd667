"""Git patch text of changed files, with absolute paths (ACP v2 `git_patch`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from term2_acp.agent.ports import FileChange
from term2_acp.handlers.difference import Opcode, common_ends, grouped, opcodes

_CONTEXT = 3
_NO_NEWLINE = "\\ No newline at end of file\n"


def git_patch(changes: Iterable[FileChange]) -> str:
    """One `diff --git` section for each change whose texts differ."""
    return "".join(line for change in changes for line in _section(change))


def _section(change: FileChange) -> Iterator[str]:
    if change.old == change.new:
        return
    path = _quote(change.path)
    mode = "100755" if change.is_executable else "100644"
    yield f"diff --git {path} {path}\n"
    if change.old is None:
        yield f"new file mode {mode}\n"
    elif change.new is None:
        yield f"deleted file mode {mode}\n"
    old, new = _lines(change.old, change), _lines(change.new, change)
    # Also for an empty file: without these git does not take an absolute path.
    yield f"--- {'/dev/null' if change.old is None else path}\n"
    yield f"+++ {'/dev/null' if change.new is None else path}\n"
    yield from _hunks(old, new, change.first_line - 1)


def _lines(text: str | None, change: FileChange) -> list[str]:
    """Lines with their ends; only a line feed ends a line in a patch."""
    if text is None:
        return []
    if change.has_bom and change.first_line == 1:
        text = f"\ufeff{text}"
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()
    return [*lines, last[:-1]] if last != "\n" else lines


def _quote(path: str) -> str:
    """Quote a path the way git does when it has to."""
    if not any(character in '"\\' or ord(character) < 32 for character in path):
        return path
    quoted = "".join(
        f"\\{character}"
        if character in '"\\'
        else f"\\{ord(character):03o}"
        if ord(character) < 32
        else character
        for character in path
    )
    return f'"{quoted}"'


def _hunks(old: Sequence[str], new: Sequence[str], before: int) -> Iterator[str]:
    for group in _groups(old, new):
        old_start, old_end = before + group[0][1], before + group[-1][2]
        new_start, new_end = before + group[0][3], before + group[-1][4]
        yield f"@@ -{_range(old_start, old_end)} +{_range(new_start, new_end)} @@\n"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from _marked(" ", old[i1:i2])
            else:
                yield from _marked("-", old[i1:i2])
                yield from _marked("+", new[j1:j2])


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n{_NO_NEWLINE}"


def _range(start: int, end: int) -> str:
    length = end - start
    # An empty range names the line before it.
    return f"{start + 1 if length else start},{length}"


def _groups(old: Sequence[str], new: Sequence[str]) -> list[list[Opcode]]:
    """Changed regions with context, found only where the texts differ."""
    head, tail = common_ends(old, new)
    # Context is kept so that grouping works across the edges.
    start, keep = max(head - _CONTEXT, 0), max(tail - _CONTEXT, 0)
    codes = opcodes(old[start : len(old) - keep], new[start : len(new) - keep])
    return [
        [(tag, i1 + start, i2 + start, j1 + start, j2 + start) for tag, i1, i2, j1, j2 in group]
        for group in grouped(codes, _CONTEXT)
    ]
