"""Spec section 11: how the process ends, whatever it is doing."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.harness.messages import agent_text, encode
from tests.harness.processes import processes_with, wait_until_gone

# The specification says at most 5 s; the rest is for a loaded machine.
BOUND = 8.0
MIB = 1 << 20


def end(client, way):
    """Tell the server to end."""
    if way == "eof":
        client.eof()
    else:
        client.process.send_signal(way)


def say(client, session, prompt, word):
    """Prompt and wait until the agent said a word; the turn goes on."""
    client.prompt(session, prompt).result()
    client.wait_for(lambda: word in agent_text(client.updates(session)), repr(word))


WAYS = pytest.mark.parametrize("way", ["eof", signal.SIGTERM, signal.SIGINT], ids=str)


@WAYS
def test_an_idle_server_ends(start, way):
    """Exit 0, also before initialize."""
    client = start()
    if way != "eof":
        client.initialize()
    end(client, way)
    assert client.wait_exit(BOUND) == 0


@WAYS
def test_a_running_turn_is_cancelled(client, session, way):
    """The client that still reads gets the idle state `cancelled`, then the end."""
    say(client, session, "/say so far\n/sleep 600", "so far")
    end(client, way)
    assert client.wait_exit(BOUND) == 0
    assert client.record.life(session).stop_reasons == ["cancelled"]


@WAYS
def test_an_open_permission_is_denied(client, session, project, way):
    """The call is cancelled and the question withdrawn; nothing ran."""
    client.prompt(session, "/shell touch never").result()
    request = client.permissions.next()
    end(client, way)
    assert client.wait_exit(BOUND) == 0
    assert request.cancelled
    assert client.record.life(session).stop_reasons == ["cancelled"]
    assert list(client.record.life(session).calls.values()) == ["cancelled"]
    assert not (project / "never").exists()


@WAYS
def test_a_shell_and_its_children_are_killed(client, session, marker, way):
    """No process of the tree survives, also none that ignores signals."""
    client.permissions.allow_all()
    command = f"trap '' TERM HUP INT; setsid sleep {marker} & echo started; sleep {marker}"
    client.prompt(session, "/shell " + command).result()
    client.wait_update(lambda u: u.kind == "terminal_output_chunk", what="the command's output")
    assert processes_with(marker)
    end(client, way)
    assert client.wait_exit(BOUND) == 0
    wait_until_gone(marker)
    wait_until_gone(client.home.mark)


def test_a_killed_server_leaves_no_child(client, session, marker):
    """SIGKILL while a shell runs: the whole tree goes with the server."""
    client.permissions.allow_all()
    command = f"setsid sleep {marker} & echo started; sleep {marker}"
    client.prompt(session, "/shell " + command).result()
    client.wait_update(lambda u: u.kind == "terminal_output_chunk", what="the command's output")
    assert processes_with(marker)
    client.kill()
    assert client.wait_exit() == -signal.SIGKILL
    wait_until_gone(marker)
    wait_until_gone(client.home.mark)


def test_requests_already_read_are_answered_at_the_end(client, session, project):
    """What was written before the end of stdin gets its response."""
    client.still_works(session)
    pairs = [client.prepare("session/list", {}) for _ in range(20)]
    opened, message = client.prepare("session/new", {"cwd": str(project)})
    client.send_raw(b"".join(encode(m) for _, m in pairs) + encode(message))
    client.eof()
    assert client.wait_exit(BOUND) == 0
    assert all(len(reply.result()["sessions"]) == 1 for reply, _ in pairs)
    assert opened.result()["sessionId"]


def test_a_prompt_right_before_the_end_of_stdin_is_settled(client, session):
    """It is answered and its turn ends once, finished or cancelled."""
    reply = client.prompt(session, "/say quick")
    client.eof()
    assert client.wait_exit(BOUND) == 0
    assert reply.result() == {}
    assert client.record.life(session).stop_reasons[0] in ("end_turn", "cancelled")


@pytest.mark.parametrize("way", ["eof", signal.SIGTERM], ids=str)
def test_an_editor_that_no_longer_reads_does_not_hold_the_end_up(client, session, way):
    """With the pipe full the server ends within its bound all the same, with status 0."""
    client.expect_disorder()
    client.process.pause_reading()
    client.prompt(session, "/say ok\n" + "x" * (12 * MIB))
    client.request("session/list")
    end(client, way)
    assert client.process.popen.wait(BOUND) == 0
    client.process.resume_reading()


def test_a_second_signal_ends_the_server_at_once(client, session):
    """An impatient user need not wait for a stuck editor."""
    client.expect_disorder()
    client.process.pause_reading()
    client.prompt(session, "/say ok\n" + "x" * (12 * MIB))
    client.request("session/list")
    client.process.send_signal(signal.SIGTERM)
    try:
        client.process.popen.wait(0.7)
    except subprocess.TimeoutExpired:
        client.process.send_signal(signal.SIGTERM)
        client.process.popen.wait(2.0)
    client.process.resume_reading()


@pytest.mark.parametrize("prompt", ["/say into the void", "/sleep 600", "/shell touch never"])
def test_a_broken_stdout_is_the_end_of_the_client(client, session, project, prompt):
    """The server ends with status 0, without a traceback and without running what was asked."""
    client.break_stdout()
    client.prompt(session, prompt)
    assert client.wait_exit(BOUND) == 0
    assert not (project / "never").exists()


def test_a_broken_stdout_ends_a_running_shell(client, session, marker):
    """When the editor dies, what it had started dies too."""
    client.permissions.allow_all()
    command = f"while sleep 0.05; do echo tick; done & sleep {marker}"
    client.prompt(session, "/shell " + command).result()
    client.wait_update(lambda u: u.kind == "terminal_output_chunk", what="the command's output")
    client.break_stdout()
    assert client.wait_exit(BOUND) == 0
    wait_until_gone(marker)


def test_a_session_that_a_signal_interrupted_can_be_resumed(start, project):
    """The turn is stored as cancelled, and the next process takes the session up."""
    first = start()
    first.initialize()
    session = first.new_session(project)
    say(first, session, "/say so far\n/sleep 600", "so far")
    first.process.send_signal(signal.SIGTERM)
    assert first.wait_exit(BOUND) == 0
    second = start()
    second.initialize()
    second.resume(session, project, replay=True).result()
    assert "so far" in agent_text(second.updates(session))
    second.still_works(session)
