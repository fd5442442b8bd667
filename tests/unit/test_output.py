"""Writing to the client's descriptor: as much as it takes, and never more."""

from __future__ import annotations

import os
import socket

import pytest

from term2_acp.rpc.output import PipeOutput
from term2_acp.rpc.socket_output import SocketOutput

MUCH = memoryview(bytes(1 << 22))


@pytest.fixture(name="ends", params=["pipe", "socket"])
def fixture_ends(request):
    """The output on one end, that end's descriptor, and a function that reads the other."""
    if request.param == "pipe":
        read_fd, write_fd = os.pipe()
        output = PipeOutput(write_fd)
        yield output, write_fd, lambda: os.read(read_fd, 1 << 22)
        output.close()
        os.close(read_fd)
        os.close(write_fd)
    else:
        ours, theirs = socket.socketpair()
        output = SocketOutput(ours.fileno())
        yield output, ours.fileno(), lambda: theirs.recv(1 << 22)
        output.close()
        ours.close()
        theirs.close()


def fill(output):
    """Write until nothing more is taken; how much was."""
    taken = 0
    with pytest.raises(BlockingIOError):
        while True:
            taken += output.write(MUCH)
    return taken


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="a description of one's own")
def test_a_client_that_does_not_read_blocks_nobody(ends):
    """What fits is taken at once, the rest is refused, and room made is used again."""
    output, _fd, read = ends
    assert not output.must_poll
    held = fill(output)
    assert held >= 64 * 1024
    assert read()
    assert output.write(MUCH) > 0


def test_whoever_shares_the_descriptor_still_blocks(ends):
    """A shell that inherited the same pipe must not see its own writes refused."""
    output, fd, _read = ends
    output.write(MUCH[:1])
    assert os.get_blocking(fd)


def test_the_descriptor_stays_open(ends):
    """It belongs to the server, which polls it until its end."""
    output, fd, _read = ends
    type(output)(fd).close()
    assert os.fstat(fd)
    assert 1 == output.write(MUCH[:1])


def test_anything_else_is_written_in_pieces_after_a_poll(tmp_path):
    """A file takes all at once, but nothing is known of other kinds."""
    with (tmp_path / "out").open("wb", buffering=0) as file:
        output = PipeOutput(file.fileno())
        assert output.must_poll
        assert 0 < output.write(MUCH) <= 4096
