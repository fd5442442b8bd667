"""How the items of a conversation look; everything that others wrote is made visible first."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
from rich.console import Group, RenderableType
from rich.text import Text

from term2_acp.chat.conversation import Conversation, Message, Plan, Terminal, ToolCall
from term2_acp.chat.layout import Prefixed, hanging
from term2_acp.chat.updates import PatchBlock, TerminalBlock, TextBlock
from term2_acp.chat.visible import TAB_WIDTH, visible, visible_line, visible_output

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_STATUS_STYLES = {
    "pending": "yellow",
    "in_progress": "cyan",
    "completed": "green",
    "failed": "red",
    "cancelled": "yellow",
}


@attrs.frozen
class Glyphs:
    """The signs that are used, for terminals with and without Unicode."""

    pending: str = "·"
    in_progress: str = "▸"
    completed: str = "✓"
    failed: str = "✗"
    cancelled: str = "■"
    bar: str = "│"
    thought: str = "∴"
    more: str = "…"

    @classmethod
    def for_encoding(cls, encoding: str) -> Glyphs:
        """Those that the encoding has."""
        if encoding.lower().replace("-", "").startswith("utf"):
            return cls()
        return cls("-", ">", "+", "x", "#", "|", "~", "...")

    def of_status(self, status: str) -> str:
        """The sign of a tool call's status."""
        names = {field.name for field in attrs.fields(type(self))}
        return str(getattr(self, status)) if status in names else self.pending


@attrs.frozen
class Limits:
    """How many lines are shown; what is left out is said."""

    text: int = 4
    output: int = 12
    patch: int = 120

    @classmethod
    def none(cls) -> Limits:
        """Everything is shown."""
        return cls(text=1 << 30, output=1 << 30, patch=1 << 30)


class Renderer:
    """Makes what `rich` prints out of items; holds no state of the conversation."""

    def __init__(self, glyphs: Glyphs) -> None:
        self.glyphs = glyphs

    def call(self, call: ToolCall, of: Conversation, limits: Limits) -> RenderableType:
        """A tool call with its status and content."""
        return Group(self.call_line(call), *self.content(call, of, limits))

    def content(
        self, call: ToolCall, of: Conversation, limits: Limits, *, has_terminals: bool = True
    ) -> list[RenderableType]:
        """What a tool call shows below its line, with or without its terminals."""
        parts: list[RenderableType] = []
        for block in call.content:
            match block:
                case TextBlock(text):
                    parts += self._barred(_head(_lines(text), limits.text, self.glyphs.more))
                case PatchBlock(paths, patch):
                    lines = _patch_lines(patch, of.cwd) if patch else _changed(paths, of.cwd)
                    parts += self._barred(_head(list(lines), limits.patch, self.glyphs.more))
                case TerminalBlock(terminal_id) if has_terminals:
                    terminal = of.terminals.get(terminal_id)
                    if terminal is not None:
                        parts += self.terminal(terminal, limits.output)
        return parts

    def call_line(self, call: ToolCall) -> RenderableType:
        """A tool call as its line with the status."""
        style = _STATUS_STYLES.get(call.status, "none")
        line = Text(visible_line(call.title or call.kind), style="bold")
        if call.status in ("failed", "cancelled"):
            line.append(f"  {call.status}", style=style)
        return hanging(Text(f"{self.glyphs.of_status(call.status)} ", style=style, end=""), line)

    def terminal(self, terminal: Terminal, limit: int) -> list[RenderableType]:
        """The end of a terminal's output, and how its command ended."""
        lines = _lines(visible_output(bytes(terminal.output)))
        left_out = len(lines) - limit
        if left_out > 0:
            note = f"{self.glyphs.more} {left_out} earlier lines (:output shows them)"
            lines = [Text(note, style="dim"), *lines[left_out:]]
        if terminal.dropped:
            lines.insert(0, Text(f"{terminal.dropped} bytes before are not kept", style="dim"))
        return self._barred([*lines, *_exit_line(terminal)])

    def plan(self, plan: Plan) -> RenderableType:
        """The steps of a plan with their status."""
        parts: list[RenderableType] = [Text("Plan", style="bold")]
        for entry in plan.entries:
            style = _STATUS_STYLES.get(entry.status, "none")
            sign = Text(f"  {self.glyphs.of_status(entry.status)} ", style=style, end="")
            done = "dim" if entry.status == "completed" else "none"
            parts.append(hanging(sign, Text(visible_line(entry.content), style=done)))
        return Group(*parts)

    def folded_thought(self, thought: Message) -> Text:
        """A thought as one line."""
        lines = [line for line in visible(thought.text).split("\n") if line.strip()]
        first = lines[0].strip() if lines else ""
        line = Text(f"{self.glyphs.thought} {first}", style="dim italic")
        if len(lines) > 1:
            line.append(f" ({len(lines)} lines; Ctrl-T shows them)")
        line.no_wrap = True
        line.overflow = "ellipsis"
        return line

    def thought(self, thought: Message) -> RenderableType:
        """A thought in full."""
        lines = [Text(line, style="dim italic") for line in visible(thought.text).split("\n")]
        return Group(Text(f"{self.glyphs.thought} thought", style="dim italic"), *lines)

    def question_line(self, title: str) -> RenderableType:
        """What is asked; a bar is before what it is wrapped to, unlike before the answers."""
        style = "bold yellow"
        bar = Text(f"{self.glyphs.bar} ", style=style, end="")
        return Prefixed(Text("? ", style=style, end=""), bar, Text(title, style=style))

    def described(self, description: str) -> list[RenderableType]:
        """More about a question."""
        return self._barred(_lines(description))

    def details(self, raw_input: Any, title: str) -> list[RenderableType]:
        """What a call is given, as far as its title does not say it already."""
        if isinstance(raw_input, dict) and len(raw_input) == 1:
            (value,) = raw_input.values()
            if isinstance(value, str) and "\n" not in value and visible_line(value) in title:
                return []
        return self._barred(_value_lines(raw_input))

    def head(self, lines: list[RenderableType], limit: int, hint: str) -> list[RenderableType]:
        """The first lines, and a note on how many more there are."""
        if len(lines) <= limit:
            return lines
        note = f"{self.glyphs.more} {len(lines) - limit} more lines: {hint}"
        return [*lines[:limit], Text(note, style="bold yellow")]

    def _barred(self, lines: Iterable[Text]) -> list[RenderableType]:
        bar = Text(f"  {self.glyphs.bar} ", style="dim", end="")
        return [Prefixed(bar, bar, line) for line in lines]


def shown_path(path: str, cwd: str) -> str:
    """A path as one line, relative to the folder of the session if it is below it."""
    if path.startswith(cwd.rstrip(os.sep) + os.sep):
        path = os.path.relpath(path, cwd)
    return visible_line(path)


def exit_text(terminal: Terminal) -> str:
    """How a terminal's command ended, "" if that is not known."""
    if terminal.has_exited and terminal.signal is not None:
        return f"ended by {visible_line(terminal.signal)}"
    if terminal.has_exited and terminal.exit_code is not None:
        return f"exit status {terminal.exit_code}"
    return ""


def _exit_line(terminal: Terminal) -> list[Text]:
    text = exit_text(terminal)
    style = "dim" if terminal.exit_code == 0 else "red"
    return [Text(text, style=style)] if text else []


def _lines(text: str) -> list[Text]:
    text = visible(text).expandtabs(TAB_WIDTH).rstrip("\n")
    return [Text(line) for line in text.split("\n")] if text else []


def _head(lines: list[Text], limit: int, more: str) -> list[Text]:
    if len(lines) <= limit + 1:
        return lines
    note = f"{more} {len(lines) - limit} more lines (:output shows them)"
    return [*lines[:limit], Text(note, style="dim")]


def _changed(paths: Iterable[str], cwd: str) -> Iterator[Text]:
    for path in paths:
        yield Text(f"changed {shown_path(path, cwd)}")


def _patch_lines(patch: str, cwd: str) -> Iterator[Text]:
    """A git patch in colour: a line for each file, then its hunks."""
    old_left = new_left = 0
    old_path = ""
    for line in patch.split("\n"):
        hunk = _HUNK.match(line) if not (old_left or new_left) else None
        if hunk is not None:
            old_left, new_left = (int(count or 1) for count in hunk.groups())
            yield Text(visible_line(line), style="cyan")
        elif old_left or new_left:
            old_left -= line[:1] in (" ", "-", "")
            new_left -= line[:1] in (" ", "+", "")
            style = {"+": "green", "-": "red"}.get(line[:1], "none")
            yield Text(visible(line).expandtabs(TAB_WIDTH), style=style)
        elif line.startswith("--- "):
            old_path = line[4:]
        elif line.startswith("+++ "):
            yield _patch_head(old_path, line[4:], cwd)
        elif line.startswith("\\"):
            yield Text(visible_line(line), style="dim")


def _patch_head(old_path: str, new_path: str, cwd: str) -> Text:
    if old_path == "/dev/null":
        return Text(f"{shown_path(new_path, cwd)} (new)", style="bold")
    if new_path == "/dev/null":
        return Text(f"{shown_path(old_path, cwd)} (deleted)", style="bold")
    return Text(shown_path(new_path, cwd), style="bold")


def _value_lines(value: Any, label: str = "", indent: str = "") -> Iterator[Text]:
    """A JSON value as indented lines; text of several lines is a block of its own."""
    head = f"{indent}{visible_line(label)}: " if label else indent
    if isinstance(value, dict):
        if label:
            yield Text(head.rstrip(), style="dim")
            indent += "  "
        for name, item in value.items():
            yield from _value_lines(item, name, indent)
    elif isinstance(value, list):
        for number, item in enumerate(value, 1):
            yield from _value_lines(item, f"{label} {number}".strip(), indent)
    elif isinstance(value, str) and "\n" in value:
        yield Text(head.rstrip(), style="dim")
        for line in value.rstrip("\n").split("\n"):
            yield Text(f"{indent}  {visible(line).expandtabs(TAB_WIDTH)}", style=_diff_style(line))
    elif value is not None:
        shown = visible_line(value) if isinstance(value, str) else str(value)
        yield Text.assemble((head, "dim"), shown)


def _diff_style(line: str) -> str:
    return {"+": "green", "-": "red"}.get(line[:1], "none")
