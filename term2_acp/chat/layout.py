"""Text behind a prefix that every line of it keeps, also those that a narrow window makes."""

from __future__ import annotations

import attrs
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text


@attrs.frozen
class Prefixed:
    """
    One line of text that may be wrapped: no part of it stands at the edge of the window.

    There it could be taken for a line of the program's own, such as an answer that is offered.

    Args:
        first: before the line.
        rest: before what it is wrapped to, as wide as `first`.
    """

    first: Text
    rest: Text
    text: Text

    @property
    def plain(self) -> str:
        """The line as it is."""
        return f"{self.first.plain}{self.text.plain}"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(options.max_width - self.first.cell_len, 1)
        inner = options.update(width=width, height=None)
        lines = console.render_lines(self.text, inner, pad=False)
        for number, line in enumerate(lines):
            prefix = self.rest if number else self.first
            yield from prefix.render(console)
            yield from line
            yield Segment.line()


def hanging(first: Text, text: Text) -> Prefixed:
    """A line whose wrapped parts are indented below it."""
    return Prefixed(first, Text(" " * first.cell_len), text)
