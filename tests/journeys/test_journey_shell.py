"""Issue 4, item 6: what commands do to a terminal, and what the user and the model are told."""

from __future__ import annotations

import base64
import re
import sys
import time

import pytest

from tests.harness.messages import conversation
from tests.harness.processes import processes_with, wait_until_gone

MIB = 1 << 20
# Nothing here takes a second by itself; the rest is for a loaded machine.
SOON = 15.0


@pytest.fixture(name="run")
def _run(shared, shared_session):
    """Run a command with everything allowed: `run(command, timeout_s) -> (call, bytes, status)`."""
    shared.permissions.allow_all()

    def run(command, timeout_s=None):
        prompt = f"/shell {command}"
        if timeout_s is not None:
            call = f"tools.shell(command={command!r}, timeout_s={timeout_s})"
            prompt = f"/code <<END\ntry:\n    {call}\nexcept ToolFailed:\n    pass\nEND"
        turn = shared.run(shared_session, prompt, timeout=60)
        assert turn.stop_reason == "end_turn"
        call = turn.calls[-1]
        assert call["name"] == "shell"
        terminal = call["content"][0]["terminalId"]
        return call, *conversation(turn.updates).terminals[terminal]

    return run


def told(call):
    """The end of what the model was told."""
    return call["rawOutput"]["text"]


def notes(call):
    """What the user is shown besides the terminal."""
    return [item["content"]["text"] for item in call["content"][1:]]


def test_output_is_shown_as_it_comes(shared, shared_session, pool):
    """The first line is there while the command waits for what the test does next."""
    shared.permissions.allow_all()
    go = pool.project / "go"
    command = "echo first; until [ -e go ]; do sleep 0.02; done; echo second"
    shared.prompt(shared_session, f"/shell {command}").result()

    def shows(text):
        return lambda u: (
            u.kind == "terminal_output_chunk" and text in base64.b64decode(u.body["data"])
        )

    shared.wait_update(shows(b"first"), session=shared_session, what="the first line")
    go.touch()
    shared.wait_update(shows(b"second"), session=shared_session, what="the second line")
    assert shared.wait_idle(shared_session) == "end_turn"
    go.unlink()


def test_much_output_keeps_its_ends(run):
    """12 MB: what is shown is bounded, and so is what is told; both say how much is missing."""
    call, output, status = run("echo first; yes 0123456789 | head -c 12M; echo; echo last")
    assert (call["status"], status["exitCode"]) == ("completed", 0)
    assert MIB <= len(output) < 2 * MIB
    assert output.startswith(b"first\n0123456789\n")
    assert output.endswith(b"\nlast\n")
    (omitted,) = re.findall(rb"\[\.\.\. (\d+) bytes omitted \.\.\.\]", output)
    assert 10 * MIB < int(omitted) < 12 * MIB
    assert told(call).startswith("first\n")
    assert "last\n[exit status 0 after " in told(call)
    assert len(told(call)) < 5000


def test_binary_output_is_shown_byte_for_byte(run):
    """The terminal has the bytes; the text has a character for each that is none."""
    call, output, _ = run(r"printf 'a\000\377\376\200b'")
    assert output == b"a\0\xff\xfe\x80b"
    assert told(call).startswith("a\0\ufffd\ufffd\ufffdb\n[exit status 0 after ")


def test_output_without_a_final_newline_is_shown_as_it_is(run):
    """And how it ended is told on a line of its own."""
    call, output, _ = run("printf abc")
    assert output == b"abc"
    assert told(call).startswith("abc\n[exit status 0 after ")


def test_a_command_that_reads_gets_nothing_and_ends(run):
    """Standard input is empty: nobody has to wait for the time-out."""
    begun = time.monotonic()
    call, output, _ = run(f"cat; read x || echo no line; {sys.executable} -c 'input()'")
    assert time.monotonic() - begun < SOON
    assert output.startswith(b"no line\n")
    assert b"EOFError" in output
    assert (call["status"], "exit status 1" in told(call)) == ("failed", True)


@pytest.mark.parametrize(
    "command",
    [
        "sleep {} & echo hi",
        "setsid sleep {} & echo hi",
        "(nohup sleep {} &) ; echo hi",
        "((setsid sleep {} &) &) ; echo hi",
    ],
)
def test_a_child_that_keeps_the_pipe_does_not_keep_the_call(run, marker, command):
    """The call ends with the shell, and nothing that it started is left."""
    begun = time.monotonic()
    call, output, status = run(command.format(marker))
    assert time.monotonic() - begun < SOON
    assert (call["status"], status["exitCode"]) == ("completed", 0)
    assert b"hi\n" in output
    wait_until_gone(marker)


def test_a_full_screen_program_ends_without_a_terminal(run):
    """There is none to fill, so it gives up; what draws all the same is passed on."""
    begun = time.monotonic()
    code = "import curses; curses.wrapper(lambda screen: screen.getch())"
    call, _, status = run(f'tty; export TERM=xterm; {sys.executable} -c "{code}"')
    assert time.monotonic() - begun < SOON
    assert call["status"] == "failed"
    assert status["exitCode"] not in (None, 0)
    assert told(call).startswith("not a tty\n")
    _, output, _ = run(r"printf '\033[?1049h\033[2Jscreen\033[?1049l'")
    assert output == b"\x1b[?1049h\x1b[2Jscreen\x1b[?1049l"


def test_an_end_by_signal_names_it(run):
    """The shell itself or the last command in it; the terminal has the status of a shell."""
    for command in ("echo before; kill -SEGV $$", "echo before; sh -c 'kill -SEGV $$'"):
        call, output, status = run(command)
        assert call["status"] == "failed"
        assert output.startswith(b"before\n")
        assert status == {"exitCode": 139}
        assert "[exit status 139 (that of an end by SIGSEGV) after " in told(call)


def test_a_status_and_the_time_that_it_took_are_told(run):
    """Another status than 0 is a failure."""
    call, _, status = run("sleep 0.3; exit 7")
    assert (call["status"], status) == ("failed", {"exitCode": 7})
    (seconds,) = re.findall(r"\[exit status 7 after (\d+\.\d) s\]", told(call))
    assert float(seconds) >= 0.3


def test_a_time_out_says_what_was_killed(run, marker, pool):
    """The command and all that it started, which does nothing more; output so far is kept."""
    late = pool.project / "late"
    command = f"trap '' TERM; echo begun; (sleep {marker}; touch late) & sleep {marker}"
    call, output, status = run(command, timeout_s=1)
    assert (call["status"], output, status) == ("failed", b"begun\n", {"signal": "SIGKILL"})
    report = "[timed out after 1 s; the command and all it started were killed]"
    assert notes(call) == [report]
    assert told(call) == f"begun\n{report}"
    wait_until_gone(marker)
    assert processes_with(marker) == []
    assert not late.exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("touch /usr/written", "The sandbox allows writing only in "),
        ("echo x >> .bashrc", "The sandbox keeps "),
        (
            f"{sys.executable} -c 'import socket; socket.create_connection((\"192.0.2.1\", 9))'",
            "The sandbox has no network",
        ),
    ],
)
def test_what_failed_because_of_the_sandbox_says_so(run, command, words):
    """In plain words, to the user and to the model."""
    call, _, _ = run(command)
    assert call["status"] == "failed"
    (note,) = notes(call)
    assert words in note
    assert told(call).endswith(note)


def test_version_1_is_told_the_same_in_text(start, project):
    """How it ended is text of the call, since there is no terminal."""
    editor = start()
    editor.request("initialize", {"protocolVersion": 1}).result()
    new = {"cwd": str(project), "mcpServers": []}
    session = editor.request("session/new", new).result()["sessionId"]
    editor.permissions.allow_all()
    prompt = [{"type": "text", "text": "/shell echo out; touch /usr/written"}]
    editor.request("session/prompt", {"sessionId": session, "prompt": prompt}).result()
    (last,) = [u.body for u in editor.updates(session) if u.body.get("status") == "failed"]
    output, note = (item["content"]["text"] for item in last["content"])
    assert output.startswith("out\n")
    assert "The sandbox allows writing only in " in note
    assert last["rawOutput"]["text"].endswith(note)
