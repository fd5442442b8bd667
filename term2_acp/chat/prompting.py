"""Reads the user's next text with editing, history and several lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from term2_acp.chat.faults import InterruptedWaitError


class _AttentionNeeded(Exception):
    """Something happened that the prompt must not hold up."""


class Prompter:
    """
    A prompt on the terminal; `read` is for the main thread, `interrupt` for any.

    Args:
        history: where texts are remembered.
        commands: what Tab completes at the start of a text.
        is_needed_elsewhere: whether there is a reason not to wait for the user.
        toggle_thoughts: what Ctrl-T does.
        output: opens the terminal.
    """

    def __init__(
        self,
        history: History,
        commands: list[str],
        *,
        output: Callable[[], Output],
        is_needed_elsewhere: Callable[[], bool],
        toggle_thoughts: Callable[[], None],
    ) -> None:
        self._history = history
        self._commands = commands
        self._output = output
        self._is_needed_elsewhere = is_needed_elsewhere
        self._toggle_thoughts = toggle_thoughts
        self._session: PromptSession[str] | None = None

    def read(self, typed: str = "") -> str:
        """
        Let the user edit a text, beginning with what was typed before.

        Raises:
            EOFError: Ctrl-D on an empty text.
            InterruptedWaitError: Ctrl-C on an empty text, or something else is urgent.
        """
        if self._session is None:
            # Not before: it writes to the terminal, and the server may refuse to start.
            self._session = self._make_session()
        try:
            return self._session.prompt(default=typed, pre_run=self._check_soon)
        except KeyboardInterrupt:
            raise InterruptedWaitError from None
        except _AttentionNeeded:
            return ""

    def interrupt(self) -> None:
        """Let `read` look whether it is needed elsewhere; for any thread and signal handlers."""
        session = self._session
        loop = session.app.loop if session is not None else None
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._check)
            except RuntimeError:
                # The prompt ended at this very moment.
                return

    def _check_soon(self) -> None:
        # An end that came before the prompt was there found nobody to interrupt.
        self.interrupt()

    def _check(self) -> None:
        app = self._session.app if self._session is not None else None
        if app is not None and app.is_running and not app.is_done and self._is_needed_elsewhere():
            app.exit(exception=_AttentionNeeded())

    def _make_session(self) -> PromptSession[str]:
        return PromptSession(
            message=FormattedText([("bold ansicyan", "> ")]),
            multiline=True,
            prompt_continuation=_continuation,
            history=self._history,
            completer=WordCompleter(self._commands, sentence=True),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            key_bindings=_bindings(self._toggle_thoughts),
            output=self._output(),
        )


def _continuation(_width: int, _line: int, wraps: int) -> FormattedText:
    return FormattedText([("ansicyan", "  " if wraps else ". ")])


def _bindings(toggle_thoughts: Callable[[], None]) -> KeyBindings:
    bindings = KeyBindings()

    def submit(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        before = buffer.document.current_line_before_cursor
        if before.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor(1)
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    def clear_or_interrupt(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt())

    def thoughts(_event: KeyPressEvent) -> Any:
        return run_in_terminal(toggle_thoughts)

    bindings.add("enter")(submit)
    # What was typed before the prompt was there has line feeds, and so has what pexpect sends.
    bindings.add("c-j")(submit)
    bindings.add("escape", "enter")(new_line)
    bindings.add("escape", "c-j")(new_line)
    bindings.add("c-c")(clear_or_interrupt)
    bindings.add("<sigint>")(clear_or_interrupt)
    bindings.add("c-t")(thoughts)
    return bindings


def terminal_output() -> Output:
    """
    Standard output, without asking it where the cursor is.

    An answer that comes late would be taken for keys, and pexpect gives none.
    """
    return Vt100_Output(
        sys.stdout,
        _terminal_size,
        term=os.environ.get("TERM"),
        # What the environment wants, such as NO_COLOR.
        default_color_depth=ColorDepth.from_env(),
        enable_cpr=False,
    )


def _terminal_size() -> Size:
    columns, rows = os.get_terminal_size(sys.stdout.fileno())
    # Some terminals know no size.
    return Size(rows or 24, columns or 80)
