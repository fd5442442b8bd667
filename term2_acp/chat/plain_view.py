"""A conversation as plain lines, for pipes, scripts and terminals that can do no more."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from term2_acp.chat.client import SessionEntry
from term2_acp.chat.conversation import Conversation, Item, Message, Plan, Terminal, ToolCall
from term2_acp.chat.events import Source
from term2_acp.chat.layout import Prefixed
from term2_acp.chat.questions import Option, Question
from term2_acp.chat.rendering import Limits, Renderer, exit_text
from term2_acp.chat.updates import Speaker
from term2_acp.chat.visible import visible, visible_line, visible_output

_LIMITS = Limits(text=20, output=1 << 30, patch=1 << 30)


class PlainView:
    """
    Writes what the agent says as it comes, and everything else as lines that begin with `[`.

    A line of the agent's own that begins so is moved by a space, so that nobody takes it
    for one of these.

    Args:
        lines: the user's input.
        wait: waits for a line of it while everything else goes on.
        has_prompt: whether a person is shown that input is waited for.
    """

    def __init__(
        self,
        renderer: Renderer,
        lines: Source,
        wait: Callable[[Source], str | None],
        *,
        has_prompt: bool,
    ) -> None:
        self._renderer = renderer
        self._lines = lines
        self._wait = wait
        self._has_prompt = has_prompt
        self._conversation: Conversation | None = None
        self._open_message: Message | None = None
        self._written_parts = 0
        self._is_line_start = True
        self._statuses: dict[str, str] = {}
        self._written_output: dict[str, int] = {}
        self._unfolds = False
        self._is_asking = False

    # --- prompts

    def greet(self, conversation: Conversation) -> None:
        """Say which session is open."""
        self._conversation = conversation
        self._mark("session", f"{conversation.session_id} in {conversation.cwd}")

    def read_prompt(self) -> str:
        """The next line, with those that it is continued on by a backslash."""
        parts: list[str] = []
        while True:
            self._show_prompt("> " if not parts else ". ")
            line = self._wait(self._lines)
            if line is None:
                if parts:
                    return "\n".join(parts)
                raise EOFError
            text = line.rstrip("\r\n")
            if not text.endswith("\\"):
                return "\n".join([*parts, text])
            parts.append(text.removesuffix("\\"))

    # --- a turn

    def begin_turn(self, conversation: Conversation) -> None:
        """Nothing is to be shown."""
        self._conversation = conversation

    def show(self, item: Item) -> None:
        """Write what is new of it."""
        match item:
            case Message():
                self._show_message(item)
            case ToolCall():
                self._finish_message()
                self._show_call(item)
            case Plan():
                self._finish_message()
                for entry in item.entries:
                    self._mark("plan", f"{entry.status}: {entry.content}")

    def end_turn(self, stop_reason: str) -> None:
        """Write the end of the turn."""
        self._finish_message()
        self._mark("end", stop_reason)

    def clear(self) -> None:
        """End a line that was begun."""
        self._is_asking = False
        self._finish_message()

    def cancelling(self) -> None:
        """Say that the end is waited for."""
        self._finish_message()
        self.say("cancelling; Ctrl-C again leaves")

    def replay(self, conversation: Conversation, *, everything: bool) -> None:  # noqa: ARG002
        """Write the whole conversation, whatever its length: nobody has to scroll."""
        self._conversation = conversation
        for item in conversation.items:
            if isinstance(item, Message) and item.speaker is Speaker.USER:
                for line in visible(item.text).split("\n"):
                    self._mark("user", line)
            else:
                self.show(item)
        self._finish_message()

    def _show_message(self, message: Message) -> None:
        if message.speaker is Speaker.USER:
            return
        if message is not self._open_message:
            self._finish_message()
            self._open_message = message
        if message.speaker is Speaker.AGENT:
            for part in message.parts[self._written_parts :]:
                self._write(visible(part))
            self._written_parts = len(message.parts)
            sys.stdout.flush()

    def _finish_message(self) -> None:
        message, self._open_message = self._open_message, None
        self._written_parts = 0
        if not self._is_line_start:
            self._write("\n")
        if message is not None and message.speaker is Speaker.THOUGHT:
            self._show_thought(message)

    def _show_thought(self, thought: Message) -> None:
        lines = [line for line in visible(thought.text).split("\n") if line.strip()]
        if not self._unfolds and len(lines) > 1:
            lines = [f"{lines[0]} ({len(lines)} lines; :thoughts shows them)"]
        for line in lines:
            self._mark("thought", line)

    def _show_call(self, call: ToolCall) -> None:
        if self._conversation is None:
            return
        before = self._statuses.get(call.call_id)
        is_new_status = before != call.status
        self._statuses[call.call_id] = call.status
        # What a call shows stands between its first line and its last.
        if is_new_status and (before is None or not call.is_over):
            self._mark_call(call)
        for terminal in self._conversation.terminals_of(call):
            self._show_output(terminal, is_over=call.is_over)
        if is_new_status and call.is_over:
            self._lay_out(
                self._renderer.content(call, self._conversation, _LIMITS, has_terminals=False)
            )
            if before is not None:
                self._mark_call(call)

    def _show_output(self, terminal: Terminal, *, is_over: bool) -> None:
        """Write the lines of the output that are whole; the rest when it is over."""
        written = self._written_output.get(terminal.terminal_id, 0)
        start = max(written - terminal.dropped, 0)
        end = len(terminal.output) if is_over else terminal.output.rfind(b"\n") + 1
        if start < end:
            text = visible_output(bytes(terminal.output[start:end])).removesuffix("\n")
            for line in text.split("\n"):
                self._write(f"  {self._renderer.glyphs.bar} {line}\n")
            self._written_output[terminal.terminal_id] = terminal.dropped + end
        if is_over and exit_text(terminal):
            self._write(f"  {self._renderer.glyphs.bar} {exit_text(terminal)}\n")
        sys.stdout.flush()

    # --- questions

    def ask(self, question: Question) -> None:
        """Write the question and its answers by number."""
        self._finish_message()
        self._is_asking = True
        title = visible_line(question.title)
        self._mark("permission", title)
        if question.description is not None:
            for line in visible(question.description).split("\n"):
                self._write(f"  {self._renderer.glyphs.bar} {line}\n")
        if question.call is not None:
            self._lay_out(self._renderer.details(question.call.raw_input, title))
        for number, option in enumerate(question.options, 1):
            self._mark("permission", f"{number} = {option.name}")
        self._mark("permission", "type a number; anything else rejects")
        self._show_prompt("? ")

    def answer(self, question: Question, text: str | None) -> Option | None:
        """A number chooses; everything else rejects, the end of the input too."""
        option = question.option(text.strip()) if text is not None else None
        return option or question.rejection()

    def settle(self, choice: str) -> None:
        """Write what became of the question."""
        self._is_asking = False
        self._mark("answer", choice)

    # --- input and time

    def source(self) -> Source | None:
        """Lines are read for questions; those that come earlier are prompts, in their turn."""
        return self._lines if self._is_asking else None

    def typed(self, text: str | None) -> None:
        """Not called: without a question nothing is read."""
        raise AssertionError(f"input that nobody asked for: {text!r}")

    def timeout_s(self) -> float | None:
        """Nothing depends on the clock."""
        return None

    def tick(self) -> None:
        """Nothing depends on the clock."""

    def resized(self) -> None:
        """Lines have no width."""

    # --- what the user asks for

    def say(self, text: str) -> None:
        """Write a remark."""
        for line in text.split("\n"):
            self._mark("chat", line)

    def complain(self, text: str) -> None:
        """Write an error to standard error."""
        sys.stdout.flush()
        sys.stderr.write(f"term2: {visible(text)}\n")
        sys.stderr.flush()

    def diagnostics(self, lines: list[str]) -> None:
        """Hand the server's own words on."""
        sys.stdout.flush()
        for line in lines:
            sys.stderr.write(f"{visible_line(line)}\n")
        sys.stderr.flush()

    def show_sessions(self, entries: list[SessionEntry], current: str) -> None:
        """Write the numbered list."""
        for number, entry in enumerate(entries, 1):
            mark = " (this one)" if entry.session_id == current else ""
            title = entry.title or "(no title)"
            words = f"{number} {entry.session_id} {entry.updated_at} {entry.cwd}: {title}{mark}"
            self._mark("sessions", words)

    def show_call(self, conversation: Conversation, number: int) -> None:
        """Write all of a call."""
        calls = conversation.calls()
        if not 1 <= number <= len(calls):
            self.complain("there is no such tool call" if calls else "there were no tool calls")
            return
        call = calls[-number]
        self._mark_call(call)
        self._lay_out(self._renderer.details(call.raw_input, ""))
        self._lay_out(self._renderer.content(call, conversation, Limits.none()))

    def toggle_thoughts(self, conversation: Conversation) -> None:
        """Fold or unfold; the last thought is shown when unfolded."""
        self._unfolds = not self._unfolds
        self.say("thoughts are shown in full" if self._unfolds else "thoughts are folded")
        if self._unfolds:
            for thought in conversation.thoughts()[-1:]:
                self._show_thought(thought)

    # --- writing

    def _mark_call(self, call: ToolCall) -> None:
        self._mark("tool", f"{call.status}: {call.title or call.kind}")

    def _mark(self, word: str, text: str) -> None:
        if not self._is_line_start:
            self._write("\n")
        sys.stdout.write(f"[{word}] {visible_line(text)}\n")
        sys.stdout.flush()

    def _write(self, text: str) -> None:
        """Write what the agent or a tool said; a line that looks like a mark is moved."""
        for line in text.splitlines(keepends=True):
            if self._is_line_start and line.startswith("["):
                sys.stdout.write(" ")
            sys.stdout.write(line)
            self._is_line_start = line.endswith("\n")

    def _lay_out(self, renderables: Iterable[RenderableType]) -> None:
        for line in _plain_lines(renderables):
            self._write(f"{line}\n")
        sys.stdout.flush()

    def _show_prompt(self, prompt: str) -> None:
        if self._has_prompt:
            sys.stdout.write(prompt)
            sys.stdout.flush()


def _plain_lines(renderables: Iterable[RenderableType]) -> Iterator[str]:
    for renderable in renderables:
        match renderable:
            case Text() | Prefixed():
                yield renderable.plain
            case Group():
                yield from _plain_lines(renderable.renderables)
