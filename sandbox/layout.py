"""Looking up, for one call, what the mounts of its sandbox are made from."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping

from sandbox import paths, private, surroundings
from sandbox.errors import SetupError
from sandbox.mounts import Bind, Layout, Mount, Tmpfs
from sandbox.policy import Policy
from sandbox.protected import FILES, Survey
from sandbox.readable import Readable
from sandbox.stubs import Stub


def gather(policy: Policy, found: Survey, stand_ins: Iterable[Stub]) -> Layout:
    """
    The layout of a call of `policy`'s session, with its mount points and ignore file made.

    Raises:
        SetupError: the workspace or a private folder is not what it was.
    """
    for folder in policy.writable:
        if not paths.is_real(folder) or not os.path.isdir(folder):
            raise SetupError(f"{folder} is no longer the folder it was when the session started")
    masked = {path: paths.kind(path) for path in policy.hidden if _is_in_reach(path)}
    readable = [item for item in policy.readable if os.path.exists(item.source)]
    try:
        masked |= {path: paths.kind(path) for path in surroundings.unix_sockets()}
        _write_ignore_file(policy, stand_ins)
        readable.append(Readable(_ignore_file(policy), policy.folders.git_ignore))
        _make_mount_points(policy, readable)
    except OSError as error:
        raise SetupError.from_os_error(
            "the session's private folders cannot be used", error
        ) from error
    return Layout(
        private_tmp=policy.folders.tmp,
        private_home=policy.folders.home,
        tmp_folders=policy.tmp_folders,
        homes=policy.homes,
        readable=tuple(readable),
        writable=policy.writable,
        read_only=tuple(path for path, _ in found.read_only),
        file_stand_ins=_in_place_of_files(policy, stand_ins),
        pins=tuple(sorted({*found.pins, *_around(policy, masked)})),
        masked_files=tuple(p for p, kind in masked.items() if kind not in (None, stat.S_IFDIR)),
        masked_folders=tuple(path for path, kind in masked.items() if kind == stat.S_IFDIR),
    )


def _is_in_reach(path: str) -> bool:
    """Whether a command, which has at most our own rights, could do anything with `path`."""
    with contextlib.suppress(OSError):
        return os.lstat(path).st_uid == os.geteuid() or any(
            os.access(path, right, effective_ids=True) for right in (os.R_OK, os.W_OK, os.X_OK)
        )
    return False


def _around(policy: Policy, masked: Mapping[str, int | None]) -> set[str]:
    """
    The folders in writable ones around what is to be masked.

    Renamed, they would take it with them, out of the next call's mask.
    """
    return {
        folder
        for path, kind in masked.items()
        for root in policy.writable
        if kind is not None
        for folder in paths.ancestors(path, root)
    }


def _in_place_of_files(policy: Policy, stand_ins: Iterable[Stub]) -> tuple[str, ...]:
    """The empty folders that stand in for files; one that somebody has filled is theirs."""
    files = {os.path.join(policy.workspace, name) for name in FILES}
    return tuple(stub.path for stub in stand_ins if stub.path in files and _is_empty(stub.path))


def _is_empty(folder: str) -> bool:
    try:
        return paths.kind(folder) == stat.S_IFDIR and not os.listdir(folder)
    except OSError:
        return False


def masked(planned: Iterable[Mount]) -> set[str]:
    """Where `planned` has nothing but a mask."""
    return {
        mount.dest
        for mount in planned
        if (isinstance(mount, Bind) and mount.source == "/dev/null")
        or (isinstance(mount, Tmpfs) and mount.sealed)
    }


def _write_ignore_file(policy: Policy, stand_ins: Iterable[Stub]) -> None:
    """
    The user's own ignore file, and the stand-ins of this call.

    Those would otherwise fail `git clean` and `git stash -u`, which try to remove
    empty folders that are in the way of nothing.
    """
    folders = {stub.path for stub in stand_ins if stub.content is None}
    # One that holds another is an ordinary writable folder.
    folders -= {os.path.dirname(path) for path in folders}
    lines = [
        "/" + os.path.relpath(path, policy.workspace) + "/\n"
        for path in sorted(folders)
        if paths.is_within(path, policy.workspace)
    ]
    text = policy.ignored + b"\n" + os.fsencode("".join(lines))
    with open(policy.folders.git_ignore, "a+b", opener=_private) as file:
        # Mostly it is as the last call left it; to write it anew takes half a millisecond.
        file.seek(0)
        if file.read() != text:
            os.fchmod(file.fileno(), 0o600)
            file.truncate(0)
            file.write(text)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _ignore_file(policy: Policy) -> str:
    """Where git looks for it when nothing is configured."""
    return os.path.join(policy.home, ".config", "git", "ignore")


def _make_mount_points(policy: Policy, readable: Iterable[Readable]) -> None:
    folders, files = list(policy.writable), list[str]()
    for item in readable:
        (folders if os.path.isdir(item.source) else files).append(item.dest)
    for seen_as in policy.tmp_folders:
        private.prepare_mount_points(policy.folders.tmp, seen_as, folders, files)
    for seen_as in policy.homes[:1]:
        private.prepare_mount_points(policy.folders.home, seen_as, folders, files)
