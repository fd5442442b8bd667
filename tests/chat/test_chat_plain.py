"""`term2 chat` over pipes: one prompt a line, everything else told in lines (spec section 1)."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.chat.terminal import COMMAND, child_of
from tests.harness.home import SOURCE
from tests.harness.processes import wait_until_gone


@pytest.fixture(name="piped")
def _piped(home, project):
    """The client over pipes that are written to and read step by step."""
    chat = subprocess.Popen(
        [*COMMAND, "chat", "--provider", "offline"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        bufsize=1,
        cwd=project,
        env=home.environment(),
    )
    yield chat
    chat.kill()
    chat.communicate()
    wait_until_gone(home.mark, timeout=15)


def read_until(chat, start):
    """Lines up to the one that begins so."""
    lines = []
    while not (lines and lines[-1].startswith(start)):
        line = chat.stdout.readline()
        assert line, lines
        lines.append(line)
    return lines


def test_a_prompt_a_line_and_the_end_of_input_leaves(plain, home):
    """Text comes as it is, what else happens in marked lines; nothing of the server is left."""
    ended = plain("/say hello, world\n/plan A; B\n\n/think first\\nsecond")
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("[session] sess_")
    assert lines[1:3] == ["hello, world", "[end] end_turn"]
    assert ["[plan] pending: A", "[plan] pending: B"] == [x for x in lines if "[plan]" in x]
    assert lines[-2:] == ["[thought] first (2 lines; :thoughts shows them)", "[end] end_turn"]
    assert ended.returncode == 0
    assert "\x1b" not in ended.stdout
    wait_until_gone(home.mark)


def test_only_the_number_of_an_answer_allows(plain, project):
    """A number, another word, nothing and the end of the input: one of the four files is made."""
    ended = plain(
        "/shell touch allowed\n1\n/shell touch rejected\n2\n/shell touch word\nyes\n"
        "/shell touch empty\n\n/shell touch out-of-range\n3\n/shell touch ended\n"
    )
    made = [name for name in os.listdir(project) if (project / name).stat().st_size == 0]
    assert made == ["allowed"]
    assert "[permission] Allow: Run `touch allowed`\n[permission] 1 = Allow once\n" in ended.stdout
    assert ended.stdout.count("[answer] Allow once\n") == 1
    assert ended.stdout.count("[answer] Reject\n") == 5
    assert ended.returncode == 0


def test_an_edit_is_shown_as_a_diff_and_output_as_lines(plain, project):
    """What a call shows stands behind a bar, between its first and its last line."""
    ended = plain("/replace README.md small => large\n/shell printf 'a\\nb\\n'; exit 3\n1\n")
    assert "A large program" in (project / "README.md").read_text()
    lines = ended.stdout.splitlines()
    start = lines.index("[tool] in_progress: Edit README.md")
    assert lines[start + 1] == "  │ README.md"
    assert "  │ -A small program that pours tea." in lines
    assert "  │ +A large program that pours tea." in lines
    assert lines.index("[tool] completed: Edit README.md") > start
    start = lines.index("  │ a")
    assert lines[start : start + 3] == ["  │ a", "  │ b", "  │ exit status 3"]
    assert lines[start + 3].startswith("[tool] failed: Run `")


def test_a_session_is_resumed_from_the_list(plain):
    """What was said and done is shown again, and the conversation goes on."""
    first = plain("/say remember the milk\n:new\n/say something else\n")
    sessions = [line.split()[1] for line in first.stdout.splitlines() if "[session] " in line]
    ended = plain(
        ":sessions\n:resume 3\n:resume 2\n/say going on\n:history\n"
        f":resume {sessions[0]}\n:resume {sessions[1][:12]}\n"
    )
    lines = ended.stdout.splitlines()
    assert [line.split(": ", 1)[1] for line in lines if line.startswith("[sessions]")] == [
        "/say something else",
        "/say remember the milk",
    ]
    assert "there is no session 3" in ended.stderr
    start = lines.index("[user] /say remember the milk")
    told = ["[user] /say remember the milk", "remember the milk"]
    assert lines[start : start + 5] == [
        *told,
        lines[start + 2],
        "going on",
        "[end] end_turn",
    ]
    assert lines[start + 2].startswith(f"[session] {sessions[0]} in ")
    assert lines[start + 5 : start + 9] == [*told, "[user] /say going on", "going on"]
    assert lines[start + 9] == "[chat] that session is open already; :history shows it"
    assert lines[start + 10 : start + 12] == ["[user] /say something else", "something else"]


def test_a_backslash_continues_the_prompt(plain):
    """Lines are joined to one prompt; the offline model obeys each."""
    ended = plain("/say one\\\n/say two\n:history\n")
    assert "[user] /say one\n[user] /say two\n" in ended.stdout
    assert ended.stdout.count("[end]") == 1


def test_a_slash_is_for_the_agent_and_a_colon_for_the_client(plain):
    """Unknown commands are refused; a space before the colon makes it a prompt."""
    ended = plain(":nonsense\n/nonsense\n :quit\n:)\n:help\n:quit\n/say not reached\n")
    assert ":nonsense is no command" in ended.stderr
    assert ended.stdout.count("[end] end_turn") == 3
    assert "[chat] To send such a line to the agent, put a space before the colon." in ended.stdout
    assert "not reached" not in ended.stdout
    # A script notices that a command of it was wrong.
    assert ended.returncode == 2


def test_a_turn_that_fails_shows_in_the_exit_status(plain):
    """The reason is the turn's last line; the next prompt works."""
    ended = plain("/fail\n/say still here\n")
    assert "[end] _term2_error\n" in ended.stdout
    assert "\nstill here\n[end] end_turn\n" in ended.stdout
    assert ended.returncode == 2


def test_text_of_others_cannot_drive_a_terminal_or_feign_a_line(plain, project):
    """Escape sequences, C1 controls and reordering are shown; marks of the agent's are moved."""
    (project / "evil.txt").write_text("\x1b]0;title\x07\x9b2J\u202eabc\n[end] end_turn\n")
    ended = plain("/read evil.txt\n/say [permission] 1 = Allow once\n/shell cat evil.txt\n1\n")
    assert not set("\x1b\x07\x9b\u202e") & set(ended.stdout)
    assert "^[]0;title^G<U+009B>2J<U+202E>abc" in ended.stdout
    assert "\n [permission] 1 = Allow once\n" in ended.stdout
    assert ended.stdout.count("\n[end] end_turn\n") == 3


@pytest.mark.parametrize(
    "args",
    [
        ["--auto-approve"],
        ["--model"],
        ["--effort", "extreme"],
        ["--model", "unknown/model"],
    ],
    ids=" ".join,
)
def test_wrong_options_are_refused_as_by_the_server(plain, home, args):
    """Status 1, nothing on stdout, and the same words on stderr."""
    ended = plain("/say no\n", *args)
    served = subprocess.run(
        [*COMMAND, "acp", *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd=SOURCE,
        env=home.environment(),
        timeout=60,
    )
    assert served.returncode == 1
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", served.stderr)


def test_a_folder_that_is_refused_is_told(home):
    """The reason is the server's."""
    ended = subprocess.run(
        [*COMMAND, "chat", "--provider", "offline"],
        input="/say no\n",
        capture_output=True,
        text=True,
        check=False,
        cwd=home.path,
        env=home.environment(),
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "term2: session/new: " in ended.stderr
    assert str(home.path) in ended.stderr


def test_an_interrupt_cancels_the_turn_and_between_turns_leaves(piped, home):
    """The next prompt works after the first; the second ends client and server, status 130."""
    piped.stdin.write("/shell sleep 600\n1\n")
    read_until(piped, "[tool] in_progress")
    piped.send_signal(signal.SIGINT)
    assert "[end] cancelled\n" == read_until(piped, "[end]")[-1]
    piped.stdin.write("/say still here\n")
    assert "still here\n" in read_until(piped, "[end] end_turn")
    piped.send_signal(signal.SIGINT)
    assert piped.wait(20) == 130
    wait_until_gone(home.mark)


def test_an_interrupt_while_a_question_is_open_runs_nothing(piped, project):
    """The question is settled as cancelled with the turn."""
    piped.stdin.write("/shell touch proof\n")
    read_until(piped, "[permission] type")
    piped.send_signal(signal.SIGINT)
    assert "[answer] cancelled\n" in read_until(piped, "[end] cancelled")
    assert not (project / "proof").exists()


def test_the_death_of_the_server_is_told(piped):
    """In the middle of a turn: how it ended, what it said last, how to go on; status 1."""
    piped.stdin.write("/sleep 600\n/say never\n")
    session = read_until(piped, "[session]")[-1].split()[1]
    os.kill(child_of(piped.pid), signal.SIGKILL)
    stdout, stderr = piped.communicate(timeout=20)
    assert "the server ended (killed by SIGKILL)" in stderr
    assert f":resume {session}" in stdout
    assert piped.returncode == 1


def test_sigterm_ends_the_client_and_its_server(piped, home):
    """Status 143."""
    read_until(piped, "[session]")
    piped.send_signal(signal.SIGTERM)
    assert piped.wait(20) == 143
    wait_until_gone(home.mark)


def test_the_folder_cannot_slip_modules_into_the_server(plain, project):
    """A file that is named like a module of the library is not imported."""
    for name in ("sqlite3", "cattrs", "term2_acp"):
        (project / f"{name}.py").write_text("open('imported', 'w')\nraise SystemExit(9)\n")
    ended = plain("/say hello\n")
    assert "\nhello\n" in ended.stdout
    assert not (project / "imported").exists()
