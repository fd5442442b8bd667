"""The folder that a session works in: what a path means there (spec section 7)."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress

import attrs

from term2_acp.agent.ports import ToolError
from term2_acp.files.errors import file_errors
from term2_acp.files.scope import FileScope
from term2_acp.surrogates import replace_lone_surrogates

__all__ = ["FileScope", "Workspace"]

# Control characters, line separators, and what turns the direction of writing.
_SLASHES = re.compile("/+")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@attrs.frozen
class Workspace:
    """
    A session's folder.

    Args:
        root: the folder's absolute real path; it exists.
    """

    root: str

    def resolve(self, path: str) -> str:
        """
        Return the absolute real path that `path` means, whether it exists or not.

        A relative path starts at the root and `~` is an ordinary name. Symbolic links are
        followed, also in the parents of a file that does not exist yet. The answer is a
        snapshot: what opens it must refuse links again, see `FileScope`.

        Raises:
            ToolError: the path is empty, cannot be the name of a file, or leads through a link
                that cannot be followed.
        """
        if not path:
            raise ToolError("path is empty; give the path of a file or folder.")
        if "\0" in path:
            raise ToolError(f"path {path!r} contains a NUL character; no file can have that name.")
        try:
            path.encode()
        except UnicodeEncodeError:
            raise ToolError(
                f"path {path!r} contains a lone surrogate; give the path as valid Unicode."
            ) from None
        with file_errors("follow", _visible(path)):
            # `realpath` of Python 3.11 takes what follows a loop and two slashes as absolute.
            joined = _SLASHES.sub("/", os.path.join(self.root, path))
            real = os.path.realpath(joined)
            _refuse_loop(joined, real)
        return real

    def resolve_file(self, path: str) -> str:
        """
        Return what `path` means as the path of a file; see `resolve`.

        Raises:
            ToolError: as for `resolve`, or the path can only be that of a folder: it ends in
                a slash or in a name made of dots.
        """
        real = self.resolve(path)
        if os.path.basename(path) in ("", ".", ".."):
            raise ToolError(
                f"path {path!r} says by its ending that it is a folder; give the path of a file."
            )
        return real

    def is_link(self, path: str) -> bool:
        """Whether the last name of a path that `resolve` accepts is a symbolic link."""
        return os.path.islink(os.path.join(self.root, path))

    def contains(self, real: str) -> bool:
        """Whether a real path is the root or lies below it."""
        return real == self.root or real.startswith(self.root.rstrip("/") + "/")

    def display(self, real: str) -> str:
        """
        Return a real path as people and models are shown it, free of lone surrogates.

        Control characters are escaped, so that a name cannot pass for several lines.

        It is relative to the root inside the workspace (the root itself is `.`), else absolute.
        """
        if self.contains(real):
            real = real[len(self.root) :].lstrip("/") or "."
        return _visible(replace_lone_surrogates(real))


def _refuse_loop(path: str, real: str) -> None:
    """
    Raise if `realpath` gave up on a link that leads to itself, and left the rest as it was.

    What follows such a link may be a link as well, or `..`, and is not where it leads.
    """
    # The system's own word on the path; on what it leads to, too, since behind a name that is
    # not there it looks no further.
    for each in (path, real):
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            os.stat(each)
    if os.path.realpath(real) != real:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _visible(text: str) -> str:
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)
