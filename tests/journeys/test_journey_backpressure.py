"""Spec section 3: an editor that stops reading slows its own session down, nothing else."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.harness.processes import processes_with, wait_until_gone

MIB = 1 << 20


@pytest.fixture
def flooded(client, session):
    """A session whose shell floods the client, which has stopped to read; and a marker."""
    marker = f"flood-{uuid.uuid4().hex}"
    client.permissions.allow_all()
    client.prompt(session, f"/shell yes {marker}").result()
    client.wait_update(lambda u: u.kind == "terminal_output_chunk", what="the flood")
    assert processes_with(marker)
    client.process.pause_reading()
    return marker


def resident(pid: int) -> int:
    """The memory that a process uses, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS in the status of the process")


def test_a_cancel_works_while_the_client_does_not_read(client, session, flooded):
    """The flood is stopped at once and in bounded memory; the client reads the end of it later."""
    client.cancel(session)
    wait_until_gone(flooded)
    assert resident(client.process.pid) < 400 * MIB
    client.process.resume_reading()
    assert client.wait_idle(session) == "cancelled"
    client.still_works(session)


def test_a_close_works_while_the_client_does_not_read(client, session, flooded):
    """Closing stops the flood too, and is answered when the client reads again."""
    reply = client.request("session/close", {"sessionId": session})
    wait_until_gone(flooded)
    client.process.resume_reading()
    assert reply.result() == {}
    assert client.wait_idle(session) == "cancelled"


def test_the_end_of_stdin_works_while_the_client_does_not_read(client, flooded):
    """The server ends within its bound, with status 0, and so does the flood."""
    client.expect_disorder()
    client.eof()
    assert client.process.popen.wait(8) == 0
    wait_until_gone(flooded)
    client.process.resume_reading()


def test_a_command_that_prints_a_lot_is_told_in_bounded_memory(client, session):
    """200 MB of output and a line of 20 MB pass a client that reads, and are cut for the model."""
    client.permissions.allow_all()
    command = "yes 0123456789 | head -c 200M; head -c 20M /dev/zero | tr '\\0' x; echo; echo last"
    turn = client.run(session, "/shell " + command, timeout=60)
    assert turn.stop_reason == "end_turn"
    assert [call["status"] for call in turn.calls] == ["completed"]
    assert resident(client.process.pid) < 400 * MIB
    client.still_works(session)
