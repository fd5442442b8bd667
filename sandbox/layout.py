"""Looking up, for one call, what the mounts of its sandbox are made from."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from sandbox import paths, private, surroundings
from sandbox.errors import SetupError
from sandbox.mounts import Bind, Layout, Mount, Tmpfs
from sandbox.policy import Policy
from sandbox.protected import Survey


def gather(policy: Policy, found: Survey) -> Layout:
    """
    The layout of a call of `policy`'s session, with its mount points made.

    Raises:
        SetupError: the workspace or a private folder is not what it was.
    """
    for folder in policy.writable:
        if not paths.is_real(folder) or not os.path.isdir(folder):
            raise SetupError(f"{folder} is no longer the folder it was when the session started")
    masked = {path: paths.kind(path) for path in policy.hidden}
    masked |= {path: paths.kind(path) for path in surroundings.unix_sockets()}
    readable = tuple(item for item in policy.readable if os.path.exists(item.source))
    _make_mount_points(
        policy,
        [
            *policy.writable,
            *(
                item.dest if os.path.isdir(item.source) else os.path.dirname(item.dest)
                for item in readable
            ),
        ],
    )
    return Layout(
        private_tmp=policy.folders.tmp,
        private_home=policy.folders.home,
        tmp_folders=policy.tmp_folders,
        homes=policy.homes,
        readable=readable,
        writable=policy.writable,
        read_only=tuple(path for path, _ in found.read_only),
        pins=found.pins,
        masked_files=tuple(p for p, kind in masked.items() if kind not in (None, stat.S_IFDIR)),
        masked_folders=tuple(path for path, kind in masked.items() if kind == stat.S_IFDIR),
    )


def masked(planned: Iterable[Mount]) -> set[str]:
    """Where `planned` has nothing but a mask."""
    return {
        mount.dest
        for mount in planned
        if (isinstance(mount, Bind) and mount.source == "/dev/null")
        or (isinstance(mount, Tmpfs) and mount.sealed)
    }


def _make_mount_points(policy: Policy, folders: list[str]) -> None:
    try:
        for seen_as in policy.tmp_folders:
            private.prepare_mount_points(policy.folders.tmp, seen_as, folders)
        for seen_as in policy.homes[:1]:
            private.prepare_mount_points(policy.folders.home, seen_as, folders)
    except OSError as error:
        raise SetupError(f"the session's private folders cannot be used: {error}") from error
