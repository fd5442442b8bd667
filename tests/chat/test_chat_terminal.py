"""`term2 chat` on a pseudo-terminal: keys, questions, streaming, leaving (spec section 1)."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import threading

from tests.chat.terminal import PROMPT
from tests.harness.processes import wait_until_gone
from tests.models.chat import CHAT_DONE, chat_chunk, chat_usage
from tests.models.http import Until
from tests.models.steps import Call, ScriptedStep

READY = "press 1-2"
COLOUR = re.compile(r"\x1b\[[0-9;]*(?:3[0-9]|4[0-9]|9[0-9])(?:;|m)")


def test_ctrl_c_cancels_and_twice_leaves(terminal, home):
    """The prompt after a cancelled turn works; the second Ctrl-C of a turn ends everything."""
    chat = terminal()
    chat.prompt()
    chat.line("/sleep 600")
    chat.expect("Ctrl-C cancels")
    chat.keys("\x03")
    chat.expect("cancelled")
    chat.prompt()
    chat.line("/say still here")
    chat.expect("\nstill here\r\n")
    chat.prompt()
    chat.line("/shell sleep 600")
    chat.expect(READY)
    chat.keys("1")
    chat.expect("s · Ctrl-C cancels")
    # A server that hangs keeps the turn open for the second.
    os.kill(chat.server_pid(), signal.SIGSTOP)
    chat.keys("\x03")
    chat.expect("Ctrl-C again leaves")
    chat.keys("\x03")
    os.kill(chat.server_pid(), signal.SIGCONT)
    assert chat.wait_end() == 130
    wait_until_gone(home.mark)


def test_an_empty_prompt_is_left_by_ctrl_c_twice(terminal, home):
    """The first Ctrl-C clears a text, the next warns, the one after that leaves."""
    chat = terminal()
    chat.prompt()
    chat.keys("half a text\x03")
    chat.keys("\x03")
    chat.expect("Ctrl-C once more, or Ctrl-D, leaves")
    chat.prompt()
    chat.keys("\x03")
    assert chat.wait_end() == 130
    wait_until_gone(home.mark)


def test_only_the_key_of_an_answer_allows(terminal, project):
    """Enter, words and what was typed before the question do nothing; Esc rejects; 1 allows."""
    chat = terminal()
    chat.prompt()
    chat.line("/shell touch escaped")
    chat.expect("1 ", "Allow once", "2 ", "Reject", READY)
    for nothing in ("\r", "y", "yes", "3", "\x1b[A", "1\r"):
        chat.keys(nothing)
    chat.keys("\x1b")
    chat.expect("→ Reject")
    chat.prompt()
    chat.line("/shell touch interrupted")
    chat.expect(READY)
    chat.keys("\x03")
    chat.expect("→ cancelled")
    chat.prompt()
    chat.line("/shell touch denied")
    chat.expect(READY)
    chat.keys("2")
    chat.expect("→ Reject")
    chat.prompt()
    chat.line("/shell touch allowed; echo out-$((1 + 1))")
    chat.expect(READY)
    chat.keys("1")
    chat.expect("→ Allow once", "out-2", "exit status 0")
    chat.prompt()
    chat.keys("\x04")
    assert chat.wait_end() == 0
    made = {name for name in os.listdir(project) if (project / name).stat().st_size == 0}
    assert made == {"allowed"}


def test_keys_that_were_on_their_way_do_not_answer(terminal, project):
    """What is typed before there is a question is kept for the next prompt."""
    chat = terminal()
    chat.prompt()
    chat.keys("\x1b[200~/sleep 1\r/shell touch proof\x1b[201~\r")
    chat.expect("Ctrl-C cancels")
    chat.keys("1 zebra")
    chat.expect("next> 1 zebra", "Allow: Run", READY)
    chat.keys("\x1b")
    chat.expect("→ Reject")
    chat.prompt()
    # The text is there: it is deleted, and then Ctrl-D leaves.
    chat.expect("1 zebra")
    chat.keys("\x15\x04")
    assert chat.wait_end() == 0
    # It was never echoed by the terminal itself, in the middle of something else.
    assert chat.output.count("zebra") == len(re.findall(r"> (?:\x1b\[0m)?1 zebra", chat.output))
    assert not (project / "proof").exists()


def test_several_lines_and_the_history(terminal, home):
    """Alt-Enter, a backslash and a paste make lines; a later run recalls them, for me alone."""
    chat = terminal()
    chat.prompt()
    chat.keys("/say one\\\r/say two\x1b\r")
    chat.keys("\x1b[200~/say three\r/say four\x1b[201~\r")
    chat.expect("\none", "two", "three", "four")
    chat.prompt()
    chat.keys("\x04")
    assert chat.wait_end() == 0
    history = home.state / "term2" / "chat-history"
    text = "/say one\n/say two\n/say three\n/say four"
    assert [text] == [json.loads(line) for line in history.read_text().splitlines()]
    assert stat.S_IMODE(history.stat().st_mode) == 0o600

    later = terminal()
    later.prompt()
    # Up, and the last word in place of another.
    later.keys("\x1b[A\x17five\r")
    later.expect("\none", "two", "three", "five")


def test_a_session_is_resumed_from_the_list(terminal):
    """The numbered list, the conversation as it was, and it goes on."""
    chat = terminal()
    chat.prompt()
    chat.line("/say remember the milk")
    chat.prompt()
    chat.line(":new")
    chat.prompt()
    chat.line(":sessions")
    chat.expect("  1 ", "/say remember the milk", ":resume N goes on with one")
    chat.prompt()
    chat.line(":resume 1")
    chat.expect("> ", "/say remember the milk", "\nremember the milk\r\n")
    chat.prompt()
    chat.line("/say bread too")
    chat.expect("\nbread too\r\n")
    chat.prompt()
    chat.line(":quit")
    assert chat.wait_end() == 0


def test_the_death_of_the_server_ends_the_prompt(terminal):
    """Nobody types into the void: it is told at once, with the last words; status 1."""
    chat = terminal(TERM2_LOG="info")
    chat.prompt()
    os.kill(chat.server_pid(), signal.SIGKILL)
    chat.expect("the server ended (killed by SIGKILL)", "its last words", "term2: INFO")
    chat.expect("The conversation is kept")
    assert chat.wait_end() == 1


def test_sigterm_ends_a_prompt(terminal, home):
    """The terminal is left in order, the server is gone; status 143."""
    chat = terminal()
    chat.prompt()
    chat.child.kill(signal.SIGTERM)
    assert chat.wait_end() == 143
    assert chat.output.rindex("\x1b[?2004l") > chat.output.rindex(PROMPT)
    wait_until_gone(home.mark)


def test_markdown_is_shown_as_it_streams(terminal, model):
    """
    Finished blocks are there while the model still speaks, laid out for a narrow window.

    Thoughts are one line until they are asked for; the window may change meanwhile.
    """
    go_on = threading.Event()
    begin = (
        "# A *heading*\n\nSome **bold** words with 日本語 that go over the edge of the window.\n\n"
    )
    model.stream(
        chat_chunk({"role": "assistant", "content": ""}),
        chat_chunk({"reasoning_content": "First I think.\nThen I think more.\n"}),
        chat_chunk({"content": begin}),
        chat_chunk({"content": "- an open"}),
        Until(go_on),
        chat_chunk({"content": " list\n\n```python\nprint(1)\n```\n"}),
        chat_chunk({}, "stop"),
        chat_usage(),
        CHAT_DONE,
    )
    chat = terminal("--model", "test-model", size=(20, 40))
    chat.prompt()
    chat.line("go")
    chat.expect("First I think. (2 lines;", "A ", "heading", "Some ", "bold", "日本語")
    chat.expect("an open", "Ctrl-C cancels")
    chat.child.setwinsize(10, 24)
    chat.expect("an open")
    chat.keys("\x14")
    chat.expect("∴ thought", "Then I think more.")
    go_on.set()
    chat.expect("an open list", "print", "of the context used")
    chat.prompt()
    assert "**" not in chat.output
    assert "```" not in chat.output


def test_what_others_say_cannot_drive_the_terminal(terminal, model, project):
    """Neither text nor a command or its output: escape sequences are shown, lines stay lines."""
    forged = "true\n\x1b[2J  1 Go on\n  2 Also go on\x1b]0;title\x07"
    model.step(
        ScriptedStep(
            text="see \x1b]0;title\x07 &#x1b;[2J \x9b2J and \x1b[8mhidden\x1b[0m\n",
            calls=(Call.of("shell", command=forged),),
        )
    )
    model.step(ScriptedStep(text="Done."))
    (project / "x").write_text("")
    chat = terminal("--model", "test-model")
    chat.prompt()
    chat.line("go")
    chat.expect("^[]0;title^G")
    chat.expect(
        "Allow: Run", "│ ", "true", "│ ", "^[[2J  1 Go on", "│ ", "  2 Also go on^[]0;title^G"
    )
    chat.expect("1 ", "Allow once", READY)
    chat.keys("2")
    chat.expect("Done.")
    chat.prompt()
    shown = chat.output
    for sequence in ("\x1b]0;", "\x1b[2J", "\x9b", "\x07", "\x1b[8m"):
        assert sequence not in shown
    # No line of the command stands where an answer stands.
    assert not re.search(r"\n(?:\x1b\[[0-9;]*m)* *[12] (?:\x1b\[[0-9;]*m)*(?:Go|Also)", shown)


def test_diffs_have_colours_and_output_is_folded_until_asked_for(terminal):
    """Added and removed lines differ; a long output shows its end, `:output` all of it."""
    chat = terminal()
    chat.prompt()
    chat.line("/replace README.md small => large")
    chat.expect("README.md", "\x1b[31m-A small program", "\x1b[32m+A large program")
    chat.prompt()
    chat.line("/shell seq 1 100")
    chat.expect(READY)
    chat.keys("1")
    chat.expect("88 earlier lines", "89", "100", "exit status 0")
    chat.prompt()
    chat.line(":output")
    chat.expect("seq 1 100", "│ ", "1\r\n", "50", "100", "exit status 0")
    chat.prompt()


def test_colours_can_be_switched_off(terminal):
    """NO_COLOR: bold and dim remain."""
    chat = terminal(NO_COLOR="1")
    chat.prompt()
    chat.line("/replace README.md small => large")
    chat.expect("-A small program", "+A large program")
    chat.prompt()
    assert not COLOUR.search(chat.output)


def test_a_dumb_terminal_gets_plain_lines(terminal):
    """TERM=dumb: no escape sequence at all, a prompt sign, the end by Ctrl-D."""
    chat = terminal(TERM="dumb")
    chat.expect("[session]", "\n> ")
    chat.keys("/say hello\n")
    chat.expect("\nhello\r\n[end] end_turn\r\n> ")
    chat.keys("\x04")
    assert chat.wait_end() == 0
    assert "\x1b" not in chat.output
