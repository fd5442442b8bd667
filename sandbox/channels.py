"""What bwrap reads and writes besides its standard descriptors: a pipe and memory files."""

from __future__ import annotations

import contextlib
import json
import os

import attrs

from sandbox import bwrap
from sandbox.errors import SetupError

_LARGEST_STATUS = 64 * 1024


@attrs.frozen
class Report:
    """
    What a bwrap has reported so far.

    Attributes:
        child_pid: number of the first process inside, also where the start failed after that.
        exit_code: of the command.
    """

    child_pid: int | None
    exit_code: int | None


@attrs.define
class Channels:
    """
    The channels of one bwrap; to be closed by `close`.

    Attributes:
        leash: where bwrap waits, before all else, for `bwrap.TIE` and then for the end.
        options: the memory file, empty at first, that it reads then.
        seccomp: the memory file with the filter.
        status: the memory file that it writes its JSON records to. It is no pipe, because
            bwrap, writing to one whose reader was killed, would die half-way and leave a
            process behind.
    """

    leash: int
    options: int
    seccomp: int
    status: int
    _tie: int
    _before: contextlib.ExitStack
    _after: contextlib.ExitStack

    @classmethod
    def open(cls, seccomp: bytes) -> Channels:
        """
        New channels, with the filter `seccomp`.

        Raises:
            SetupError: there are none to be had.
        """
        with contextlib.ExitStack() as before, contextlib.ExitStack() as after:
            try:
                leash, tie = os.pipe()
                before.callback(os.close, leash)
                before.callback(os.close, tie)
                options_fd = _memory_file("options", b"", before)
                filter_fd = _memory_file("filter", seccomp, before)
                status_fd = _memory_file("status", b"", after)
            except OSError as error:
                text = "a channel to bubblewrap could not be made"
                raise SetupError.from_os_error(text, error) from error
            return cls(
                leash, options_fd, filter_fd, status_fd, tie, before.pop_all(), after.pop_all()
            )

    @property
    def passed(self) -> tuple[int, ...]:
        """The descriptors that bwrap inherits, with their numbers."""
        return (self.leash, self.options, self.seccomp, self.status)

    def tell(self, options: bytes) -> None:
        """
        Let bwrap, which waits, read its `options`; once, and only its records are left then.

        Raises:
            SetupError: it cannot be told.
        """
        try:
            with self._before, open(self.options, "wb", closefd=False) as file:
                file.write(options)
                file.seek(0)
                os.write(self._tie, bwrap.TIE)
        except OSError as error:
            raise SetupError.from_os_error("bubblewrap could not be told", error) from error

    def report(self) -> Report:
        """What bwrap has reported so far."""
        child_pid = exit_code = None
        for line in os.pread(self.status, _LARGEST_STATUS, 0).split(b"\n")[:-1]:
            record = json.loads(line)
            child_pid = record.get("child-pid", child_pid)
            exit_code = record.get("exit-code", exit_code)
        return Report(child_pid, exit_code)

    def close(self) -> None:
        """Let the descriptors go; a bwrap that waits for its options gets none, and ends."""
        self._before.close()
        self._after.close()


def _memory_file(name: str, content: bytes, stack: contextlib.ExitStack) -> int:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    stack.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
