"""Live lines are replaced where they stand, and nothing but text gets through."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.control import Control
from rich.text import Text

from term2_acp.chat.screen import Screen


class Window:
    """A console of a size, whose output since the last look can be taken."""

    def __init__(self, width=30, height=10):
        self.console = Console(
            file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None
        )
        self.screen = Screen(self.console)

    def take(self):
        """What was written since the last call, without the cursor being hidden or shown."""
        text = self.console.file.getvalue()
        self.console.file.seek(0)
        self.console.file.truncate()
        return text.replace("\x1b[?25l", "").replace("\x1b[?25h", "")


@pytest.fixture(name="window")
def _window():
    return Window()


def test_what_is_printed_goes_above_the_live_lines(window):
    """They are taken away, the text is written, they are drawn again."""
    window.screen.show_live([Text("one"), Text("two")])
    assert "one\ntwo" == window.take()
    window.screen.print(Text("for good"))
    assert "\r\x1b[2K\x1b[1A\x1b[2Kfor good\none\ntwo" == window.take()
    window.screen.show_live([])
    assert "\r\x1b[2K\x1b[1A\x1b[2K" == window.take()


def test_lines_that_a_narrower_window_wraps_are_all_taken_away(window):
    """A line of 24 cells takes three rows of ten columns."""
    window.screen.show_live([Text("日本語" * 4)])
    window.take()
    window.console.width = 10
    window.screen.show_live([])
    assert "\r\x1b[2K" + 2 * "\x1b[1A\x1b[2K" == window.take()


def test_live_lines_leave_room(window):
    """More than the window holds: the last ones are shown."""
    window.screen.show_live([Text(str(number)) for number in range(50)])
    assert window.take().split("\n") == [str(number) for number in range(42, 50)]


def test_only_text_gets_through(window):
    """A control code in what is printed is dropped, a control character is shown."""
    window.screen.print(Control.home(), Text("a\x1b[2Jb"))
    assert window.take() == "a^[[2Jb\n"
