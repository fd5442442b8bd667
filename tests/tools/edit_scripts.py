"""Random edit scripts: files, and calls on them that fit, nearly fit, or are wrong."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import attrs

from term2_acp.agent.ports import ToolError
from tests.tools.bench import Bench
from tests.tools.reference_file import ModelHunk, Refused, Stored, lines_of, patched, replaced

LINES = ["a", "b", "c", "}", "", "  x", "\ty", "é", "ß = 1", "same", "a b", "x\x0cy", "-a", "+b"]
PIECES = ["a", "b", "x", " ", "é", "\n", "\r\n", "new", "€", "\n\n", "}", "☃"]
ENDINGS = [["\n"], ["\n"], ["\r\n"], ["\n", "\r\n"], ["\r"]]
FORMATS = [
    (b"", "utf-8"),
    (b"", "utf-8"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
    (b"", "cp1252"),
]


@attrs.frozen
class Difference:
    """Where a tool and the reference do not agree."""

    seed: int
    call: str
    before: bytes
    expected: bytes | None
    found: bytes | None
    told: str


def run_script(seed: int, folder: Path) -> Difference | None:
    """Run the script of a seed in an empty folder; what went wrong, if anything did."""
    choose = random.Random(seed)  # noqa: S311  the same again for each seed
    bench = Bench.in_folder(folder)
    try:
        return _Script(seed, choose, bench).run()
    finally:
        shutil.rmtree(folder)
        folder.mkdir()


@attrs.define
class _Script:
    """One file and some calls on it."""

    seed: int
    choose: random.Random
    bench: Bench

    def run(self) -> Difference | None:
        file = self.bench.root / "file"
        if self.choose.random() < 0.85:
            file.write_bytes(self._file())
        for _ in range(self.choose.randint(1, 4)):
            before = file.read_bytes() if file.exists() else None
            tool, arguments, expected = self._call(before)
            told, failed = "", False
            try:
                told = self.bench.run(tool, **arguments).text
            except ToolError as error:
                told, failed = str(error), True
            found = file.read_bytes() if file.exists() else None
            wanted = before if isinstance(expected, Refused) else expected
            others = [name for name in self.bench.names() if name not in ("file", "other")]
            agrees = failed == isinstance(expected, Refused) and found == wanted and not others
            if not agrees:
                call = f"{tool} {arguments}"
                return Difference(self.seed, call, before or b"", wanted, found, told)
        return None

    def _file(self) -> bytes:
        bom, codec = self.choose.choice(FORMATS)
        endings = self.choose.choice(ENDINGS)
        count = self.choose.choice([0, 1, 3, 8, 20])
        text = "".join(self._line() + self.choose.choice(endings) for _ in range(count))
        if text and self.choose.random() < 0.3:
            text = text.rstrip("\r\n")
        data = bom + text.encode(codec)
        if codec == "utf-8" and not bom and self.choose.random() < 0.15:
            # Some byte that is not UTF-8, next to what is or is not.
            data = data.replace(b"b", b"b\xff", 1)
        return data

    def _line(self) -> str:
        line = self.choose.choice(LINES)
        return f"{line} {self.choose.randint(0, 30)}" if self.choose.random() < 0.5 else line

    def _call(self, before: bytes | None) -> tuple[str, dict[str, Any], bytes | Refused | None]:
        kind = self.choose.random()
        if before is None or kind < 0.1:
            return self._create(before)
        if kind < 0.5:
            return self._replace(before)
        return self._patch(before)

    def _create(self, before: bytes | None) -> tuple[str, dict[str, Any], bytes | Refused | None]:
        content = self._text()
        arguments = {"path": "file", "content": content, "overwrite": True}
        if before is None:
            return "create_file", arguments, content.encode()
        self.bench.run("read_file", path="file")
        old = Stored.of(before)
        broken = [ending for _, ending in lines_of(old.text) if ending]
        if broken and set(broken) == {"\r\n"} and "\r\n" not in content:
            content = content.replace("\n", "\r\n")
        try:
            return "create_file", arguments, old.bytes_with(content)
        except Refused as refused:
            return "create_file", arguments, refused

    def _replace(self, before: bytes) -> tuple[str, dict[str, Any], bytes | Refused]:
        old = Stored.of(before)
        text = old.text
        replacements = []
        refused: Refused | None = None
        for _ in range(self.choose.choice([1, 1, 2, 4])):
            search, new = self._search(text), self._text()
            everywhere = self.choose.random() < 0.4
            replacements.append(
                {"search_content": search, "replace_content": new, "replace_all": everywhere}
            )
            try:
                if not search or search == new:
                    raise Refused
                if refused is None:
                    text = replaced(text, search, new, everywhere=everywhere)
            except Refused as error:
                refused = error
        arguments = {"path": "file", "replacements": replacements}
        try:
            expected = refused or (Refused() if text == old.text else old.bytes_with(text))
        except Refused as error:
            expected = error
        return "search_replace", arguments, expected

    def _search(self, text: str) -> str:
        """A piece of the text, most often, with line breaks as a model writes them."""
        if self.choose.random() < 0.1 or not text:
            return self._text()
        start = self.choose.randrange(len(text))
        piece = text[start : start + self.choose.choice([1, 2, 5, 15, 40])]
        if any("\ud800" <= char <= "\udfff" for char in piece):
            return self._text()
        return piece if self.choose.random() < 0.3 else piece.replace("\r\n", "\n")

    def _text(self) -> str:
        return "".join(self.choose.choice(PIECES) for _ in range(self.choose.choice([0, 1, 2, 6])))

    def _patch(self, before: bytes) -> tuple[str, dict[str, Any], bytes | Refused | None]:
        old = Stored.of(before)
        lines = [text for text, _ in lines_of(old.text)]
        if any("\ud800" <= char <= "\udfff" for line in lines for char in line):
            return self._replace(before)
        if self.choose.random() < 0.05:
            return "apply_patch", {"operations": [{"type": "delete_file", "path": "file"}]}, None
        hunks, diff = self._hunks(lines)
        operations = [{"type": "update_file", "path": "file", "diff": diff}]
        try:
            text = patched(old.text, hunks)
            if text == old.text:
                raise Refused
            expected: bytes | Refused = old.bytes_with(text)
        except Refused as error:
            expected = error
        if self.choose.random() < 0.1:
            # A second file whose hunk does not fit: then neither is changed.
            (self.bench.root / "other").write_text("other\n")
            operations.append({"type": "update_file", "path": "other", "diff": "-no\n+yes\n"})
            expected = Refused()
        return "apply_patch", {"operations": operations}, expected

    def _hunks(self, lines: list[str]) -> tuple[list[ModelHunk], str]:
        hunks: list[ModelHunk] = []
        diff: list[str] = []
        at = 0
        for _ in range(self.choose.choice([1, 1, 2, 3])):
            start = self.choose.randint(at, max(at, len(lines)))
            context = self.choose.choice([0, 1, 2, 3])
            first = max(at, start - context)
            body = [(" ", line) for line in lines[first:start]]
            removed = lines[start : start + self.choose.choice([0, 1, 1, 2])]
            body += [("-", line) for line in removed]
            body += [("+", self._line()) for _ in range(self.choose.choice([0, 1, 1, 2, 3]))]
            end = start + len(removed)
            body += [(" ", line) for line in lines[end : end + context]]
            at = end + context
            if body and self.choose.random() < 0.08:
                index = self.choose.randrange(len(body))
                body[index] = (body[index][0], "drifted")
            if {mark for mark, _ in body} <= {" "}:
                body.append(("+", self._line()))
            hunk, text = self._written(body, first, is_last=at >= len(lines))
            hunks.append(hunk)
            diff.append(text)
        return hunks, "".join(diff)

    def _written(
        self, body: list[tuple[str, str]], first: int, *, is_last: bool
    ) -> tuple[ModelHunk, str]:
        """The hunk, and its text: with a right, a wrong or no header, and perhaps a marker."""
        olds = sum(mark != "+" for mark, _ in body)
        news = sum(mark != "-" for mark, _ in body)
        style = self.choose.choice(["none", "right", "drifted", "miscounted"])
        number = first + 1 if style == "right" else self.choose.randint(1, 30)
        header, start = "@@\n", None
        if style in ("right", "drifted"):
            header, start = f"@@ -{number},{olds} +{number},{news} @@ in f\n", number
        elif style == "miscounted":
            header = f"@@ -{number},{olds + 1} +{number},{news} @@\n"
        text = "".join(f"{mark}{line}\n" for mark, line in body)
        at_end, final = False, None
        if is_last and body[-1][0] in "+-" and self.choose.random() < 0.3:
            text += "\\ No newline at end of file\n"
            at_end, final = True, body[-1][0] != "+"
        return ModelHunk(tuple(body), start, at_end, final), header + text
