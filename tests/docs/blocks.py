"""The fenced blocks of the documents."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)")


@attrs.frozen
class Block:
    """A block: `kind` is the first word after the fence, `role` the rest."""

    document: str
    line: int
    kind: str
    role: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]


def documents() -> list[Path]:
    """Every document that a reader may follow."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


@cache
def blocks() -> tuple[Block, ...]:
    """Every block of every document."""
    return tuple(block for path in documents() for block in read(path))


def read(path: Path, root: Path = ROOT) -> list[Block]:
    """The blocks of one document; one that is never closed is an error."""
    name = path.relative_to(root).as_posix()
    found = []
    opened = None
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        match = FENCE.fullmatch(line.rstrip())
        if opened is None and match:
            kind, _, role = match["info"].strip().partition(" ")
            opened = (number, match, kind, role.strip(), [])
        elif opened is not None:
            start, fence, kind, role, lines = opened
            if match and match["fence"].startswith(fence["fence"]) and not match["info"]:
                text = "".join(f"{line}\n" for line in lines)
                found.append(Block(name, start, kind, role, text))
                opened = None
            else:
                lines.append(line.removeprefix(fence["indent"]))
    assert opened is None, f"{name}:{opened[0]}: the block is never closed"
    return found
