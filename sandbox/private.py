"""The private folders of one session: its tmp, its home, and who is using them."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import sys
import threading
from collections.abc import Iterable

import attrs

from sandbox import paths
from sandbox.removal import remove_tree
from sandbox.watchdog import Watchdog

_SESSIONS = "sessions"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_logger = logging.getLogger(__name__)


def _watchdog() -> Watchdog:
    return Watchdog(sweeps=sys.platform != "linux")


@attrs.define
class Lease:
    """A locked descriptor; the kernel closes it when the process dies."""

    _descriptor: int | None
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def take(self) -> int | None:
        """The descriptor, to be closed by the caller; only the first one gets it."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
        return descriptor


@attrs.frozen
class PrivateFolders:
    """
    Folders that commands of one session share and nobody else sees, and their watchdog.

    They are in use as long as `lease` is held; then `sweep` removes them.
    """

    path: str
    lease: Lease = attrs.field(eq=False)
    watchdog: Watchdog = attrs.field(eq=False, factory=_watchdog)

    @property
    def tmp(self) -> str:
        """What is /tmp inside."""
        return os.path.join(self.path, "tmp")

    @property
    def home(self) -> str:
        """What is the home inside."""
        return os.path.join(self.path, "home")

    @property
    def stock(self) -> str:
        """Where empty folders are kept for the next call."""
        return os.path.join(self.path, "stock")

    @property
    def git_ignore(self) -> str:
        """What git inside reads as the user's own ignore file."""
        return os.path.join(self.path, "git-ignore")

    def remove(self) -> None:
        """
        Remove everything in them, once; no command of the session may be running.

        Nothing is removed while another policy of the same session is in use. What cannot
        be removed is logged; the next `sweep` tries again.
        """
        descriptor = self.lease.take()
        if descriptor is None:
            return
        try:
            self.watchdog.close()
            if _is_last(descriptor):
                _remove(self.path)
        finally:
            os.close(descriptor)


def create(state_dir: str, session: str) -> PrivateFolders:
    """
    Make (or take over) the folders of `session` below `state_dir`.

    Raises:
        OSError: they cannot be made.
    """
    path = os.path.join(state_dir, _SESSIONS, session)
    lease = _leased(path)
    for folder in (state_dir, os.path.dirname(path), path):
        os.chmod(folder, 0o700)
    folders = PrivateFolders(path, Lease(lease))
    os.makedirs(folders.home, exist_ok=True)
    os.chmod(folders.home, 0o700)
    os.makedirs(folders.tmp, exist_ok=True)
    # Programs expect of /tmp that everyone may write; its parent keeps others out.
    os.chmod(folders.tmp, 0o1777)  # noqa: S103
    return folders


def sweep(state_dir: str) -> None:
    """Remove the folders of sessions whose process is dead; what fails is logged."""
    parent = os.path.join(state_dir, _SESSIONS)
    try:
        names = os.listdir(parent)
    except FileNotFoundError:
        return
    except OSError as error:
        _logger.warning("unused private folders cannot be looked for: %s", error)
        return
    for name in names:
        _remove_unused(os.path.join(parent, name))


def prepare_mount_points(
    base: str, seen_as: str, folders: Iterable[str], files: Iterable[str]
) -> None:
    """
    Make real folders and files in the private folder `base` for mounts below `seen_as`.

    A command can have put anything there; what is in the way is removed.

    Raises:
        OSError: one cannot be made.
    """
    for folder in folders:
        if paths.is_within(folder, seen_as):
            os.close(_descend(base, os.path.relpath(folder, seen_as)))
    for file in files:
        if paths.is_within(file, seen_as):
            folder, name = os.path.split(os.path.relpath(file, seen_as))
            parent = _descend(base, folder or ".")
            try:
                if not stat.S_ISREG(_mode(name, parent)):
                    _make_way(name, parent)
                    os.close(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=parent))
            finally:
                os.close(parent)


def _descend(base: str, below: str) -> int:
    """A descriptor of the folder `below` in `base`, made where it is missing."""
    descriptor = os.open(base, _FOLDER)
    for name in below.split("/"):
        try:
            if not stat.S_ISDIR(_mode(name, descriptor)):
                _make_way(name, descriptor)
                os.mkdir(name, 0o700, dir_fd=descriptor)
            deeper = os.open(name, _FOLDER, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = deeper
    return descriptor


def _mode(name: str, parent: int) -> int:
    """The mode of `name` itself, 0 if there is nothing."""
    try:
        return os.lstat(name, dir_fd=parent).st_mode
    except FileNotFoundError:
        return 0


def _make_way(name: str, parent: int) -> None:
    mode = _mode(name, parent)
    if stat.S_ISDIR(mode):
        os.rename(
            name, f"{name}.displaced-{os.urandom(4).hex()}", src_dir_fd=parent, dst_dir_fd=parent
        )
    elif mode:
        os.unlink(name, dir_fd=parent)


def _leased(path: str) -> int:
    """Make the folder `path` and lock it; again if a sweep removed it in between."""
    while True:
        os.makedirs(path, mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, _FOLDER)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                    return descriptor
            os.close(descriptor)


def _is_last(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_unused(path: str) -> None:
    try:
        descriptor = os.open(path, _FOLDER)
    except OSError:
        return
    try:
        # In use, or on a file system without locks: then nobody can say that it is not.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    failure = remove_tree(path)
    if failure is not None and not isinstance(failure, FileNotFoundError):
        _logger.warning("private folder %s could not be removed completely: %s", path, failure)
