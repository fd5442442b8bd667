"""What ends a conversation, or a request of it, from the client's point of view."""

from __future__ import annotations

import attrs


class ChatError(Exception):
    """The base of all that this package raises; the text is for the user."""


class ServerFaultError(ChatError):
    """The server ended, or broke the protocol; nothing more can be done with it."""


@attrs.define
class RequestRefusedError(ChatError):
    """
    The server answered a request with an error.

    Args:
        method: the request.
        code: the JSON-RPC code.
        message: the server's reason.
    """

    method: str
    code: int
    message: str

    def __str__(self) -> str:
        return f"{self.method}: {self.message}"


class InterruptedWaitError(ChatError):
    """The user pressed Ctrl-C while an answer was waited for."""


@attrs.define
class Leave(Exception):
    """
    The user, or a signal, wants the client to end.

    Args:
        status: the exit status.
    """

    status: int
