"""A permission question on a terminal: printed, answered by one key, settled (spec section 8)."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from term2_acp.chat.keyboard import CTRL_D, ESCAPE
from term2_acp.chat.layout import hanging
from term2_acp.chat.questions import Option, Question
from term2_acp.chat.rendering import Renderer
from term2_acp.chat.screen import Screen
from term2_acp.chat.views import NoAnswer
from term2_acp.chat.visible import visible_line

_MAX_LINES = 40


class TerminalQuestion:
    """
    The question that is shown. It takes keys once it is armed: when the keyboard was quiet.

    Args:
        question: what is asked; it is printed at once.
        screen: where.
    """

    def __init__(self, question: Question, screen: Screen, renderer: Renderer) -> None:
        self._question = question
        self._screen = screen
        self._renderer = renderer
        self._hidden: list[RenderableType] = []
        self.is_armed = False
        screen.print(*self._lines())

    @property
    def call_id(self) -> str | None:
        """The tool call that it is about."""
        return self._question.call.call_id if self._question.call is not None else None

    def is_key(self, text: str) -> bool:
        """Whether it is the key of an answer."""
        return self._question.option(text) is not None

    def answer(self, text: str) -> Option | None:
        """
        A digit chooses, Esc and Ctrl-D reject.

        Raises:
            NoAnswer: the question stays open.
        """
        if ESCAPE in text or CTRL_D in text:
            return self._question.rejection()
        if text == "v" and self._hidden:
            self._screen.print(*self._hidden)
            raise NoAnswer
        option = self._question.option(text)
        if option is None:
            raise NoAnswer
        return option

    def status_line(self) -> RenderableType:
        """Which keys there are."""
        count = len(self._question.options)
        keys = f"1-{count}" if count > 1 else "1"
        more = ", v shows all" if self._hidden else ""
        ready = f"press {keys}{more}; Esc rejects, Ctrl-C cancels the turn"
        return Text(ready if self.is_armed else "…", style="bold yellow")

    def _lines(self) -> list[RenderableType]:
        question = self._question
        title = visible_line(question.title)
        lines: list[RenderableType] = [Text(), self._renderer.question_line(title)]
        if question.description is not None:
            lines += self._renderer.described(question.description)
        if question.call is not None:
            details = self._renderer.details(question.call.raw_input, title)
            lines += self._renderer.head(details, _MAX_LINES, "v shows them")
            self._hidden = details if len(details) > _MAX_LINES else []
        for number, option in enumerate(question.options, 1):
            style = "green" if option.allows else "red"
            key = Text(f"  {number} ", style="bold", end="")
            lines.append(hanging(key, Text(visible_line(option.name), style=style)))
        return lines
