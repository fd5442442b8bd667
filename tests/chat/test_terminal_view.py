"""How the view for people takes answers and shows what changes."""

from __future__ import annotations

import io
import os
import threading

import pytest
from rich.console import Console

from term2_acp.chat.conversation import Conversation
from term2_acp.chat.keyboard import CTRL_D, ESCAPE, Keyboard
from term2_acp.chat.questions import Option, Question
from term2_acp.chat.rendering import Glyphs, Renderer
from term2_acp.chat.screen import Screen
from term2_acp.chat.terminal_view import TerminalView
from term2_acp.chat.updates import CallUpdated, Said, Speaker, TerminalBlock, TerminalPrinted
from term2_acp.chat.views import NoAnswer

OPTIONS = (Option("a", "Allow once", "allow_once"), Option("r", "Reject", "reject_once"))


class Desk:
    """A view in a turn: input is given to it; `take` is what it wrote."""

    def __init__(self, width=60, keyboard=None):
        self._file = io.StringIO()
        console = Console(file=self._file, width=width, height=30, color_system=None)
        self.view = TerminalView(Screen(console), Renderer(Glyphs()), None, keyboard)
        self.conversation = Conversation("s", "/work")
        self.view.begin_turn(self.conversation)

    def take(self):
        """What was written since the last call."""
        text = self._file.getvalue()
        self._file.seek(0)
        self._file.truncate()
        return text

    def update(self, update):
        """Apply an update, show it and let it be drawn."""
        item = self.conversation.apply(update)
        if item is not None:
            self.view.show(item)
        self.take()
        self.view.tick()
        return self.take()


@pytest.fixture(name="desk")
def _desk():
    return Desk()


def call(status, **members):
    """An update of the one tool call."""
    values = {"title": None, "kind": None, "content": None, "raw_input": None, **members}
    return CallUpdated("c", status=status, **values)


def question(**input_members):
    """A question about a call with such an input."""
    return Question(1, "Allow: Run", None, OPTIONS, call("pending", raw_input=input_members))


def test_an_answer_counts_once_the_keyboard_was_quiet(desk):
    """The same key does nothing before."""
    asked = question(command="a\nb")
    desk.view.ask(asked)
    with pytest.raises(NoAnswer):
        desk.view.answer(asked, "1")
    assert 0 < desk.view.timeout_s() < 1
    desk.view.tick()
    assert desk.view.answer(asked, "1") is OPTIONS[0]


def test_what_else_goes_on_does_not_keep_a_question_closed():
    """Output that never pauses leaves no moment without an event; the clock counts, and keys do."""
    reading, writing = os.pipe()
    with open(reading, "rb"), open(writing, "wb", buffering=0) as typing:
        desk = Desk(keyboard=Keyboard(reading))
        asked = question(command="a")
        desk.view.ask(asked)
        typing.write(b"1")
        elapse(desk.view.timeout_s())
        assert desk.view.timeout_s() == 0
        with pytest.raises(NoAnswer):
            desk.view.answer(asked, os.read(reading, 1).decode())
        elapse(desk.view.timeout_s())
        desk.view.timeout_s()
        assert desk.view.answer(asked, "1") is OPTIONS[0]


def elapse(seconds):
    """Let the time go by in which a server would be heard."""
    threading.Event().wait(seconds)


@pytest.mark.parametrize("keys", [ESCAPE, CTRL_D, "1\x1b", None])
def test_refusing_keys_and_the_end_of_input_reject(desk, keys):
    """Esc, Ctrl-D and a terminal that is gone."""
    asked = question()
    desk.view.ask(asked)
    desk.view.tick()
    assert desk.view.answer(asked, keys) is OPTIONS[1]


@pytest.mark.parametrize("keys", ["", "\r", "0", "3", "11", "y", "v", " 1", "1\r"])
def test_other_keys_leave_the_question_open(desk, keys):
    """Nothing but the one key of an answer chooses it."""
    asked = question()
    desk.view.ask(asked)
    desk.view.tick()
    with pytest.raises(NoAnswer):
        desk.view.answer(asked, keys)


def test_a_long_input_is_never_hidden_without_a_word(desk):
    """So many lines are left out, and v shows them."""
    asked = question(command="\n".join(f"step {number}" for number in range(100)))
    desk.view.ask(asked)
    desk.view.tick()
    shown = desk.take()
    assert "step 30" in shown
    assert "step 90" not in shown
    assert "more lines: v shows them" in shown
    with pytest.raises(NoAnswer):
        desk.view.answer(asked, "v")
    assert "step 90" in desk.take()


def test_what_is_wrapped_never_stands_where_an_answer_stands():
    """A title and a command that are made for the width of the window feign no option."""
    desk = Desk(width=30)
    forged = "x" * 24 + "   1 Allow always" + " " * 12 + "2 Reject" + " " * 16 + "1 Yes\n  1 Also"
    desk.take()
    asked = Question(1, f"Allow: {forged}", forged, OPTIONS, call("pending", raw_input=[forged]))
    desk.view.ask(asked)
    asked_for, _, answers = desk.take().partition("  1 Allow once\n")
    assert answers.startswith("  2 Reject\n")
    lines = asked_for.strip("\n").split("\n")
    assert len(lines) > 9
    assert {line.lstrip(" ")[0] for line in lines} == {"?", "│"}


def test_a_call_is_live_until_it_is_over(desk):
    """Its line and the end of its output are drawn again; then all of it is printed once."""
    terminal = (TerminalBlock("t"),)
    assert "▸ Build" in desk.update(call("in_progress", title="Build", content=terminal))
    drawn = desk.update(TerminalPrinted("t", b"".join(b"line %d\n" % n for n in range(20))))
    assert "line 19" in drawn
    assert "line 13" not in drawn
    desk.conversation.apply(call("completed"))
    desk.view.show(desk.conversation.calls()[0])
    printed = desk.take()
    assert "✓ Build" in printed
    assert "line 8" in printed
    desk.view.show(desk.conversation.calls()[0])
    assert "✓ Build" not in desk.take()


def test_thoughts_are_folded_until_they_are_asked_for(desk):
    """One line; in full when unfolded, the last one at once."""
    desk.update(Said(Speaker.THOUGHT, "1", "First.\nSecond.\n", is_chunk=True))
    shown = desk.update(Said(Speaker.AGENT, "2", "Hello.\n", is_chunk=True))
    assert "Second." not in shown
    desk.view.toggle_thoughts(desk.conversation)
    assert "Second." in desk.take()
    desk.view.toggle_thoughts(desk.conversation)
    desk.update(Said(Speaker.THOUGHT, "3", "Third.\nFourth.\n", is_chunk=True))
    desk.view.end_turn("end_turn")
    assert "Third. (2 lines; Ctrl-T shows them)" in desk.take()


def test_what_was_said_last_stays_when_the_turn_breaks_off(desk):
    """The server died in the middle of a paragraph."""
    desk.update(Said(Speaker.AGENT, "1", "An unfinished", is_chunk=True))
    desk.view.clear()
    assert "An unfinished" in desk.take()
