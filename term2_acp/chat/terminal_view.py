"""A conversation on a terminal: finished things above, what still changes in live lines."""

from __future__ import annotations

import time

from rich.console import Group, RenderableType
from rich.text import Text

from term2_acp.chat.client import SessionEntry
from term2_acp.chat.conversation import Conversation, Item, Message, Plan, ToolCall
from term2_acp.chat.events import Source
from term2_acp.chat.keyboard import CTRL_T, Keyboard
from term2_acp.chat.layout import hanging
from term2_acp.chat.prompting import Prompter
from term2_acp.chat.questions import Option, Question
from term2_acp.chat.rendering import Limits, Renderer, shown_path
from term2_acp.chat.screen import Screen
from term2_acp.chat.terminal_messages import TerminalMessages
from term2_acp.chat.terminal_question import TerminalQuestion
from term2_acp.chat.updates import Speaker
from term2_acp.chat.views import NoAnswer
from term2_acp.chat.visible import visible, visible_line

_REDRAW_S = 0.05
_CLOCK_S = 1.0
# A question is answered by keys pressed for it, not by what was being typed anyway.
_QUIET_S = 0.3
_LIVE_OUTPUT = 6
_REPLAYED_ITEMS = 40
_STOP_REASONS = {
    "cancelled": "cancelled",
    "max_tokens": "the model was cut off at its limit of tokens",
    "max_turn_requests": "stopped after the most model calls that one turn may have",
    "refusal": "the model refused",
    "_term2_error": "failed",
}


class TerminalView:
    """
    The view for people.

    Args:
        screen: where everything is shown.
        prompter: reads prompts with editing.
        keyboard: reads keys during a turn.
    """

    def __init__(
        self, screen: Screen, renderer: Renderer, prompter: Prompter, keyboard: Keyboard
    ) -> None:
        self._screen = screen
        self._renderer = renderer
        self._prompter = prompter
        self._keyboard = keyboard
        self._is_in_turn = False
        self._conversation: Conversation | None = None
        self._messages = TerminalMessages(screen, renderer)
        self._shown_calls: set[str] = set()
        self._question: TerminalQuestion | None = None
        self._is_cancelling = False
        self._is_stale = False
        self._drawn_at = 0.0
        self._begun_at = 0.0
        self._quiet_since = 0.0
        self._typed_ahead = ""

    # --- prompts

    def greet(self, conversation: Conversation) -> None:
        """Say which session is open."""
        title = f" · {visible_line(conversation.title)}" if conversation.title else ""
        self._screen.print(
            Text(f"{visible_line(conversation.cwd)}{title}", style="dim"),
            Text(":help lists the commands and keys", style="dim"),
        )

    def read_prompt(self) -> str:
        """Let the user edit the next text."""
        typed, self._typed_ahead = self._typed_ahead.strip("\n"), ""
        return self._prompter.read(typed)

    # --- a turn

    def begin_turn(self, conversation: Conversation) -> None:
        """Show live lines and read keys from now on."""
        self._conversation = conversation
        self._begun_at = time.monotonic()
        self._is_cancelling = False
        self._is_in_turn = True
        self._draw()

    def show(self, item: Item) -> None:
        """Print what is finished of it; the rest is live."""
        match item:
            case Message():
                self._messages.show(item)
            case ToolCall() if item.is_over:
                self._messages.finish()
                self._show_call(item)
            case ToolCall() if self._messages.open_message is not None:
                self._messages.finish()
            case Plan():
                self._messages.finish()
                self._screen.print(self._renderer.plan(item))
        self._is_stale = True

    def end_turn(self, stop_reason: str) -> None:
        """Print what was open, and how the turn ended."""
        self.clear()
        if stop_reason == "end_turn":
            self._screen.print(Text(self._summary(), style="dim"), Text())
        else:
            style = "yellow" if stop_reason == "cancelled" else "bold red"
            text = _STOP_REASONS.get(stop_reason) or visible_line(stop_reason)
            told = Text.assemble((text, style), (f" · {self._summary()}", "dim"))
            self._screen.print(told, Text())

    def clear(self) -> None:
        """Remove the live lines; what they had of a message stays."""
        self._messages.finish()
        self._is_in_turn = False
        self._question = None
        self._screen.show_live([])

    def cancelling(self) -> None:
        """Say that the end is waited for."""
        self._is_cancelling = True
        self._draw()

    def replay(self, conversation: Conversation, *, everything: bool) -> None:
        """Print the items as they ended."""
        self._conversation = conversation
        items = conversation.items
        if not everything and len(items) > _REPLAYED_ITEMS:
            left_out = len(items) - _REPLAYED_ITEMS
            self.say(f"{left_out} earlier items; :history shows everything")
            items = items[left_out:]
        for item in items:
            self._replay_item(item)

    def _replay_item(self, item: Item) -> None:
        match item:
            case Message(Speaker.USER):
                lines = visible(item.text).split("\n")
                signs = ("> ", *("  " for _ in lines))
                said = [
                    hanging(Text(sign, style="bold cyan", end=""), Text(line))
                    for sign, line in zip(signs, lines, strict=False)
                ]
                self._screen.print(Text(), *said)
            case Message():
                self._messages.show(item)
                self._messages.finish()
            case ToolCall():
                self._print_call(item, Limits())
                self._shown_calls.add(item.call_id)
            case Plan():
                self._screen.print(self._renderer.plan(item))

    def _show_call(self, call: ToolCall) -> None:
        if call.call_id not in self._shown_calls:
            self._shown_calls.add(call.call_id)
            self._print_call(call, Limits())

    def _print_call(self, call: ToolCall, limits: Limits) -> None:
        if self._conversation is not None:
            self._screen.print(self._renderer.call(call, self._conversation, limits))

    def _summary(self) -> str:
        words = [_duration(time.monotonic() - self._begun_at)]
        usage = self._conversation.usage if self._conversation is not None else None
        if usage is not None and usage.size > 0:
            words.append(f"{100 * usage.used // usage.size}% of the context used")
        return " · ".join(words)

    # --- questions

    def ask(self, question: Question) -> None:
        """Print the question; it takes an answer once the keyboard is quiet."""
        self._messages.finish()
        self._question = TerminalQuestion(question, self._screen, self._renderer)
        self._quiet_since = time.monotonic()
        self._draw()

    def answer(self, question: Question, text: str | None) -> Option | None:
        """A digit chooses, Esc and Ctrl-D reject; anything else is no answer."""
        shown = self._question
        if text is None or shown is None:
            return question.rejection()
        if shown.is_armed:
            return shown.answer(text)
        self._quiet_since = time.monotonic()
        if not shown.is_key(text):
            self._typed_ahead += _printable(text)
        raise NoAnswer

    def settle(self, choice: str) -> None:
        """Say what became of the question."""
        self._question = None
        self._screen.print(Text(f"  → {visible_line(choice)}", style="dim"))
        self._draw()

    # --- input and time

    def source(self) -> Source | None:
        """The keyboard, during a turn."""
        return self._keyboard if self._is_in_turn else None

    def typed(self, text: str | None) -> None:
        """Ctrl-T folds and unfolds thoughts; other text is kept for the next prompt."""
        if text is None or self._conversation is None:
            return
        if text == CTRL_T:
            self.toggle_thoughts(self._conversation)
        else:
            self._typed_ahead += _printable(text)
            self._is_stale = True

    def timeout_s(self) -> float | None:
        """Until the next redraw, or until the keyboard counts as quiet."""
        if not self._is_in_turn:
            return None
        if self._question is not None and not self._question.is_armed:
            left = self._quiet_since + _QUIET_S - time.monotonic()
            if left > 0 or self._keyboard.is_waiting():
                return max(left, 0)
            # By the clock, not by silence: what else goes on must not keep it closed.
            self._question.is_armed = True
            self._is_stale = True
        if self._is_stale:
            left = self._drawn_at + _REDRAW_S - time.monotonic()
            if left <= 0:
                self._draw()
            else:
                return left
        return _CLOCK_S

    def tick(self) -> None:
        """Accept answers if a question waits for them; draw."""
        if self._question is not None:
            self._question.is_armed = True
        self._draw()

    def resized(self) -> None:
        """Lay the live lines out anew."""
        if self._is_in_turn:
            self._draw()

    def _draw(self) -> None:
        self._is_stale = False
        self._drawn_at = time.monotonic()
        if self._is_in_turn:
            self._screen.show_live(self._live_lines())

    def _live_lines(self) -> list[RenderableType]:
        lines = self._messages.live_lines()
        if self._conversation is not None:
            asked = self._question.call_id if self._question is not None else None
            for call in self._conversation.open_calls():
                if call.call_id == asked:
                    continue
                lines.append(self._renderer.call_line(call))
                for terminal in self._conversation.terminals_of(call):
                    lines += self._renderer.terminal(terminal, _LIVE_OUTPUT)
        lines.append(self._status_line())
        return lines

    def _status_line(self) -> RenderableType:
        if self._question is not None:
            return self._question.status_line()
        clock = _duration(time.monotonic() - self._begun_at)
        text = "cancelling; Ctrl-C again leaves" if self._is_cancelling else "Ctrl-C cancels"
        status = Text(f"{clock} · {text}", style="dim")
        if self._typed_ahead:
            ahead = visible_line(self._typed_ahead)
            return Group(status, Text(f"next> {ahead}", style="dim", no_wrap=True))
        return status

    # --- what the user asks for

    def say(self, text: str) -> None:
        """Print a remark."""
        self._screen.print(*(Text(visible(line), style="dim") for line in text.split("\n")))

    def complain(self, text: str) -> None:
        """Print an error."""
        self._screen.print(Text(visible(text), style="red"))

    def diagnostics(self, lines: list[str]) -> None:
        """Print the server's own words dimmed."""
        self._screen.print(*(Text(visible_line(line), style="dim") for line in lines))

    def show_sessions(self, entries: list[SessionEntry], current: str) -> None:
        """Print the numbered list, a line each; a star is at the session that is open."""
        folder = self._conversation.cwd if self._conversation is not None else ""
        for number, entry in enumerate(entries, 1):
            mark = "*" if entry.session_id == current else " "
            line = Text.assemble(
                (f"{number:3}{mark} ", "bold"),
                (f"{visible_line(entry.updated_at)[:16].replace('T', ' ')} ", "dim"),
                no_wrap=True,
                overflow="ellipsis",
            )
            if folder and entry.cwd != folder:
                line.append(f"{shown_path(entry.cwd, folder)}: ", style="dim")
            line.append(visible_line(entry.title) or "(no title)")
            self._screen.print(line)

    def show_call(self, conversation: Conversation, number: int) -> None:
        """Print all of a call."""
        calls = conversation.calls()
        if not 1 <= number <= len(calls):
            self.complain("there is no such tool call" if calls else "there were no tool calls")
            return
        call = calls[-number]
        self._screen.print(
            self._renderer.call_line(call),
            *self._renderer.details(call.raw_input, ""),
            *self._renderer.content(call, conversation, Limits.none()),
        )

    def toggle_thoughts(self, conversation: Conversation) -> None:
        """Fold or unfold; the last thought is shown when unfolded."""
        messages = self._messages
        messages.unfolds = not messages.unfolds
        thoughts = conversation.thoughts()
        if messages.unfolds and thoughts and thoughts[-1] is not messages.open_message:
            self._screen.print(self._renderer.thought(thoughts[-1]))
        self._is_stale = True
        if not self._is_in_turn:
            self.say("thoughts are shown in full" if messages.unfolds else "thoughts are folded")


def _printable(text: str) -> str:
    text = text.replace("\r", "\n")
    return "".join(character for character in text if character.isprintable() or character == "\n")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
