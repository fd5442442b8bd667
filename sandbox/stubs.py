"""
Stand-ins for protected paths that do not exist, so that no command can create them.

They are real empty folders (or tiny files) on the host, there only while a command
runs. Several sessions and processes share them: each running call keeps a locked
journal of those it relies on, and who leaves last removes them. The journal of a
process that died is no longer locked; the next call, or `sweep`, clears up after it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import attrs

from sandbox import paths
from sandbox.errors import SetupError
from sandbox.removal import ensure_rights
from sandbox.stock import MODE, Stock

_FOLDER = "stubs"
_SUFFIX = ".json"
_logger = logging.getLogger(__name__)
# Where we cannot create it, the command, with fewer rights, cannot either.
_CANNOT = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


@attrs.frozen
class Stub:
    """A stand-in at `path` below the real folder `root`: a file with `content`, else a folder."""

    root: str
    path: str
    content: bytes | None


@contextmanager
def held(
    state_dir: str, candidates: Iterable[Stub], *, stock: str | None = None
) -> Iterator[tuple[Stub, ...]]:
    """
    Keep those of `candidates` in place that nothing real is in the place of.

    Args:
        state_dir: the folder that all sessions and processes of the user share.
        candidates: outer folders before what lies in them.
        stock: a folder of the caller's to keep empty folders in between calls.

    Raises:
        SetupError: a stand-in could not be created, for instance because the disk is full.
    """
    folder = os.path.join(state_dir, _FOLDER)
    with contextlib.ExitStack() as stack:
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            os.chmod(folder, 0o700)
            with _mutex(folder):
                relied_on, journal = stack.enter_context(_enter(folder, candidates, stock))
        except OSError as error:
            raise SetupError.from_os_error(
                "a protected path could not be secured", error
            ) from error
        stack.callback(_leave, folder, journal, relied_on, stock)
        yield relied_on


def sweep(state_dir: str) -> None:
    """Remove the stand-ins that processes left behind which were killed; what fails is logged."""
    folder = os.path.join(state_dir, _FOLDER)
    if not os.path.isdir(folder):
        return
    try:
        with _mutex(folder):
            _clear_dead(folder)
    except OSError as error:
        _logger.warning("stand-ins that were left behind cannot be removed: %s", error)


@contextmanager
def _enter(
    folder: str, candidates: Iterable[Stub], stock: str | None
) -> Iterator[tuple[tuple[Stub, ...], str]]:
    in_use = _clear_dead(folder)
    relied_on = [stub for stub in candidates if stub in in_use or not os.path.lexists(stub.path)]
    journal = os.path.join(folder, os.urandom(8).hex() + _SUFFIX)
    with open(journal, "x", encoding="ascii", opener=_private) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps([_to_json(stub) for stub in relied_on]))
        file.flush()
        with paths.Parents() as parents, _opened(stock) as kept:
            created = tuple(stub for stub in relied_on if _create(stub, parents, kept))
        yield created, journal


def _leave(folder: str, journal: str, relied_on: Iterable[Stub], stock: str | None) -> None:
    try:
        # To the end under the mutex: who enters must not take for the user's own what is
        # just being removed.
        with _mutex(folder):
            os.unlink(journal)
            in_use = _clear_dead(folder)
            _remove((stub for stub in relied_on if stub not in in_use), stock)
    except FileNotFoundError:
        # The journals were removed from under us: there is nobody to wait for.
        _remove(relied_on, stock)
    except OSError as error:
        # Others may rely on them. The journal stays, and the next call clears up.
        _logger.warning("stand-ins cannot be removed yet: %s", error)


@contextmanager
def _opened(stock: str | None) -> Iterator[Stock | None]:
    """The stock, None where there can be none: all goes on without."""
    with contextlib.ExitStack() as stack:
        kept = None
        with contextlib.suppress(OSError):
            kept = stack.enter_context(Stock(stock)) if stock else None
        yield kept


@contextmanager
def _mutex(folder: str) -> Iterator[None]:
    """Held for the few system calls of one entry or exit; a killed holder frees it."""
    # Not to be truncated: for some file systems that is work, also where nothing is.
    with open(os.path.join(folder, "lock"), "a", encoding="ascii", opener=_private) as file:
        os.fchmod(file.fileno(), 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _clear_dead(folder: str) -> set[Stub]:
    """Clear up after dead processes; what the living rely on. The mutex is held."""
    in_use: set[Stub] = set()
    left_behind: list[Stub] = []
    for name in os.listdir(folder):
        if not name.endswith(_SUFFIX):
            continue
        journal = os.path.join(folder, name)
        with open(journal, encoding="ascii") as file:
            alive = _is_locked(file.fileno())
            (in_use.update if alive else left_behind.extend)(_from_json(file.read()))
        if not alive:
            os.unlink(journal)
    _remove((stub for stub in left_behind if stub not in in_use), None)
    return in_use


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _create(stub: Stub, parents: paths.Parents, stock: Stock | None) -> bool:
    """Whether the stand-in is in place now."""
    name = os.path.basename(stub.path)
    try:
        parent = parents.of(stub.path, stub.root)
        if stub.content is None:
            if stock is None or not stock.take(name, parent):
                os.mkdir(name, MODE, dir_fd=parent)
            return True
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(name, flags, 0o644, dir_fd=parent), "wb") as file:
            file.write(stub.content)
            return True
    except FileExistsError:
        return True
    except OSError as error:
        if error.errno in _CANNOT:
            return False
        raise


def _remove(leftovers: Iterable[Stub], stock: str | None) -> None:
    """Remove what is still as we made it, inner before outer; anything else has an owner now."""
    stubs = sorted(leftovers, key=lambda stub: stub.path, reverse=True)
    outer = {os.path.dirname(stub.path) for stub in stubs}
    with paths.Parents() as parents, _opened(stock) as kept:
        for stub in stubs:
            if stub.path in outer:
                # A command may write in it, and so also take everybody's rights away.
                with contextlib.suppress(OSError):
                    ensure_rights(os.path.basename(stub.path), parents.of(stub.path, stub.root))
        for stub in stubs:
            name = os.path.basename(stub.path)
            with contextlib.suppress(OSError):
                parent = parents.of(stub.path, stub.root)
                if stub.content is None:
                    if kept is None or not kept.put(name, parent):
                        os.rmdir(name, dir_fd=parent)
                elif paths.read_file(name, len(stub.content) + 1, folder=parent) == stub.content:
                    os.unlink(name, dir_fd=parent)


def _to_json(stub: Stub) -> list[str | None]:
    content = None if stub.content is None else stub.content.decode("ascii")
    return [stub.root, stub.path, content]


def _from_json(text: str) -> list[Stub]:
    """The stubs of a journal; a torn one was written before anything was created."""
    try:
        rows = json.loads(text)
    except ValueError:
        return []
    return [
        Stub(root, path, None if content is None else content.encode("ascii"))
        for root, path, content in rows
    ]
