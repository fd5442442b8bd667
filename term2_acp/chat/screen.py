"""The terminal's screen: what is printed for good, and a few live lines below it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.control import Control
from rich.segment import ControlType, Segment, Segments

from term2_acp.chat.visible import visible

_MAX_WIDTH = 120
_MIN_WIDTH = 20
_MAX_LIVE_LINES = 16


class _Guarded:
    """Lets only text through: the last line of defence against escape sequences."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._renderable, options):
            if not segment.control:
                yield Segment(visible(segment.text), segment.style)


class Screen:
    """
    Prints above live lines that are replaced; used on the main thread alone.

    The live lines are the last ones of the screen; they are drawn anew after each print and
    each change of the window's size.
    """

    def __init__(self, console: Console | None = None) -> None:
        if console is None:
            console = Console(highlight=False, markup=False, emoji=False, soft_wrap=False)
        self.console = console
        self._live: RenderableType | None = None
        # Widths in cells of the live lines that are on the screen.
        self._drawn: list[int] = []
        self._has_cursor = True

    @property
    def encoding(self) -> str:
        """How text is written."""
        return self.console.encoding

    @property
    def width(self) -> int:
        """Columns to lay out for; one is left free, where a full line might wrap."""
        return max(min(self.console.width - 1, _MAX_WIDTH), _MIN_WIDTH)

    def print(self, *renderables: RenderableType) -> None:
        """Print for good, above the live lines."""
        with self.console:
            self._erase()
            for renderable in renderables:
                self.console.print(Segments(self._segments(renderable)), end="")
            self._draw()

    def show_live(self, renderables: Sequence[RenderableType]) -> None:
        """Replace the live lines; without any they are gone."""
        with self.console:
            self._erase()
            self._live = Group(*renderables) if renderables else None
            self._draw()

    def _draw(self) -> None:
        self._show_cursor(show=self._live is None)
        if self._live is None:
            return
        lines = list(self._lines(self._live))
        height = max(min(self.console.height - 2, _MAX_LIVE_LINES), 1)
        lines = lines[-height:]
        self._drawn = [Segment.get_line_length(line) for line in lines]
        for number, line in enumerate(lines):
            end = [] if number == len(lines) - 1 else [Segment.line()]
            self.console.print(Segments([*line, *end]), end="")

    def _show_cursor(self, *, show: bool) -> None:
        if show != self._has_cursor:
            self._has_cursor = show
            self.console.show_cursor(show=show)

    def _erase(self) -> None:
        if not self._drawn:
            return
        columns = max(self.console.width, 1)
        # A terminal that became narrower has wrapped them.
        rows = sum(max(-(-width // columns), 1) for width in self._drawn)
        codes: list[ControlType | tuple[ControlType, int]] = [
            ControlType.CARRIAGE_RETURN,
            (ControlType.ERASE_IN_LINE, 2),
        ]
        for _ in range(rows - 1):
            codes += [(ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)]
        self.console.control(Control(*codes))
        self._drawn = []

    def _segments(self, renderable: RenderableType) -> Iterable[Segment]:
        for line in self._lines(renderable):
            yield from line
            yield Segment.line()

    def _lines(self, renderable: RenderableType) -> list[list[Segment]]:
        options = self.console.options.update(width=self.width, height=None)
        lines = self.console.render_lines(_Guarded(renderable), options, pad=False)
        return [_without_padding(line) for line in lines]


def _without_padding(line: list[Segment]) -> list[Segment]:
    """The line without blanks at its end, which would be copied along."""
    line = list(line)
    while line and not line[-1].text.strip(" "):
        line.pop()
    if line:
        line[-1] = Segment(line[-1].text.rstrip(" "), line[-1].style)
    return line


def make_output_lenient() -> None:
    """Let no character that the terminal's encoding lacks stop the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
