"""The policy of one session: what its commands may read, write and see (spec section 9)."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Mapping, Sequence

import attrs

from sandbox import (
    control_group,
    environment,
    git_settings,
    group_place,
    nested,
    paths,
    private,
    readable,
    stubs,
    surroundings,
)
from sandbox.errors import PolicyError
from sandbox.git import GitLink, resolve_link
from sandbox.group_place import Place
from sandbox.limits import Limits
from sandbox.private import PrivateFolders
from sandbox.readable import Readable
from sandbox.tracking import Tracker

_KERNEL_FOLDERS = ("/dev", "/proc", "/sys")
_TMP_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108  the names that are bound over, not used
_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


@attrs.frozen
class Policy:
    """
    Everything that is decided once, when a session starts; make it with `for_workspace`.

    Attributes:
        workspace: real path of the folder that commands work in and may write.
        state_dir: real path of the folder that all sessions of the user share.
        folders: the session's private tmp and home.
        homes: real homes that are hidden; the private one is seen as the first.
        home: `$HOME` inside.
        hidden: files and folders that nothing inside can reach.
        readable: what stays visible of hidden surroundings.
        link: the checked git directory behind a `.git` file.
        ignored: the text of the user's own git ignore file.
        nested: protected paths below the top level that existed at the start.
        tracker: finds those again when their folder was moved.
        environment: the whole environment of a command.
        python: the running interpreter, as a path that is valid inside.
        limits: resource limits.
        group_place: where control groups can be made that hold root to the process limit.
    """

    workspace: str
    state_dir: str
    folders: PrivateFolders
    homes: tuple[str, ...]
    home: str
    hidden: tuple[str, ...]
    readable: tuple[Readable, ...]
    link: GitLink | None
    ignored: bytes
    nested: tuple[str, ...]
    tracker: Tracker = attrs.field(eq=False)
    environment: Mapping[str, str]
    python: str
    limits: Limits
    group_place: Place

    @classmethod
    def for_workspace(
        cls,
        workspace: str,
        *,
        state_dir: str,
        session: str | None = None,
        hidden: Sequence[str] = (),
        extra_environment: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> Policy:
        """
        The policy for a session in `workspace`; makes its private folders.

        Args:
            workspace: an existing folder; may be a symlink, below the home or in /tmp.
            state_dir: a folder of ours, made with mode 0700, shared by all sessions and
                processes of the user; nothing inside can reach it.
            session: a file name for the private folders; a random one by default.
            hidden: more that nothing inside may reach, such as the program's own
                state and configuration.
            extra_environment: variables to add to those of the allowlist.
            environ: where allowed variables come from, `os.environ` by default.
            limits: resource limits other than the default ones.

        Raises:
            PolicyError: no safe sandbox can be built for that workspace, or an argument is wrong.
            OSError: the private folders cannot be made.
        """
        variables = os.environ if environ is None else environ
        name = session or os.urandom(8).hex()
        if not _FILE_NAME.fullmatch(name):
            raise PolicyError(f"session {name!r} must be a plain file name")
        _check_variables(extra_environment or {})
        real, state = os.path.realpath(workspace), os.path.realpath(state_dir)
        homes = surroundings.homes(variables)
        barred = tuple(dict.fromkeys([state, *map(os.path.realpath, hidden)]))
        _check(real, homes, barred)
        with contextlib.ExitStack() as failed:
            folders = private.create(state, name)
            failed.callback(folders.remove)
            stubs.sweep(state)
            private.sweep(state)
            place = group_place.here()
            control_group.sweep(place)
            settings = git_settings.read(real, variables)
            found = nested.find(real)
            policy = cls(
                workspace=real,
                state_dir=state,
                folders=folders,
                homes=homes,
                home=homes[0] if homes else _TMP_FOLDERS[0],
                hidden=(
                    *barred,
                    *(
                        p
                        for p in surroundings.credentials(variables)
                        if not paths.is_within(p, real)
                    ),
                ),
                readable=(
                    *readable.tool_folders(homes),
                    *readable.python_runtime((*homes, *_TMP_FOLDERS, real, state)),
                ),
                link=resolve_link(real, never=(*homes, *barred)),
                ignored=settings.ignored,
                nested=found,
                environment=environment.build(
                    variables,
                    home=homes[0] if homes else _TMP_FOLDERS[0],
                    tmp=_TMP_FOLDERS[0],
                    extra={
                        **settings.identity,
                        **_trusted(real),
                        **(extra_environment or {}),
                    },
                ),
                python=readable.python_executable(),
                limits=limits or Limits(),
                group_place=place,
                tracker=Tracker.follow(real, found),
            )
            failed.pop_all()
        return policy

    @property
    def writable(self) -> tuple[str, ...]:
        """The workspace and the git directories that belong to it."""
        return (self.workspace, *(self.link.writable if self.link else ()))

    @property
    def tmp_folders(self) -> tuple[str, ...]:
        """Where the private tmp is seen."""
        return tuple(path for path in _TMP_FOLDERS if paths.kind(path) == stat.S_IFDIR)

    def discard(self) -> None:
        """Remove the session's private folders, once; none of its commands may be running."""
        self.tracker.close()
        self.folders.remove()
        control_group.sweep(self.group_place)


def _check_variables(extra: Mapping[str, str]) -> None:
    for name, value in extra.items():
        if not name or "=" in name or "\0" in name + value:
            raise PolicyError(
                f"extra_environment has {name!r}: a name must not be empty or hold `=`, "
                "and neither name nor value a NUL"
            )


def _check(workspace: str, homes: Sequence[str], barred: Sequence[str]) -> None:
    if not os.path.isdir(workspace):
        raise PolicyError(f"workspace {workspace!r} is no existing folder")
    if workspace == "/" or paths.deepest(workspace, _KERNEL_FOLDERS):
        raise PolicyError(f"workspace {workspace!r} must not be the root or a kernel folder")
    for home in homes:
        if paths.is_within(home, workspace):
            raise PolicyError(f"workspace {workspace!r} must not be or hold the home {home!r}")
    for folder in barred:
        if paths.is_within(workspace, folder):
            raise PolicyError(f"workspace {workspace!r} lies in the hidden folder {folder!r}")


def _trusted(workspace: str) -> dict[str, str]:
    """Let git inside work in a folder of another user: what it may run is sandboxed anyway."""
    if os.stat(workspace).st_uid == os.geteuid():
        return {}
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
