"""The private folders of one session: its tmp, its home, and who is using them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
from collections.abc import Iterable

import attrs

from sandbox import paths

_SESSIONS = "sessions"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@attrs.frozen
class PrivateFolders:
    """
    Folders that commands of one session share and nobody else sees.

    They are in use as long as `lease`, a locked descriptor, is open; the kernel
    closes it when the process dies, and then `sweep` removes them.
    """

    path: str
    lease: int = attrs.field(eq=False)

    @property
    def tmp(self) -> str:
        """What is /tmp inside."""
        return os.path.join(self.path, "tmp")

    @property
    def home(self) -> str:
        """What is the home inside."""
        return os.path.join(self.path, "home")

    def remove(self) -> None:
        """Remove everything in them; no command of the session may be running."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lease)


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
    folders = PrivateFolders(path, lease)
    os.makedirs(folders.home, mode=0o700, exist_ok=True)
    os.makedirs(folders.tmp, exist_ok=True)
    # Programs expect of /tmp that everyone may write; its parent keeps others out.
    os.chmod(folders.tmp, 0o1777)  # noqa: S103
    return folders


def sweep(state_dir: str) -> None:
    """Remove the folders of sessions whose process is dead."""
    parent = os.path.join(state_dir, _SESSIONS)
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(parent):
            _remove_unused(os.path.join(parent, name))


def prepare_mount_points(base: str, seen_as: str, folders: Iterable[str]) -> None:
    """
    Make real folders in the private folder `base` for what is mounted below `seen_as`.

    A command can have put anything there; what is in the way is removed.

    Raises:
        OSError: a folder cannot be made.
    """
    for folder in folders:
        if folder == seen_as or not paths.is_within(folder, seen_as):
            continue
        descriptor = os.open(base, _FOLDER)
        try:
            for name in os.path.relpath(folder, seen_as).split("/"):
                deeper = _enter(name, descriptor)
                os.close(descriptor)
                descriptor = deeper
        finally:
            os.close(descriptor)


def _enter(name: str, parent: int) -> int:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode):
            os.unlink(name, dir_fd=parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=parent)
    return os.open(name, _FOLDER, dir_fd=parent)


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


def _remove_unused(path: str) -> None:
    try:
        descriptor = os.open(path, _FOLDER)
    except OSError:
        return
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
