"""Which directory a session may work in (spec section 5, session/new)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from term2_acp.errors import InvalidParamsError
from term2_acp.permissions import CREDENTIAL_STORES, is_within

_SYSTEM = (
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr/bin",
    "/usr/lib",
    "/usr/sbin",
)
_DARWIN = ("/System", "/Library", "/Applications")


def canonical(cwd: str) -> str:
    """
    The real path of a `cwd` parameter, whether it exists or not.

    Raises:
        InvalidParamsError: it is not an absolute path.
    """
    if not os.path.isabs(cwd) or "\0" in cwd:
        raise InvalidParamsError(f"cwd must be an absolute path, not {cwd!r}")
    try:
        path = os.path.realpath(cwd)
        # A link may lead to a name that is not UTF-8; neither the log nor JSON can hold it.
        path.encode()
    except (OSError, ValueError):
        raise InvalidParamsError(f"cwd cannot be resolved to a UTF-8 path: {cwd!r}") from None
    return path


class WorkspaceRules:
    """
    Judges directories.

    Args:
        home: the user's home, a real path.
        private: real paths of the program's state and configuration directories.
    """

    def __init__(self, home: str, private: Sequence[str]) -> None:
        self._home = home
        self._private = tuple(private)
        system = [*_SYSTEM, *(_DARWIN if sys.platform == "darwin" else ())]
        system += [f"/{name}" for name in os.listdir("/") if name.startswith("lib")]
        # Where /bin is a link to /usr/bin, both spellings count.
        self._system = frozenset([*system, *(os.path.realpath(path) for path in system)])

    def accept(self, cwd: str) -> str:
        """
        The real path of a directory that a session may work in.

        Raises:
            InvalidParamsError: it may not, and why.
        """
        path = canonical(cwd)
        if not os.path.exists(path):
            raise InvalidParamsError(f"cwd does not exist: {cwd}; open a folder that is there")
        if not os.path.isdir(path):
            raise InvalidParamsError(
                f"cwd is not a directory: {cwd}; open the folder that it is in"
            )
        if not os.access(path, os.R_OK | os.X_OK):
            raise InvalidParamsError(
                f"cwd cannot be read: {cwd}; make it readable for you, or open another folder"
            )
        reason = self._refusal(path)
        if reason:
            raise InvalidParamsError(f"cwd {path} {reason}; open a project directory instead")
        return path

    def _refusal(self, path: str) -> str | None:
        if path == "/":
            return "is the root of the file system"
        if is_within(self._home, path):
            return "is the home directory" if path == self._home else "contains the home directory"
        for system in self._system:
            if is_within(path, system):
                return "is a system directory"
            if is_within(system, path):
                return "contains a system directory"
        for store in CREDENTIAL_STORES:
            if is_within(path, os.path.realpath(os.path.join(self._home, store))):
                return "is a store of credentials"
        for private in self._private:
            if is_within(path, private) or is_within(private, path):
                return "holds term2's own state or configuration"
        return None
