"""The exceptions of the sandbox, apart so that no module imports another for them."""

from __future__ import annotations

import errno


class SandboxError(Exception):
    """Something about the sandbox is wrong; the text says what, and what would be right."""


class PolicyError(SandboxError):
    """A workspace or a hidden path that no safe sandbox can be built for."""


class SetupError(SandboxError):
    """
    The sandbox could not be built, so nothing of the command ran.

    Attributes:
        reason: what was wrong.
        remedy: what the user can do about it, empty if nothing is known.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason, remedy)
        self.reason = reason
        self.remedy = remedy

    @classmethod
    def from_os_error(cls, what: str, error: OSError | ValueError, remedy: str = "") -> SetupError:
        """The failure of `what`; that we ran out of descriptors has a remedy of its own."""
        if is_out_of_descriptors(error):
            return cls(
                f"too many open files: {what}",
                "let other commands or sessions end, or raise the limit (ulimit -n)",
            )
        return cls(f"{what}: {error}", remedy)

    def __str__(self) -> str:
        return f"{self.reason}. To fix it: {self.remedy}" if self.remedy else self.reason


def is_out_of_descriptors(error: Exception) -> bool:
    """Whether a call failed because too many files are open: it says nothing about the file."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)
