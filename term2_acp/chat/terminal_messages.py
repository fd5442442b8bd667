"""What the agent says and thinks, on a terminal: what is finished for good, the rest live."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from term2_acp.chat.conversation import Message
from term2_acp.chat.markdown import MarkdownStream, Piece, SafeMarkdown
from term2_acp.chat.rendering import Renderer
from term2_acp.chat.screen import Screen
from term2_acp.chat.updates import Speaker


class TerminalMessages:
    """
    The message that is open, if any; `unfolds` says whether thoughts are shown in full.

    Args:
        screen: where finished pieces are printed.
    """

    def __init__(self, screen: Screen, renderer: Renderer) -> None:
        self._screen = screen
        self._renderer = renderer
        self._stream = MarkdownStream()
        self._open: Message | None = None
        self._shown_parts = 0
        self.unfolds = False

    @property
    def open_message(self) -> Message | None:
        """The message that more may come of."""
        return self._open

    def show(self, message: Message) -> None:
        """Print what is finished of a message; the one before it ends."""
        if message.speaker is Speaker.USER:
            # The user sees it already, where it was typed.
            return
        if message is not self._open:
            self.finish()
            self._open = message
        if message.speaker is Speaker.AGENT:
            for part in message.parts[self._shown_parts :]:
                self._print(self._stream.feed(part))
        self._shown_parts = len(message.parts)

    def finish(self) -> None:
        """Print the rest of the open message."""
        message, self._open = self._open, None
        self._shown_parts = 0
        if message is None:
            return
        if message.speaker is Speaker.AGENT:
            self._print(self._stream.finish())
        else:
            self._screen.print(self._thought(message))

    def live_lines(self) -> list[RenderableType]:
        """What is not printed yet of the open message."""
        if self._open is not None and self._open.speaker is Speaker.THOUGHT:
            return [self._thought(self._open)]
        if self._stream.rest.strip():
            return [Text(), SafeMarkdown(self._stream.rest)]
        return []

    def _thought(self, message: Message) -> RenderableType:
        render = self._renderer.thought if self.unfolds else self._renderer.folded_thought
        return render(message)

    def _print(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            between = [] if piece.continues else [Text()]
            self._screen.print(*between, SafeMarkdown(piece.source))
