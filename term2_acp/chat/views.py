"""What a turn needs of whatever shows it: the terminal's view, or plain lines."""

from __future__ import annotations

from typing import Protocol

from term2_acp.chat.client import SessionEntry
from term2_acp.chat.conversation import Conversation, Item
from term2_acp.chat.events import Source
from term2_acp.chat.questions import Option, Question


class NoAnswer(Exception):
    """What was typed is no answer; the question stays open."""


class View(Protocol):
    """Shows a conversation and takes the user's input; used on the main thread alone."""

    def greet(self, conversation: Conversation) -> None:
        """Say which session is open."""
        ...

    def read_prompt(self) -> str:
        """
        Wait for the user's next text.

        Raises:
            EOFError: there will be none.
            InterruptedWaitError: Ctrl-C.
            Leave: the user wants to leave, or a signal says so.
            ServerFaultError: the server ended meanwhile.
        """
        ...

    def begin_turn(self, conversation: Conversation) -> None:
        """A turn begins."""
        ...

    def show(self, item: Item) -> None:
        """An item of the conversation is new, or has changed."""
        ...

    def end_turn(self, stop_reason: str) -> None:
        """The turn is over; nothing of it follows."""
        ...

    def replay(self, conversation: Conversation, *, everything: bool) -> None:
        """Show a conversation that was resumed, or its end."""
        ...

    def ask(self, question: Question) -> None:
        """Show a question; its answer is typed."""
        ...

    def settle(self, choice: str) -> None:
        """The question that was shown is not open any more; say what became of it."""
        ...

    def source(self) -> Source | None:
        """Where input comes from now, or None if it is not to be read."""
        ...

    def typed(self, text: str | None) -> None:
        """Take input while no question is open."""
        ...

    def answer(self, question: Question, text: str | None) -> Option | None:
        """
        The option that was chosen; None if none was.

        Raises:
            NoAnswer: the question stays open.
        """
        ...

    def timeout_s(self) -> float | None:
        """Seconds until `tick` wants to be called, or None."""
        ...

    def tick(self) -> None:
        """Nothing came for `timeout_s`."""
        ...

    def resized(self) -> None:
        """The window has another size."""
        ...

    def cancelling(self) -> None:
        """The turn was cancelled; its end is waited for."""
        ...

    def say(self, text: str) -> None:
        """Tell the user something of the client's own."""
        ...

    def complain(self, text: str) -> None:
        """Tell the user that something is wrong."""
        ...

    def diagnostics(self, lines: list[str]) -> None:
        """Show what the server wrote to standard error."""
        ...

    def show_sessions(self, entries: list[SessionEntry], current: str) -> None:
        """List sessions by number."""
        ...

    def show_call(self, conversation: Conversation, number: int) -> None:
        """Show all of a tool call, counted from the last one."""
        ...

    def toggle_thoughts(self, conversation: Conversation) -> None:
        """Show thoughts in full from now on and the last one now, or fold them again."""
        ...

    def clear(self) -> None:
        """Remove what is shown only as long as a turn runs; more than once is fine."""
        ...
