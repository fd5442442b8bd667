"""The server's process: its messages, its last words, its end."""

from __future__ import annotations

import select
import sys
import threading

import pytest

from term2_acp.chat.diagnostics import Diagnostics
from term2_acp.chat.inbox import Ended, Inbox, Received
from term2_acp.chat.server import Server, server_argv


@pytest.fixture(name="started")
def _started():
    """Starts a Python program in the server's place: `started(code) -> Server`."""
    servers = []

    def start(code):
        server = Server(
            [sys.executable, "-c", code],
            inbox=inbox,
            diagnostics=diagnostics,
            ended=ended.set,
        )
        servers.append(server)
        return server

    inbox, diagnostics, ended = Inbox(), Diagnostics(), threading.Event()
    start.inbox, start.diagnostics, start.ended = inbox, diagnostics, ended
    yield start
    for server in servers:
        server.close()


def take(inbox):
    """The next item, waited for."""
    assert select.select([inbox], [], [], 20)[0]
    return inbox.take()


def test_the_command_is_this_interpreters(started):
    """Options come as one word each, so that no value is taken for an option."""
    argv = server_argv({"--model": "-x"})
    assert argv == [sys.executable, "-P", "-m", "term2_acp", "acp", "--model=-x"]


def test_lines_are_messages_until_the_end(started):
    """Blank lines are none; the end is told with the status and the last words."""
    server = started(
        "import sys; print('{\"a\": 1}\\n\\n[2]'); sys.stderr.write('why\\n'); sys.exit(3)"
    )
    assert [take(started.inbox).message, take(started.inbox).message] == [{"a": 1}, [2]]
    assert Ended() == take(started.inbox)
    assert started.ended.wait(20)
    assert server.end_status() == 3
    assert started.diagnostics.last() == ["why"]


def test_what_is_no_json_is_a_fault(started):
    """The line is shown; what follows is not trusted, but read, so that nobody waits."""
    started("print('Traceback'); print('{}' * 100000)")
    item = take(started.inbox)
    assert isinstance(item, Ended)
    assert "not JSON: b'Traceback" in item.fault


def test_what_is_sent_arrives_and_the_end_of_input_ends_it(started):
    """As the real server, this one ends when its input does."""
    server = started("import sys\nfor line in sys.stdin: print(line, flush=True)")
    server.send({"text": "ü\u2028\ud800"})
    assert take(started.inbox).message == {"text": "ü\u2028\ud800"}
    server.close()
    assert server.end_status() == 0


def test_diagnostics_are_bounded_and_nobody_waits():
    """The oldest unseen lines are dropped and counted; the last are kept for the end."""
    diagnostics = Diagnostics()
    for number in range(1000):
        diagnostics.add(str(number) * 5000)
    lines = diagnostics.take()
    assert lines[0] == "(800 earlier lines are not shown)"
    assert len(lines) == 201
    assert max(map(len, lines)) <= 2000
    assert diagnostics.take() == []
    assert len(diagnostics.last()) == 20


def test_the_inbox_holds_the_reader_up_when_it_is_full():
    """Bytes are bounded; taking lets it go on, and so does the end."""
    inbox = Inbox()
    done = threading.Event()

    def fill():
        for _ in range(4):
            inbox.put(Received({}, 60 * 1024 * 1024))
        done.set()

    thread = threading.Thread(target=fill, name="fill")
    thread.start()
    assert isinstance(take(inbox), Received)
    assert not done.wait(0.2)
    assert isinstance(take(inbox), Received)
    assert done.wait(20)
    thread.join()
    blocked = threading.Thread(
        target=lambda: [inbox.put(Received({}, 1 << 30)) for _ in range(2)], name="blocked"
    )
    blocked.start()
    inbox.close()
    blocked.join(20)
    assert not blocked.is_alive()
