"""Markdown for a terminal: rendered without trust, and cut into blocks while it streams."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import attrs
from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.segment import Segment
from rich.syntax import Syntax

from term2_acp.chat.visible import TAB_WIDTH, visible

_THEME = "ansi_dark"
# What a block may have before it is given out in parts, so that no redraw is slow.
_MAX_OPEN_LINES = 30
_MAX_OPEN_CHARACTERS = 8000


class _Code(CodeBlock):
    """Code in the terminal's own colours, behind a bar."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = Syntax(
            str(self.text).rstrip("\n"),
            self.lexer_name,
            theme=self.theme,
            background_color="default",
            word_wrap=True,
        )
        inner = options.update(width=max(options.max_width - 2, 1), height=None)
        bar = Segment("  ", console.get_style("dim"))
        for line in console.render_lines(code, inner, pad=False):
            yield bar
            yield from line
            yield Segment.line()


class _Heading(Heading):
    """Every level at the left."""

    LEVEL_ALIGN: ClassVar = {}


class SafeMarkdown(Markdown):
    """
    Markdown of which nothing but text reaches the terminal.

    HTML is shown as it is written, links with their address; line ends inside of a
    paragraph are kept; entities cannot bring control characters back.
    """

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
        "heading_open": _Heading,
    }

    def __init__(self, markup: str) -> None:
        super().__init__("", code_theme=_THEME, hyperlinks=False)
        self.markup = markup
        self.parsed = _parse(markup)
        for token in self.parsed:
            _make_safe(token)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Without the empty lines that the base class puts around lists and tables."""
        rendered = super().__rich_console__(console, options)
        segments = [segment for segment in rendered if isinstance(segment, Segment)]
        lines = list(Segment.split_lines(segments))
        while lines and _is_blank(lines[0]):
            del lines[0]
        while lines and _is_blank(lines[-1]):
            del lines[-1]
        for line in lines:
            yield from line
            yield Segment.line()


def _is_blank(line: Sequence[Segment]) -> bool:
    return not "".join(segment.text for segment in line).strip()


def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


def _parse(markup: str) -> list[Token]:
    return _parser().parse(markup)


def _make_safe(token: Token) -> None:
    token.content = visible(token.content).expandtabs(TAB_WIDTH)
    token.info = visible(token.info)
    for name, value in token.attrs.items():
        if isinstance(value, str):
            token.attrs[name] = visible(value)
    if token.type == "softbreak":
        token.type = "hardbreak"
    elif token.type == "image":
        token.type, token.tag, token.children = "text", "", None
        token.content = f"[image: {token.content}] ({token.attrs.get('src', '')})"
    for child in token.children or ():
        _make_safe(child)


@attrs.frozen
class Piece:
    """
    Markdown that will not change any more.

    Args:
        source: whole lines.
        continues: it goes on with the block of the piece before it.
    """

    source: str
    continues: bool


class MarkdownStream:
    """
    Cuts Markdown that is still coming in into pieces that can be shown for good.

    `feed` gives what is finished; `rest` is the block that is open. A block that grows too
    long is given out in parts: a list item by item, code and text by lines.
    """

    def __init__(self) -> None:
        self._open = ""
        self._held = ""
        self._continues = False

    @property
    def rest(self) -> str:
        """The source of the block that is still open."""
        return self._open

    def feed(self, text: str) -> list[Piece]:
        """Add text; the pieces that it finished."""
        text = self._held + text
        # A line end may come in two halves.
        self._held = "\r" if text.endswith("\r") else ""
        text = visible(text.removesuffix("\r"))
        self._open += text
        if "\n" not in text and len(self._open) < _MAX_OPEN_CHARACTERS:
            return []
        pieces = self._closed()
        lines = _lines(self._open)
        if len(lines) > _MAX_OPEN_LINES or len(self._open) > _MAX_OPEN_CHARACTERS:
            pieces += self._part(lines)
        return pieces

    def finish(self) -> list[Piece]:
        """What was open, if it has anything."""
        self._open += visible(self._held)
        pieces = self._closed()
        rest = self._open
        self._open = self._held = ""
        return [*pieces, *self._piece(rest)]

    def _closed(self) -> list[Piece]:
        """Take the blocks that another block follows."""
        lines = _lines(self._open)
        starts = [token.map[0] for token in _parse(self._open) if not token.level and token.map]
        if not starts:
            return []
        self._open = "".join(lines[starts[-1] :])
        return [
            piece
            for start, end in pairwise(starts)
            for piece in self._piece("".join(lines[start:end]))
        ]

    def _part(self, lines: Sequence[str]) -> list[Piece]:
        """Give out the beginning of a block that is too long to be kept open."""
        tokens = _parse(self._open)
        items = [
            token.map[0]
            for token in tokens
            if token.type == "list_item_open" and token.level == 1 and token.map
        ]
        head: Sequence[str]
        rest: Sequence[str]
        if tokens and tokens[0].type == "fence" and len(lines) > 2:
            opening, *code = lines
            head, rest = [opening, *code[:-1]], [opening, code[-1]]
        elif len(items) > 1:
            head, rest = lines[: items[-1]], lines[items[-1] :]
        elif len(lines) > 1:
            head, rest = lines[:-1], lines[-1:]
        else:
            end = self._open.rfind(" ") + 1 or len(self._open)
            head, rest = [self._open[:end]], [self._open[end:]]
        pieces = self._piece("".join(head))
        self._open = "".join(rest)
        self._continues = True
        return pieces

    def _piece(self, source: str) -> list[Piece]:
        continues, self._continues = self._continues, False
        return [Piece(source, continues)] if _has_something(source) else []


def _lines(text: str) -> list[str]:
    """The lines with their ends, as Markdown counts them."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines


def _has_something(source: str) -> bool:
    """Whether it shows anything: neither blank nor the bare end of code given out before."""
    if not source.strip():
        return False
    tokens = _parse(source)
    return not (len(tokens) == 1 and tokens[0].type == "fence" and not tokens[0].content.strip())
