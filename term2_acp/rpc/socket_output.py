"""
The client's end of a socket, which some editors give instead of a pipe (Node.js does).

Loaded only for those: what it imports takes some milliseconds.
"""

from __future__ import annotations

import os
import socket


class SocketOutput:
    """An `Output` that writes to a socket without blocking, and without telling it not to."""

    must_poll = False

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))

    def write(self, data: memoryview) -> int:
        """See `Output.write`."""
        return self._socket.send(data, socket.MSG_DONTWAIT)

    def close(self) -> None:
        """See `Output.close`."""
        self._socket.close()
