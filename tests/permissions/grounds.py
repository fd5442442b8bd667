"""The folders that a fuzzed conversation plays in, and the calls that it tries there."""

from __future__ import annotations

import json
import random
from pathlib import Path

import attrs

from tests.permissions.calls import FileProof, Mode, Place, Target, ToldProof, TriedCall

# Below the root; a grant for what is in the root itself reaches home and stores too.
FOLDERS = ("out/alpha", "out/alpha-x", "out/beta", "out/alpha/deep", ".")
STORES = ("home/.ssh", "home/.aws", "home/.config/gh", "home/.kube", "config/term2")
PROTECTED = (
    ".env.{}",
    ".vscode/{}.json",
    "{}/.envrc",
    "{}/.git/config",
    ".git/hooks/{}",
    ".github/workflows/{}.yml",
    "{}/.env",
    "deep/{}/.claude/settings.json",
)


@attrs.frozen
class Grounds:
    """
    The workspace of one conversation, and what is outside of it for all conversations.

    Args:
        number: of the conversation.
        root: of the folders outside, which other sessions use too.
        work: the workspace.
        folders: those outside that this conversation keeps to.
        places: where it works; some most of all.
    """

    number: int
    root: Path
    work: Path
    folders: list[str]
    places: list[Place]
    dice: random.Random

    @classmethod
    def make(cls, root: Path, number: int, dice: random.Random) -> Grounds:
        """Make the folders below `root`, a real path."""
        places = [*Place, Place.OUTSIDE, *dice.sample(list(Place), 2) * 3]
        work = root / "work" / f"c{number}"
        work.mkdir(parents=True)
        for name in (*FOLDERS, *STORES):
            (root / name).mkdir(parents=True, exist_ok=True)
        link = root / "out" / "alpha" / "to-beta"
        if not link.is_symlink():
            link.symlink_to("../beta")
        (work / "link").symlink_to(root / "out" / "beta")
        return cls(number, root, work, dice.sample(FOLDERS, 2), places, dice)

    def turn(self, turn: int) -> list[TriedCall]:
        """The calls of one prompt."""
        return [
            self._call(f"t{self.number}x{turn}x{index}", nested=False)
            for index in range(self.dice.choice((1, 2, 3, 4)))
        ]

    def _call(self, tag: str, *, nested: bool) -> TriedCall:
        kinds = [self._shell, self._create, self._create, self._replace, self._read, self._read]
        kinds += [self._patch, self._grep] if nested else [self._code, self._code]
        return self.dice.choice(kinds)(tag, nested=nested)

    def _shell(self, tag: str, *, nested: bool) -> TriedCall:
        proof, leak = self.work / tag, self.root / "out" / f"{tag}.leak"
        command = f"echo ran > {tag}; (echo leak > {leak}) 2>/dev/null; true"
        text = f"/shell {command}"
        if nested:
            choice = self.dice.choice(("default", "unsandboxed"))
            text = f"tools.shell(command={command!r}, sandbox={choice!r})"
        proofs = (FileProof(proof, "ran"),)
        return TriedCall(tag, text, executes=True, proofs=proofs, leaks=(leak,))

    def _create(self, tag: str, *, nested: bool) -> TriedCall:
        target, path = self._edited(tag)
        text = f"/create {path} <<made {tag}"
        if nested:
            text = f"tools.create_file(path={path!r}, content='made {tag}')"
        proofs = (FileProof(target.real, f"made {tag}"),)
        return TriedCall(tag, text, (target,), proofs=proofs)

    def _replace(self, tag: str, *, nested: bool) -> TriedCall:
        target, path = self._edited(tag)
        target.real.parent.mkdir(parents=True, exist_ok=True)
        target.real.write_text("before\n", encoding="utf-8")
        text = f"/replace {path} before => after"
        if nested:
            pair = "[dict(search_content='before', replace_content='after')]"
            text = f"tools.search_replace(path={path!r}, replacements={pair})"
        return TriedCall(tag, text, (target,), proofs=(FileProof(target.real, "after"),))

    def _patch(self, tag: str, *, nested: bool) -> TriedCall:
        made = [self._edited(f"{tag}-{part}") for part in ("a", "b")]
        operations = [
            {"type": "create_file", "path": path, "diff": f"+patched {tag}"}
            for _target, path in made
        ]
        proofs = tuple(FileProof(target.real, f"patched {tag}") for target, _path in made)
        text = f"tools.apply_patch(operations={operations!r})"
        return TriedCall(tag, text, tuple(target for target, _path in made), proofs=proofs)

    def _read(self, tag: str, *, nested: bool) -> TriedCall:
        place = self.dice.choice(self.places)
        real, path = self._place(place, tag)
        real.parent.mkdir(parents=True, exist_ok=True)
        secret = f"kernel {tag} told"
        real.write_text(f"{secret}\n", encoding="utf-8")
        text = f"tools.read_file(path={path!r})" if nested else f"/read {path}"
        target = Target(real, Mode.READ, place)
        return TriedCall(tag, text, (target,), proofs=(ToldProof(real, secret),))

    def _grep(self, tag: str, *, nested: bool) -> TriedCall:
        """A search in a folder that other calls use too: its parent is what a grant is for."""
        folder = self.dice.choice(self.folders)
        secret, hushed = f"kernel {tag} told", f"kernel {tag} hushed"
        real = self.root / folder
        (real / f"{tag}.txt").write_text(f"{secret}\n", encoding="utf-8")
        # What a search passes by: a store, and where a link leads out of its folder.
        (self.root / "home/.ssh" / tag).write_text(f"{hushed}\n", encoding="utf-8")
        if folder == "out/alpha":
            (self.root / "out/beta" / tag).write_text(f"{hushed}\n", encoding="utf-8")
        text = f"tools.grep(pattern='k[e]rnel {tag} ', path={self._spelled(real, folder)!r})"
        target = Target(real, Mode.READ, Place.OUTSIDE)
        proofs = (ToldProof(real, secret),)
        return TriedCall(tag, text, (target,), proofs=proofs, hushed=hushed)

    def _code(self, tag: str, *, nested: bool) -> TriedCall:
        inner = [
            self._call(f"{tag}n{index}", nested=True) for index in range(self.dice.randrange(4))
        ]
        lines = [f"open({tag!r}, 'w').write('ran')"]
        for call in inner:
            lines += ["try:", f"    {call.text}", "except ToolFailed: pass"]
        if self.dice.random() < 0.15:
            # Its question is open when the code has ended: there is nobody left to run it for.
            late = self._shell(f"{tag}late", nested=True)
            late.is_abandoned = True
            lines += [
                "import threading, time",
                f"threading.Thread(target=lambda: {late.text}, daemon=True).start()",
                "time.sleep(0.1)",
            ]
            inner.append(late)
        text = "/code <<END\n" + "\n".join(lines) + "\nEND"
        proofs = (FileProof(self.work / tag, "ran"),)
        return TriedCall(tag, text, executes=True, proofs=proofs, nested=tuple(inner))

    def _edited(self, tag: str) -> tuple[Target, str]:
        place = self.dice.choice(self.places)
        real, path = self._place(place, tag)
        return Target(real, Mode.EDIT, place), path

    def _place(self, place: Place, tag: str) -> tuple[Path, str]:
        """A path of a place that no other call uses: the real one, and how the model says it."""
        if place is Place.INSIDE:
            return self.work / f"in-{tag}.txt", f"in-{tag}.txt"
        if place is Place.PROTECTED:
            relative = self.dice.choice(PROTECTED).format(tag)
            return self.work / relative, relative
        if place is Place.STORE:
            real = self.root / self.dice.choice(STORES) / tag
            return real, str(real)
        folder = self.dice.choice(self.folders)
        real = self.root / folder / f"{tag}.txt"
        return real, self._spelled(real, folder)

    def _spelled(self, real: Path, folder: str) -> str:
        """One of the many paths that lead to `real`, which is in or is a folder outside."""
        below = str(real.relative_to(self.root))
        spellings = [
            str(real),
            f"../../{below}",
            f"{self.root}/out/alpha/../../{below}",
            f"{self.root}//./{below}",
            f"{self.work}/../../{below}",
            f"/proc/self/root{real}",
            f"link/../../{below}",
        ]
        if folder == "out/beta":
            rest = below.removeprefix("out/beta").lstrip("/")
            spellings += [f"link/{rest}", f"{self.root}/out/alpha/to-beta/{rest}"] * 3
        return self.dice.choice(spellings)


def as_prompt(calls: list[TriedCall]) -> str:
    """The prompt that has the offline model make the calls, one a step."""
    return "\n".join(call.text for call in calls)


def call_of(calls: list[TriedCall], raw_input: object) -> TriedCall:
    """The call that a question is about, found by its arguments."""
    text = json.dumps(raw_input)
    found = [call for top in calls for call in top.walk() if _names(call, raw_input, text)]
    (call,) = found
    return call


def _names(call: TriedCall, raw_input: object, text: str) -> bool:
    if isinstance(raw_input, dict) and "code" in raw_input:
        return f"open('{call.tag}', 'w')" in raw_input["code"]
    # The tag of an outer call is the beginning of those of its nested calls.
    return any(f"{call.tag}{end}" in text for end in (";", " ", ".", "-", '"', "/", "\\"))
