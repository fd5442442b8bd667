"""The first process inside a sandbox, as it is seen from outside."""

from __future__ import annotations

import contextlib
import errno
import os
import select

import attrs

# Its last part is the thread; such a process has but one.
_CHILDREN = "/proc/{0}/task/{0}/children"
_MOUNTS = "/proc/{0}/mountinfo"


@attrs.frozen
class Init:
    """
    The process that all others inside end with.

    Attributes:
        pid: its number outside.
        exited: pidfd of it, the caller's to close.
    """

    pid: int
    exited: int

    def family(self) -> tuple[int, ...]:
        """
        It and its children, by their numbers outside.

        Raises:
            ProcessLookupError: it has ended, so the numbers may be others' now.
            OSError: the kernel does not list the children of a process.
        """
        return (self.pid, *map(int, self._read(_CHILDREN).split()))

    def mounts(self) -> bytes:
        """
        The mount table inside.

        Raises:
            ProcessLookupError: it has ended.
            OSError: the table cannot be read.
        """
        return self._read(_MOUNTS)

    def _read(self, what: str) -> bytes:
        try:
            with open(what.format(self.pid), "rb") as file:
                content = file.read()
        except OSError as error:
            # One that is just ending has no mounts any more, which is told by EINVAL.
            if error.errno == errno.EINVAL or self._has_ended():
                raise ProcessLookupError(f"process {self.pid} has ended") from error
            raise
        # As it is alive after that, its number was its own.
        if self._has_ended():
            raise ProcessLookupError(f"process {self.pid} has ended")
        return content

    def _has_ended(self) -> bool:
        return bool(select.select([self.exited], [], [], 0)[0])


def open_init(pid: int, started: int) -> Init | None:
    """
    The process `pid` if that is still the first one inside a sandbox, and not another's.

    Args:
        pid: what bwrap reported.
        started: what we started: bwrap, or a script that runs it, perhaps under another name.

    Raises:
        OSError: too many files are open.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    with contextlib.ExitStack() as unwanted:
        unwanted.callback(os.close, descriptor)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = _status(pid)
            names = (b"bwrap", _status(started)[b"Name"])
            # While bwrap is alive it is the parent, in the session that we made.
            if fields[b"NSpid"].split()[1:] == [b"1"] and (
                fields[b"Name"] in names or os.getsid(int(fields[b"PPid"])) == started
            ):
                unwanted.pop_all()
                return Init(pid, descriptor)
    return None


def lists_children() -> bool:
    """Whether the kernel tells the children of a process, which `Init.family` needs."""
    return os.path.exists(_CHILDREN.format(os.getpid()))


def _status(pid: int) -> dict[bytes, bytes]:
    with open(f"/proc/{pid}/status", "rb") as file:
        fields = (line.partition(b":") for line in file)
        return {name: value.strip() for name, _, value in fields}
