"""
What a model may try in a conversation, and who says that it may: the oracle of the fuzzing.

The oracle is written from spec sections 7 and 8 alone, with pathlib, and shares no code with
`term2_acp.permissions`. It knows where each path leads because it made the paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import attrs

ONCE = {"approve": "allow_once", "reject": "reject_once"}
READ_LASTING = {"allow-folder-session": "allow_always"}
EDIT_LASTING = {
    "allow-edit-file-session": "allow_always",
    "allow-edit-folder-session": "allow_always",
}
ALLOWS = {"approve": "approve", "allow-once": "approve"}


class Mode(StrEnum):
    """What a call does to a target."""

    READ = "read"
    EDIT = "edit"


class Place(StrEnum):
    """Where a target really is, whatever its path looks like."""

    INSIDE = "inside"
    # An edit of it asks each time, also inside.
    PROTECTED = "protected"
    OUTSIDE = "outside"
    # Asks each time, also to be read.
    STORE = "store"


@attrs.frozen
class Target:
    """One file or folder that a call reaches, by its real path."""

    real: Path
    mode: Mode
    place: Place

    @property
    def is_guarded(self) -> bool:
        """Whether no grant ever covers it."""
        return self.place is Place.STORE or (
            self.place is Place.PROTECTED and self.mode is Mode.EDIT
        )

    @property
    def is_free(self) -> bool:
        """Whether it needs no question and no grant."""
        return self.place is Place.INSIDE or (
            self.place is Place.PROTECTED and self.mode is Mode.READ
        )


@attrs.frozen
class FileProof:
    """The file system shows that a call ran: the file has this text in it."""

    path: Path
    text: str

    def holds(self, told: str) -> bool:
        """Whether it is so."""
        return self.path.is_file() and self.text in self.path.read_text(encoding="utf-8")


@attrs.frozen
class ToldProof:
    """The client was shown what only the file at `path` says."""

    path: Path
    text: str

    def holds(self, told: str) -> bool:
        """Whether `told`, all that the session said, has it."""
        return self.text in told


class Verdict(StrEnum):
    """Whether a call may have run."""

    NEVER = "never"
    # Allowed, but the turn was aborted: before it, meanwhile or after it.
    PERHAPS = "perhaps"
    SURELY = "surely"


@attrs.define(eq=False)
class TriedCall:
    """
    One call that the model makes, and what became of it.

    Args:
        tag: found in its arguments and in no other call's.
        text: its directive, or its line of nested code.
        executes: asks every time.
        proofs: all of them hold if it ran, none if it did not.
        leaks: files that must not be there, whatever was allowed.
        hushed: what must not be told, whatever was allowed.
        is_abandoned: it is made by code that does not wait for it to be answered.
        options: what the client was offered; None if it was not asked.
        choice: the offered choice that the client made first, if any.
    """

    tag: str
    text: str
    targets: tuple[Target, ...] = ()
    executes: bool = False
    proofs: tuple[FileProof | ToldProof, ...] = ()
    leaks: tuple[Path, ...] = ()
    hushed: str = ""
    nested: tuple[TriedCall, ...] = ()
    is_abandoned: bool = False
    options: dict[str, str] | None = None
    choice: str | None = None
    verdict: Verdict = Verdict.NEVER

    def walk(self) -> Iterator[TriedCall]:
        """This call and those inside of it."""
        yield self
        for call in self.nested:
            yield from call.walk()


@attrs.define
class HeldGrants:
    """What a session was allowed until it is closed."""

    files: set[tuple[Path, Mode]] = attrs.Factory(set)
    folders: set[tuple[Path, Mode]] = attrs.Factory(set)

    def cover(self, target: Target) -> bool:
        """Whether a target needs no question because of them."""
        if target.is_guarded:
            return False
        return (target.real, target.mode) in self.files or any(
            target.mode is mode and target.real.is_relative_to(folder)
            for folder, mode in self.folders
        )

    def add(self, choice: str, targets: list[Target]) -> None:
        """Take a lasting choice that was made for `targets`."""
        for target in targets:
            if choice == "allow-edit-file-session":
                self.files.add((target.real, target.mode))
            elif choice in ("allow-folder-session", "allow-edit-folder-session"):
                self.folders.add((target.real.parent, target.mode))

    def asking(self, call: TriedCall) -> list[Target]:
        """The targets of a call for which the client has to be asked."""
        return [t for t in call.targets if not t.is_free and not self.cover(t)]

    def offered(self, call: TriedCall) -> dict[str, str] | None:
        """The choices that the client must be offered, None if it must not be asked."""
        if call.executes:
            return ONCE
        asking = self.asking(call)
        if not asking:
            return None
        parents = {target.real.parent for target in asking}
        if len(parents) > 1 or any(target.is_guarded for target in asking):
            return ONCE
        modes = {target.mode for target in asking}
        lasting = READ_LASTING if modes == {Mode.READ} else EDIT_LASTING
        return {**ONCE, **lasting}


def judge_turn(calls: list[TriedCall], grants: HeldGrants, *, aborted: bool) -> list[str]:
    """
    Say of each call of a turn that is over whether it may have run.

    `grants` are those from before the turn, and become those of after it. Returns what
    was wrong with what was asked.
    """
    faults: list[str] = []
    for call in calls:
        expected = grants.offered(call)
        ran = Verdict.PERHAPS if aborted or call.is_abandoned else Verdict.SURELY
        if expected is None:
            if call.options is not None:
                faults.append(f"{call.tag} was asked for without need: {call.text}")
            call.verdict = ran
        elif call.options is None:
            if ran is Verdict.SURELY:
                faults.append(f"{call.tag} was not asked for: {call.text}")
        else:
            if call.options != expected:
                faults.append(f"{call.tag}: offered {call.options}, not {expected}: {call.text}")
            if call.choice not in (None, "reject"):
                call.verdict = ran
                grants.add(call.choice, grants.asking(call))
        if call.verdict is not Verdict.NEVER:
            faults += judge_turn(list(call.nested), grants, aborted=aborted)
    return faults


def judge_effects(calls: list[TriedCall], told: str, *, killed: bool) -> list[str]:
    """
    What the file system and the wire show that the oracle's verdicts do not allow.

    A server that was `killed` may have left a call of several files in its middle.
    """
    faults: list[str] = []
    for call in (each for top in calls for each in top.walk()):
        held = [proof.holds(told) for proof in call.proofs]
        if call.verdict is Verdict.NEVER and any(held):
            faults.append(f"{call.tag} ran without an allow: {call.text}")
        if call.verdict is Verdict.SURELY and not all(held):
            faults.append(f"{call.tag} was allowed and left no effect: {call.text}")
        if any(held) and not all(held) and call.verdict is Verdict.PERHAPS and not killed:
            faults.append(f"{call.tag} was done by half: {call.text}")
        if call.hushed and call.hushed in told:
            faults.append(f"{call.tag} told what it may not search: {call.text}")
        faults += [f"{call.tag} got out to {path}" for path in call.leaks if path.exists()]
    return faults
