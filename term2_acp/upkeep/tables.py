"""Plain text for a person at a terminal."""

from __future__ import annotations

from collections.abc import Sequence

_GAP = "  "
_LEAST_LAST = 20


def printable(text: str) -> str:
    """A text on one line, without what would change the terminal."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """
    Columns side by side, a row a line.

    Args:
        header: the names of the columns.
        rows: the cells.
        width: characters of a line, to which the last column is cut; None cuts nothing.
    """
    cells = [header, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(header) - 1)]
    lines = []
    for row in cells:
        start = "".join(cell.ljust(w) + _GAP for cell, w in zip(row, widths, strict=False))
        last = row[-1]
        if width is not None:
            room = max(width - len(start), _LEAST_LAST)
            last = last if len(last) <= room else last[: room - 1] + "…"
        lines.append((start + last).rstrip())
    return "".join(f"{line}\n" for line in lines)


def bytes_of(count: int) -> str:
    """A size for people."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
