"""How a file that cannot be used reads to the model."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from term2_acp.agent.ports import ToolError

_REASONS = {
    errno.ENOENT: "there is no such file or folder",
    errno.EISDIR: "it is a folder",
    errno.EEXIST: "it exists already",
    errno.ENOTDIR: "a part of its path is not a folder, or became a symbolic link meanwhile",
    errno.ELOOP: "it is a symbolic link that leads nowhere, or became one meanwhile",
}


class AccessDenied(ToolError):
    """The call reached for a path that it was not granted."""


class FileRefusedError(Exception):
    """A file is not used although the system would let us; the message is the reason."""


@contextmanager
def file_errors(action: str, shown: str) -> Iterator[None]:
    """
    Turn a failure of the block into a `ToolError`: "cannot ACTION SHOWN: reason".

    Raises:
        ToolError: a system call of the block failed, or a file was refused.
    """
    try:
        yield
    except FileRefusedError as error:
        raise ToolError(f"cannot {action} {shown}: {error}.") from error
    except OSError as error:
        number = error.errno or 0
        reason = _REASONS.get(number) or os.strerror(number)
        raise ToolError(f"cannot {action} {shown}: {reason}.") from error
