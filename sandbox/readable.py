"""What of a hidden home (or temporary folder) stays readable: tool chains and our own Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

import attrs

from sandbox import paths

# Below the home; programs and what they load, never credentials.
_TOOL_FOLDERS = (
    ".asdf",
    ".bun/bin",
    ".cargo/bin",
    ".cargo/registry",
    ".deno/bin",
    ".fnm",
    ".ghcup",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".volta",
    "go/bin",
    "go/pkg/mod",
    "miniconda3",
    "miniforge3",
)
# What a Python prefix consists of, where the prefix itself is too wide to show.
_PREFIX_PARTS = ("bin", "lib", "lib64", "include", "pyvenv.cfg")


@attrs.frozen
class Readable:
    """A file or folder that is shown read-only at `dest`, whatever hides its surroundings."""

    dest: str
    source: str


def tool_folders(homes: Iterable[str]) -> tuple[Readable, ...]:
    """The tool folders that exist below `homes` (real paths)."""
    found = []
    for home in homes:
        for name in _TOOL_FOLDERS:
            dest = os.path.join(home, name)
            source = os.path.realpath(dest)
            if os.path.isdir(source) and not _is_too_wide(source, homes):
                found.append(Readable(dest, source))
    return tuple(found)


def python_runtime(too_wide: Sequence[str]) -> tuple[Readable, ...]:
    """
    What the running Python needs: its prefix and base prefix, by name and by real path.

    A prefix that is or holds one of `too_wide` (a home, the workspace) shows only
    the parts that belong to Python.
    """
    found: list[Readable] = []
    for prefix in dict.fromkeys(
        (sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix)
    ):
        source = os.path.realpath(prefix)
        parent = os.path.dirname(os.path.abspath(prefix))
        names = {source}
        if os.path.realpath(parent) == parent:
            names.add(os.path.abspath(prefix))
        for dest in sorted(names):
            if not _is_too_wide(source, too_wide):
                found.append(Readable(dest, source))
                continue
            found += [
                Readable(os.path.join(dest, part), os.path.realpath(os.path.join(source, part)))
                for part in _PREFIX_PARTS
                if os.path.exists(os.path.join(source, part))
            ]
    return tuple(dict.fromkeys(found))


def python_executable() -> str:
    """The path of the running Python that is valid inside: its folder is a real one."""
    folder, name = os.path.split(sys.executable)
    return os.path.join(os.path.realpath(folder), name)


def _is_too_wide(source: str, areas: Iterable[str]) -> bool:
    return any(paths.is_within(area, source) for area in areas)
