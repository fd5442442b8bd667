"""
Who may do what: the one place where a tool call is judged (spec section 8).

`judge` is a pure function of the call's plan, the workspace and the grants. The
enforcement is elsewhere (`workspace.FileScope`, the sandbox) and asks `Judgement.permits`.
"""

from __future__ import annotations

import os
import pwd
import re
import threading
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from term2_acp.agent.ports import Access, AccessMode, CallPlan, Location, ToolKind
from term2_acp.files.case import folded, ignores_case

if TYPE_CHECKING:
    from term2_acp.agent.cancel import CancelToken

CREDENTIAL_STORES = (
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".config/gcloud",
    ".config/gh",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
)
_PROTECTED_NAMES = frozenset(
    {
        ".git",
        ".vscode",
        ".idea",
        ".claude",
        ".cursor",
        ".gitmodules",
        ".gitconfig",
        ".mcp.json",
        ".ripgreprc",
        ".envrc",
        ".bashrc",
        ".bash_profile",
        ".profile",
        ".zshrc",
        ".zprofile",
        ".env",
    }
)
_PROTECTED_PAIRS = frozenset({(".github", "workflows")})
_PROTECTED_PREFIX = ".env."
# What a file system with short names makes of them, `GIT~1` for `.git`.
_SHORT_NAME = re.compile(r"([^~.]{1,6})~[0-9]+(?:\.[^.]{0,3})?")
_SHORT_STEMS = frozenset(name[1:].partition(".")[0][:6] for name in _PROTECTED_NAMES)


_MOST_NAMED = 10


class Choice(StrEnum):
    """The answers to a permission question; nothing else is ever offered."""

    APPROVE = "approve"
    ALLOW_FOLDER = "allow-folder-session"
    ALLOW_EDIT_FILE = "allow-edit-file-session"
    ALLOW_EDIT_FOLDER = "allow-edit-folder-session"
    REJECT = "reject"

    @property
    def lasts(self) -> bool:
        """Whether the choice becomes a grant of the session."""
        return self not in (Choice.APPROVE, Choice.REJECT)


_ALIASES = {"allow-once": Choice.APPROVE, "deny": Choice.REJECT}


def choice_of(option_id: str, offered: Sequence[Choice]) -> Choice | None:
    """The offered choice that an answer names, by its own name or an alias of it."""
    choice = _ALIASES.get(option_id)
    if choice is None:
        choice = next((known for known in offered if known.value == option_id), None)
    return choice if choice in offered else None


@attrs.frozen
class Option:
    """A choice as it is offered, with its label for a person."""

    choice: Choice
    label: str


@attrs.frozen
class PermissionQuestion:
    """What the client is asked before a call may run."""

    session_id: str
    tool_call_id: str
    name: str
    title: str
    kind: ToolKind
    raw_input: Any
    locations: tuple[Location, ...]
    options: tuple[Option, ...]


class PermissionClient(Protocol):
    """Whoever can ask the user: the client of the negotiated protocol version."""

    def ask(self, question: PermissionQuestion, cancel: CancelToken) -> str | None:
        """
        Ask and wait, however long it takes.

        Returns the option id of a well-formed answer that selected one, else None.

        Raises:
            Cancelled: the turn ended first; the question is withdrawn.
        """
        ...


class Grants:
    """
    What a session was allowed to reach until it is closed; safe to use from any thread.

    Keyed by real paths. A grant for reads allows no edit, one for edits no read.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: set[Access] = set()
        self._folders: set[Access] = set()

    def add(self, choice: Choice, accesses: Sequence[Access]) -> None:
        """Record a lasting choice for the targets that it was given for."""
        with self._lock:
            for access in accesses:
                if choice is Choice.ALLOW_EDIT_FILE:
                    self._files.add(access)
                elif choice.lasts:
                    self._folders.add(Access(os.path.dirname(access.path), access.mode))

    def cover(self, access: Access) -> bool:
        """Whether a grant reaches this target."""
        with self._lock:
            return access in self._files or any(
                access.mode is folder.mode and is_within(access.path, folder.path)
                for folder in self._folders
            )


@attrs.frozen
class Judgement:
    """
    What is to happen with a call.

    `options` is empty when it may run at once. `outside` are the targets that a
    lasting choice would grant. `permits` says which paths the call may then touch.
    """

    options: tuple[Choice, ...]
    outside: tuple[Access, ...]
    permits: Callable[[str, AccessMode], bool]

    @property
    def asks(self) -> bool:
        """Whether the client has to be asked."""
        return bool(self.options)

    def offer(self) -> tuple[Option, ...]:
        """The options with their labels."""
        return tuple(Option(choice, self._label(choice)) for choice in self.options)

    def _label(self, choice: Choice) -> str:
        folder = os.path.dirname(self.outside[0].path) if self.outside else ""
        named = [os.path.basename(access.path) for access in self.outside]
        more = len(named) - _MOST_NAMED
        names = ", ".join(named[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        return {
            Choice.APPROVE: "Allow once",
            Choice.ALLOW_FOLDER: f"Allow reading in {folder} for this session",
            Choice.ALLOW_EDIT_FILE: f"Allow editing {names} for this session",
            Choice.ALLOW_EDIT_FOLDER: f"Allow editing in {folder} for this session",
            Choice.REJECT: "Reject",
        }[choice]


class Permissions:
    """
    The rules of one session; `grants` is what it was allowed so far.

    Args:
        root: the workspace, a real path.
        private: real paths that belong to the program (state, configuration).
        home: the user's home, a real path.
        ignores_case: whether a folder, which need not be there, takes names without regard
            to their case.
    """

    def __init__(
        self,
        root: str,
        private: Sequence[str],
        home: str,
        ignores_case: Callable[[str], bool] = ignores_case,
    ) -> None:
        self._root = root
        self._ignores_case = ignores_case
        self._paths = tuple(
            os.path.join(folder, name) for folder in _homes(home) for name in CREDENTIAL_STORES
        )
        # The link itself and what it leads to: both spellings of a store count.
        spellings = [*self._paths, *(os.path.realpath(path) for path in self._paths), *private]
        self._stores = frozenset(spellings)
        self._folded_stores = {folded(path): path for path in spellings}
        self.grants = Grants()

    def judge(self, plan: CallPlan) -> Judgement:
        """Judge a call by its plan; without side effects."""
        asking = [access for access in plan.accesses if not self._is_free(access)]
        permits = self._permits(plan.accesses)
        if plan.executes:
            return Judgement((Choice.APPROVE, Choice.REJECT), (), permits)
        if not asking:
            return Judgement((), (), permits)
        return Judgement(self._options(asking), tuple(asking), permits)

    def is_protected(self, path: str) -> bool:
        """Whether edits of a real path always ask, by its names (spec section 7's table)."""
        base = self._root if is_within(path, self._root) else "/"
        names = [name for name in os.path.relpath(path, base).split("/") if name != "."]
        for index, name in enumerate(names):
            after = names[index + 1] if index + 1 < len(names) else ""
            if _is_protected_name(name, after):
                return True
            # Another spelling counts where the file system takes it for the same name.
            if _is_protected_name(folded(name), folded(after)) or _is_short_name(name):
                folder = os.path.join(base, *names[:index])
                if self._ignores_case(folder):
                    return True
        return False

    @property
    def stores(self) -> tuple[str, ...]:
        """The credential stores that there are, as real paths."""
        return tuple(
            sorted({os.path.realpath(path) for path in self._paths if os.path.exists(path)})
        )

    def is_credential(self, path: str) -> bool:
        """Whether a real path is in a credential store or is the program's own."""
        if any(is_within(path, store) for store in self._stores):
            return True
        path = folded(path)
        return any(
            is_within(path, other) and self._ignores_case(os.path.dirname(store))
            for other, store in self._folded_stores.items()
        )

    def _is_free(self, access: Access) -> bool:
        """Whether this target needs no question, by the rules or by a grant."""
        if self.is_credential(access.path):
            return False
        if access.mode is AccessMode.EDIT and self.is_protected(access.path):
            return False
        return is_within(access.path, self._root) or self.grants.cover(access)

    def _options(self, asking: Sequence[Access]) -> tuple[Choice, ...]:
        lasting: tuple[Choice, ...] = ()
        grantable = not any(
            self.is_credential(access.path)
            or (access.mode is AccessMode.EDIT and self.is_protected(access.path))
            for access in asking
        )
        one_parent = len({os.path.dirname(access.path) for access in asking}) == 1
        modes = {access.mode for access in asking}
        if grantable and one_parent and modes == {AccessMode.READ}:
            lasting = (Choice.ALLOW_FOLDER,)
        elif grantable and one_parent and modes == {AccessMode.EDIT}:
            lasting = (Choice.ALLOW_EDIT_FILE, Choice.ALLOW_EDIT_FOLDER)
        return (Choice.APPROVE, *lasting, Choice.REJECT)

    def _permits(self, approved: Sequence[Access]) -> Callable[[str, AccessMode], bool]:
        """What a call may touch once it runs: the free paths and what was approved."""

        def permits(path: str, mode: AccessMode) -> bool:
            access = Access(path, mode)
            if access in approved or self._is_free(access):
                return True
            # A search that was approved for a folder goes down into it, but not into a
            # credential store that happens to be there, unless it was asked for that.
            return mode is AccessMode.READ and any(
                target.mode is AccessMode.READ
                and is_within(path, target.path)
                and (self.is_credential(target.path) or not self.is_credential(path))
                for target in approved
            )

        return permits


def is_within(path: str, folder: str) -> bool:
    """Whether a real path is a folder or lies in it; a sibling of a like name does not."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_protected_name(name: str, after: str) -> bool:
    return (
        name in _PROTECTED_NAMES
        or name.startswith(_PROTECTED_PREFIX)
        or (name, after) in _PROTECTED_PAIRS
    )


def _is_short_name(name: str) -> bool:
    short = _SHORT_NAME.fullmatch(name)
    return short is not None and short[1].casefold() in _SHORT_STEMS


def _homes(home: str) -> tuple[str, ...]:
    """The home of the environment and that of the account, which may differ."""
    try:
        account = os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        return (home,)
    return (home,) if account in (home, "/") else (home, account)
