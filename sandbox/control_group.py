"""
A control group that bounds the number of processes of one command, for root.

The kernel holds root to no process limit of its own, so a fork bomb would hit the machine.
Where no such group can be made, the reason is told by `probe`.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable

import attrs

from sandbox.errors import SetupError
from sandbox.group_place import Place

_PREFIX = "sandbox-"
# bwrap, the first process inside, and one that is just being replaced.
_OWN_PROCESSES = 3
# The kernel has no more numbers for processes, and takes no larger limit.
_MOST_PROCESSES = 4 * 1024 * 1024
_ATTEMPTS = 10
# What the system says of a group that was removed: before it was opened, and after that.
_GONE = (errno.ENOENT, errno.ENODEV)


@attrs.frozen
class ControlGroup:
    """
    A control group of one command.

    Attributes:
        path: its folder.
        most: how many processes there may be in it.
    """

    path: str
    most: int

    def make(self) -> None:
        """
        Make it, with nothing in it.

        Raises:
            OSError: it cannot be made.
        """
        _again_while_gone(self._make)

    def add(self, pid: int) -> None:
        """
        Put the process `pid` into it, and with it what that starts from now on.

        Raises:
            ProcessLookupError: it has ended.
            OSError: that cannot be done.
        """

        def join() -> None:
            if not os.path.isdir(self.path):
                self._make()
            _write(os.path.join(self.path, "cgroup.procs"), pid)

        _again_while_gone(join)

    def _make(self) -> None:
        os.mkdir(self.path)
        try:
            _write(os.path.join(self.path, "pids.max"), self.most)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(self.path)
            raise

    def remove(self) -> None:
        """
        Remove it.

        A dead process is counted until the kernel has left it for good, which nothing
        tells; then the next `make` or `sweep` removes the group.
        """
        try:
            os.rmdir(self.path)
        except FileNotFoundError:
            pass
        except OSError:
            _left.append(self)


# Groups of this process that could not be removed yet; appending and taking are atomic.
_left: list[ControlGroup] = []


def make(processes: int, place: Place) -> ControlGroup | None:
    """
    A new group for at most so many processes; None where there can be none.

    Raises:
        SetupError: it was possible before, and is not now.
    """
    if place.parent is None:
        return None
    _remove_left()
    path = os.path.join(place.parent, f"{_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
    group = ControlGroup(path, min(processes + _OWN_PROCESSES, _MOST_PROCESSES))
    try:
        group.make()
    except OSError as error:
        raise SetupError.from_os_error("the process limit could not be set", error) from error
    return group


def sweep(place: Place) -> None:
    """Remove the groups of processes that were killed; one with processes in it stays."""
    _remove_left()
    if place.parent is None:
        return
    with contextlib.suppress(OSError):
        for name in os.listdir(place.parent):
            owner = name.removeprefix(_PREFIX).partition("-")[0]
            if name.startswith(_PREFIX) and owner.isdecimal() and not _is_alive(int(owner)):
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(place.parent, name))


def _remove_left() -> None:
    for _ in range(len(_left)):
        with contextlib.suppress(IndexError):
            _left.pop().remove()


def _again_while_gone(step: Callable[[], None]) -> None:
    """
    Do a step with an empty group, which may be removed at any moment of it.

    Another server, in another namespace of processes, does not see that we live, and may take
    it for one that was left; with a process in it, it is safe.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return step()
        except OSError as error:
            if error.errno not in _GONE:
                raise
    return step()


def _write(path: str, number: int) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(str(number))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
