"""Every error that may become a JSON-RPC error response, each with its code (spec section 4)."""

from __future__ import annotations

import errno

MAX_MESSAGE = 1000
"""Characters of a message; what a client sent is echoed no further."""


def remedy(error: OSError) -> str:
    """What a person can do about a file that cannot be used."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "free some space"
    if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
        return "its file system has no locks: keep it on a local disk"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "raise the limit of open files"
    if error.errno in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR):
        return "move away what has its name or a folder's on the way"
    return "make it and its directory writable for you"


class AcpError(Exception):
    """
    An error that the client is told of.

    Args:
        message: one line for a person: what was wrong and what would be right. It goes
            onto the wire, so it holds no exception text of a library and no secret.
    """

    code = -32603

    def __init__(self, message: str) -> None:
        if len(message) > MAX_MESSAGE:
            message = f"{message[:MAX_MESSAGE]}…"
        super().__init__(message)
        self.message = message


class ParseError(AcpError):
    """The line is not UTF-8 or not JSON."""

    code = -32700


class InvalidRequestError(AcpError):
    """The JSON is no JSON-RPC request, or one that may not come now."""

    code = -32600


class MethodNotFoundError(AcpError):
    """The negotiated protocol version has no such method here."""

    code = -32601


class InvalidParamsError(AcpError):
    """A parameter is missing or wrong; the message names the member."""

    code = -32602


class InternalError(AcpError):
    """Something failed on this side; details are on stderr."""

    code = -32603


class StoreError(InternalError):
    """The session store cannot be used; the message names the file and the remedy."""


class SessionNotFoundError(AcpError):
    """No session of that id is live here (or stored, for a resume)."""

    code = -32002

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session not found: {session_id!r} is not open here, or was never made; see"
            " session/list, and open one with session/resume or session/load"
        )


class SessionBusyError(AcpError):
    """The session's one foreground prompt is being prepared or run."""

    code = -32000

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id!r} is busy with another prompt;"
            " wait for its idle state_update or send session/cancel"
        )


class TooManySessionsError(AcpError):
    """The process holds `max_sessions` live sessions already."""

    code = -32010

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"too many live sessions (max_sessions = {limit}); close one with session/close"
        )


class SessionInUseError(AcpError):
    """Another process owns the session."""

    code = -32009


class RequestCancelledError(AcpError):
    """The client withdrew the request with `$/cancel_request`."""

    code = -32800

    def __init__(self) -> None:
        super().__init__("request cancelled")
