"""
The file system of a sandbox as an ordered list of mounts; later ones win.

Pure: everything that had to be looked up comes in as arguments.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Sequence

import attrs

from sandbox import paths
from sandbox.readable import Readable

RUN_BYTES = 64 * 1024 * 1024
SCRATCH_BYTES = 256 * 1024 * 1024
_PAGE = 4096


@attrs.frozen
class Bind:
    """`source` of the host at `dest`."""

    source: str
    dest: str
    writable: bool = False


@attrs.frozen
class Tmpfs:
    """
    An empty file system at `dest`.

    Attributes:
        dest: where.
        size_bytes: what it may hold, 0 for no limit of its own.
        mode: of its top folder.
        sealed: it can be neither entered nor written; that takes the place of `mode`.
    """

    dest: str
    size_bytes: int = 0
    mode: int = 0o755
    sealed: bool = False


Mount = Bind | Tmpfs


@attrs.frozen
class Layout:
    """
    What the mounts are made from; all paths are absolute and real.

    Attributes:
        private_tmp: host folder that is /tmp inside.
        private_home: host folder that is the home inside.
        tmp_folders: where the private tmp is seen.
        homes: homes to hide; the first becomes the private one.
        readable: what stays visible although its surroundings are hidden.
        writable: the workspace and the git directories that belong to it.
        read_only: existing protected paths in the writable folders.
        file_stand_ins: those of them that are empty folders in the place of a file.
        pins: folders in the writable ones that are bound onto themselves.
        masked_files: files and sockets that must not be reached.
        masked_folders: folders that must not be reached.
    """

    private_tmp: str
    private_home: str
    tmp_folders: tuple[str, ...]
    homes: tuple[str, ...]
    readable: tuple[Readable, ...]
    writable: tuple[str, ...]
    read_only: tuple[str, ...]
    file_stand_ins: tuple[str, ...]
    pins: tuple[str, ...]
    masked_files: tuple[str, ...]
    masked_folders: tuple[str, ...]


@functools.lru_cache(maxsize=64)
def arrange(layout: Layout) -> tuple[Mount, ...]:
    """The mounts above the read-only root, /dev and /proc, in order."""
    hiding: list[Mount] = [Tmpfs("/run", size_bytes=RUN_BYTES)]
    hiding += [Bind(layout.private_tmp, folder, writable=True) for folder in layout.tmp_folders]
    hiding += [Bind(layout.private_home, home, writable=True) for home in layout.homes[:1]]
    hiding += [Tmpfs(home, size_bytes=SCRATCH_BYTES) for home in layout.homes[1:]]
    # One mount in each place: a home may be /tmp, and the workspace any of them.
    chosen = {mount.dest: mount for mount in hiding if mount.dest not in layout.writable}
    hiding = list(chosen.values())
    hidden = [mount.dest for mount in hiding]

    shown: list[Mount] = []
    for item in sorted(layout.readable, key=lambda item: item.dest):
        if not paths.deepest(item.dest, hidden) or paths.deepest(item.dest, layout.writable):
            continue
        if not _is_shown(item, shown):
            shown.append(Bind(item.source, item.dest))
    own = [
        item.dest
        for item in layout.readable
        if item.dest == item.source and paths.deepest(item.dest, layout.writable)
    ]
    placed = [*hiding, *shown, *_in_writable(layout, own)]
    return (*placed, *_masks(layout, placed), *_stand_ins(layout))


def _is_shown(item: Readable, shown: Iterable[Mount]) -> bool:
    """Whether a bind of an outer folder shows it already, from the same place."""
    return any(
        isinstance(outer, Bind)
        and paths.is_within(item.dest, outer.dest)
        and item.source == outer.source + item.dest[len(outer.dest) :]
        for outer in shown
    )


def _in_writable(layout: Layout, own: Iterable[str]) -> list[Mount]:
    """The writable folders and, in them, the pins and what is read-only; outer ones first."""
    fixed = {*layout.read_only, *own} - {*layout.writable, *layout.file_stand_ins}
    mounts: dict[str, Mount] = {
        path: Bind(path, path, writable=True) for path in (*layout.pins, *layout.writable)
    }
    mounts |= {path: Bind(path, path) for path in fixed}
    return [
        mounts[path]
        for path in sorted(mounts, key=lambda path: (path.count("/"), path))
        # Within a read-only folder everything is, unless it is a writable one of its own.
        if path in layout.writable or not _is_below(path, fixed, layout.writable)
    ]


def _stand_ins(layout: Layout) -> list[Mount]:
    """
    What is mounted on empty folders in the place of files.

    No file can be made there as long as anything is, so here it need not be read-only, and
    this mount costs a fraction of a bind: bwrap reads the whole table of mounts again for
    each of those. For the same reason these come last.
    """
    return [Tmpfs(path, _PAGE, mode=0o555) for path in layout.file_stand_ins]


def _is_below(path: str, fixed: Iterable[str], writable: Iterable[str]) -> bool:
    outer = paths.deepest(os.path.dirname(path), fixed)
    return outer is not None and not any(
        paths.is_within(path, root) and paths.is_within(root, outer) for root in writable
    )


def _masks(layout: Layout, placed: Sequence[Mount]) -> list[Mount]:
    """Masks for what the mounts so far leave visible."""
    visible_in = {mount.dest: mount.dest not in _opaque(layout) for mount in placed}
    # Fresh file systems of their own.
    visible_in |= {"/dev": False, "/proc": False}

    def is_visible(path: str) -> bool:
        holder = paths.deepest(path, visible_in)
        return holder is None or visible_in[holder]

    folders = sorted(path for path in layout.masked_folders if is_visible(path))
    outer = [path for path in folders if not paths.deepest(os.path.dirname(path), folders)]
    files = [
        path
        for path in sorted(layout.masked_files)
        if is_visible(path) and not paths.deepest(path, outer)
    ]
    return [
        *(Bind("/dev/null", path) for path in files),
        *(Tmpfs(path, sealed=True) for path in outer),
    ]


def _opaque(layout: Layout) -> frozenset[str]:
    """Destinations under which nothing of the host's own content is seen."""
    return frozenset({"/run", *layout.tmp_folders, *layout.homes} - set(layout.writable))
