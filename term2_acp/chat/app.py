"""`term2 chat`: puts the parts together, and goes from prompt to turn to prompt."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping

from term2_acp.chat.client import Client
from term2_acp.chat.commands import NAMES, UnknownCommandError, parse_command
from term2_acp.chat.diagnostics import Diagnostics
from term2_acp.chat.dialogue import Dialogue
from term2_acp.chat.events import Events, Signals
from term2_acp.chat.faults import (
    ChatError,
    InterruptedWaitError,
    Leave,
    RequestRefusedError,
    ServerFaultError,
)
from term2_acp.chat.history import PromptHistory
from term2_acp.chat.inbox import Inbox
from term2_acp.chat.keyboard import Keyboard, is_terminal
from term2_acp.chat.lines import Lines
from term2_acp.chat.plain_view import PlainView
from term2_acp.chat.prompting import Prompter, terminal_output
from term2_acp.chat.rendering import Glyphs, Renderer
from term2_acp.chat.running_commands import CommandRunner
from term2_acp.chat.screen import Screen, make_output_lenient
from term2_acp.chat.server import Server, server_argv
from term2_acp.chat.terminal_view import TerminalView
from term2_acp.chat.views import View
from term2_acp.chat.visible import visible_line

# The second of two quick Ctrl-C leaves, also when the turn ended between them.
_TWICE_S = 2.0
STATUS_FAULT = 1
STATUS_UNFINISHED = 2
"""In plain mode: a turn did not come to its normal end."""


def run(flags: Mapping[str, str]) -> int:
    """Start the server, talk with the user until one of them leaves; the exit status."""
    make_output_lenient()
    return Chat(flags).run()


class Chat:
    """
    Owns the server and every other part for the time that the program runs.

    Args:
        flags: the options of `term2 acp`, by name.
    """

    def __init__(self, flags: Mapping[str, str]) -> None:
        self._flags = flags
        self._has_ended = threading.Event()
        self._is_plain = not is_terminal()
        self._has_failed = False
        self._prompter: Prompter | None = None
        self._signals = Signals(self._interrupt_prompt)
        self._inbox = Inbox()
        self._diagnostics = Diagnostics()

    def run(self) -> int:
        """Talk to the end; the exit status."""
        # Until the end, so that nothing which is typed meanwhile is echoed into the text.
        keyboard = contextlib.nullcontext() if self._is_plain else Keyboard(0).raw()
        with self._signals.watched(), keyboard:
            try:
                server = Server(
                    server_argv(self._flags),
                    inbox=self._inbox,
                    diagnostics=self._diagnostics,
                    ended=self._note_end,
                )
            except OSError as error:
                sys.stderr.write(f"term2: the server cannot be started ({error.strerror})\n")
                return STATUS_FAULT
            try:
                return self._talk(server)
            except BrokenPipeError:
                _forget_stdout()
                return STATUS_FAULT
            except OSError as error:
                _forget_stdout()
                sys.stderr.write(f"term2: the output cannot be written ({error.strerror})\n")
                return STATUS_FAULT
            finally:
                server.close()

    def _talk(self, server: Server) -> int:
        dialogue = Dialogue(
            Client(server.send), Events(self._inbox, self._signals), self._diagnostics
        )
        dialogue.view = view = self._make_view(dialogue)
        is_open = False
        try:
            dialogue.initialize()
            dialogue.open_new(_folder())
            is_open = True
            view.greet(dialogue.conversation)
            self._converse(dialogue, view)
        except Leave as leave:
            return leave.status or self._status()
        except InterruptedWaitError:
            return 128 + signal.SIGINT
        except EOFError:
            return self._status()
        except ServerFaultError as fault:
            self._tell_end(server, fault, dialogue, is_open=is_open)
        except ChatError as error:
            view.complain(str(error))
        finally:
            view.clear()
        return STATUS_FAULT

    def _converse(self, dialogue: Dialogue, view: View) -> None:
        commands = CommandRunner(dialogue, view)
        is_warned = False
        while True:
            try:
                dialogue.catch_up()
                text = view.read_prompt()
            except InterruptedWaitError:
                if is_warned or self._is_plain or _is_recent(dialogue.cancelled_at):
                    raise Leave(128 + signal.SIGINT) from None
                is_warned = True
                view.say("Ctrl-C once more, or Ctrl-D, leaves")
                continue
            if not text.strip():
                continue
            is_warned = False
            try:
                command = parse_command(text)
                if command is not None:
                    commands.run(command)
                else:
                    self._has_failed |= dialogue.run_turn(text) != "end_turn"
            except (RequestRefusedError, InterruptedWaitError, UnknownCommandError) as error:
                self._has_failed = True
                view.complain(str(error))

    def _status(self) -> int:
        return STATUS_UNFINISHED if self._is_plain and self._has_failed else 0

    def _make_view(self, dialogue: Dialogue) -> View:
        if self._is_plain:
            renderer = Renderer(Glyphs.for_encoding(sys.stdout.encoding))
            has_prompt = sys.stdin.isatty() and sys.stdout.isatty()
            return PlainView(renderer, Lines(0), dialogue.wait_typed, has_prompt=has_prompt)
        screen = Screen()
        self._prompter = Prompter(
            PromptHistory.of_user(),
            [f":{name}" for name in NAMES],
            output=terminal_output,
            is_needed_elsewhere=lambda: self._has_ended.is_set() or self._signals.is_pending,
            toggle_thoughts=lambda: dialogue.view.toggle_thoughts(dialogue.conversation),
        )
        renderer = Renderer(Glyphs.for_encoding(screen.encoding))
        return TerminalView(screen, renderer, self._prompter, Keyboard(0))

    def _note_end(self) -> None:
        self._has_ended.set()
        self._interrupt_prompt()

    def _interrupt_prompt(self) -> None:
        if self._prompter is not None:
            self._prompter.interrupt()

    def _tell_end(
        self, server: Server, fault: ServerFaultError, dialogue: Dialogue, *, is_open: bool
    ) -> None:
        """Say how the server ended, in its own words where it refused to start."""
        view = dialogue.view
        view.clear()
        status = server.end_status()
        last_words = self._diagnostics.last()
        if not is_open and status == 1 and last_words:
            sys.stderr.writelines(f"{visible_line(line)}\n" for line in last_words)
            return
        view.complain(f"{fault}{_ending(status)}")
        if last_words:
            view.complain("its last words were:")
            view.diagnostics(last_words)
        if is_open:
            session_id = dialogue.conversation.session_id
            view.say(f"The conversation is kept; go on with term2 chat and :resume {session_id}")


def _is_recent(moment: float | None) -> bool:
    return moment is not None and time.monotonic() - moment < _TWICE_S


def _ending(status: int | None) -> str:
    if status is None:
        return ""
    if status < 0:
        return f" (killed by {signal.Signals(-status).name})"
    return f" (exit status {status})"


def _forget_stdout() -> None:
    """Let the end of the program not stumble over output that nobody takes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _folder() -> str:
    """
    The folder that the user stands in.

    Raises:
        ChatError: it is not there any more, or may not be looked at.
    """
    try:
        return os.path.realpath(os.getcwd())
    except OSError as error:
        raise ChatError(
            f"the current folder cannot be used ({error.strerror}); cd to a project and try again"
        ) from None
