"""grep: lines by regular expression, in bounded time."""

from __future__ import annotations

import codecs
import os
import threading
import time
from pathlib import Path

import pytest

from term2_acp.agent.cancel import Cancelled
from term2_acp.agent.ports import Access, AccessMode, ToolError
from tests.tools.bench import Bench

CATASTROPHIC = r"(a|aa)+$"
# A generous multiple of what one line may take, and less than the whole search may.
SOON_S = 10


def found(bench: Bench, pattern: str, **arguments: object) -> list[str]:
    """The lines that grep returns, without its notes."""
    text = bench.run("grep", pattern=pattern, **arguments).text
    if text.startswith("No line in "):
        return []
    return [line for line in text.split("\n") if not line.startswith("[")]


class TestWhatIsFound:
    def test_lines_come_with_path_and_number_sorted_by_path(self, bench: Bench) -> None:
        """Paths are relative to the workspace, also below a folder."""
        bench.write("src/b.py", "x = 1\ny = 2\nx = 3\n")
        bench.write("a.py", "  x = 0")
        assert found(bench, r"x = \d") == [
            "a.py:1:   x = 0",
            "src/b.py:1: x = 1",
            "src/b.py:3: x = 3",
        ]
        assert found(bench, "y", path="src") == ["src/b.py:2: y = 2"]
        assert found(bench, "y", path="src/b.py") == ["src/b.py:2: y = 2"]

    @pytest.mark.parametrize(
        ("data", "line"),
        [
            (codecs.BOM_UTF8 + b"const a=1;\n", 1),
            (b"x\r\nconst a=1;\r\n", 2),
            (codecs.BOM_UTF16_LE + "x\nconst a=1;\n".encode("utf-16-le"), 2),
            (b"caf\xe9\nconst a=1;", 2),
            (b"x\x0by\x1c\xe2\x80\xa8\nconst a=1;", 2),
        ],
        ids=["bom", "crlf", "utf-16", "latin-1", "separators"],
    )
    def test_each_line_is_matched_on_its_own(self, bench: Bench, data: bytes, line: int) -> None:
        """`^` and `$` are the ends of a line in any encoding, with any line ending."""
        bench.write("file", data)
        assert found(bench, "^const a=1;$") == [f"file:{line}: const a=1;"]

    def test_a_match_does_not_span_lines(self, bench: Bench) -> None:
        """Not even with classes that contain a line break."""
        bench.write("file", "a\nb\n")
        assert found(bench, r"a\sb") == []
        assert found(bench, r"[^x]b") == []

    def test_the_end_of_the_file_is_no_line(self, bench: Bench) -> None:
        """Empty lines match, what follows the last line break does not."""
        bench.write("empty", "")
        bench.write("one", "x\n\n")
        assert found(bench, "^$") == ["one:2: "]

    def test_case_counts_unless_told_otherwise(self, bench: Bench) -> None:
        """Also for a pattern that is one plain word."""
        bench.write("file", "Needle\n")
        assert found(bench, "needle") == []
        assert found(bench, "needle", ignore_case=True) == ["file:1: Needle"]

    def test_files_are_chosen_by_globs(self, bench: Bench) -> None:
        """By name at any depth, or by path; what is excluded is not entered."""
        for name in ("a.py", "src/b.py", "src/c.js", "dist/d.py"):
            bench.write(name, "x")
        assert found(bench, "x", include="*.py") == ["a.py:1: x", "dist/d.py:1: x", "src/b.py:1: x"]
        assert found(bench, "x", include="src/*.{py,js}") == ["src/b.py:1: x", "src/c.js:1: x"]
        assert found(bench, "x", include="*.py", exclude="dist/") == ["a.py:1: x", "src/b.py:1: x"]
        assert found(bench, "x", exclude="*.py") == ["src/c.js:1: x"]

    def test_ignored_files_are_left_out_unless_told_otherwise(self, bench: Bench) -> None:
        """The .git folder always is."""
        bench.write(".gitignore", "*.log\n")
        bench.write("a.log", "x")
        bench.write(".git/file", "x")
        assert found(bench, "x") == []
        assert found(bench, "x", no_ignore=True) == ["a.log:1: x"]

    def test_an_ignored_file_is_searched_when_it_is_named(self, bench: Bench) -> None:
        """The path was asked for expressly."""
        bench.write(".gitignore", "*.log\n")
        bench.write("a.log", "x")
        assert found(bench, "x", path="a.log") == ["a.log:1: x"]

    def test_binary_files_are_left_out(self, bench: Bench) -> None:
        """One that is named is refused instead."""
        bench.write("file", b"x\0x")
        assert found(bench, "x") == []
        with pytest.raises(ToolError, match="cannot search file: it is binary"):
            found(bench, "x", path="file")

    def test_nothing_found_is_no_failure(self, bench: Bench) -> None:
        """It is said."""
        outcome = bench.run("grep", pattern="x")
        assert outcome.text == "No line in . matches x."
        assert not outcome.failed

    def test_a_name_and_a_line_that_are_no_utf8_can_be_sent(self, bench: Bench) -> None:
        """Their bytes become U+FFFD."""
        with open(os.fsencode(bench.root) + b"/a\xff", "wb") as file:
            file.write("é x ".encode() + b"\xff\n")
        assert found(bench, "x") == ["a\ufffd:1: é x \ufffd"]


class TestLinks:
    def test_what_leaves_the_workspace_is_not_read(self, bench: Bench) -> None:
        """Neither a link to a file nor one to a folder."""
        (bench.outside / "secret").write_text("x")
        (bench.root / "folder").symlink_to(bench.outside)
        (bench.root / "file").symlink_to(bench.outside / "secret")
        assert found(bench, "x", no_ignore=True) == []

    def test_a_file_is_searched_once(self, bench: Bench) -> None:
        """Under its real path, whatever links to it."""
        bench.write("real", "x")
        (bench.root / "link").symlink_to("real")
        (bench.root / "up").symlink_to(".")
        assert found(bench, "x") == ["real:1: x"]

    def test_a_folder_that_no_grant_covers_is_skipped(self, bench: Bench) -> None:
        """What a search of a granted folder meets is asked for again."""
        for name in ("plain", "secret"):
            (bench.outside / name).mkdir()
            (bench.outside / name / "file").write_text("x")
        bench.grant(bench.outside, AccessMode.READ)
        bench.hidden = bench.outside / "secret"
        assert found(bench, "x", path=str(bench.outside)) == [f"{bench.outside}/plain/file:1: x"]
        assert bench.run("glob", pattern="**/file", path=str(bench.outside)).text == (
            f"{bench.outside}/plain/file"
        )


class TestBounds:
    def test_results_are_cut_and_say_so(self, bench: Bench) -> None:
        """The number of lines is the caller's to choose."""
        bench.write("file", "x\n" * 5)
        text = bench.run("grep", pattern="x", max_results=4).text
        assert text.split("\n")[3:] == [
            "file:4: x",
            "[cut at 4 lines, there are more; narrow the search or raise max_results]",
        ]
        assert "[" not in bench.run("grep", pattern="x", max_results=5).text

    def test_a_long_line_is_cut_around_the_match(self, bench: Bench) -> None:
        """A minified file does not fill the answer."""
        bench.write("file", "a " * 10_000 + "needle" + " b" * 10_000)
        (line,) = found(bench, "needle")
        assert len(line) < 320
        assert line.startswith("file:1: …a a a")
        assert "a needle b" in line
        assert line.endswith(" b…")

    def test_a_long_line_is_not_cut_within_a_token(self, bench: Bench) -> None:
        """Half of a credential would not be recognised as one."""
        token = "ghp_" + "x" * 180
        bench.write("file", f"{'a ' * 90}{token} needle {'b ' * 60}{token} {'c ' * 90}")
        (line,) = found(bench, "needle")
        assert f"…{token} needle b" in line
        assert line.endswith("b …")
        (line,) = found(bench, "x needle")
        assert f"…{token} needle b" in line

    def test_a_match_within_a_very_long_run_of_characters_is_told(self, bench: Bench) -> None:
        """The run is left out whole."""
        bench.write("file", f"{'a ' * 500}{'x' * 5000}needle{'x' * 5000} {'b ' * 500}")
        assert found(bench, "needle") == [
            "file:1: [… the match is within 10006 characters without a break, left out …]"
        ]
        assert "xx" not in found(bench, "a x")[0]

    def test_the_whole_answer_is_bounded(self, bench: Bench) -> None:
        """Many long lines keep head and tail."""
        bench.write("file", ("x" * 290 + "\n") * 1000)
        text = bench.run("grep", pattern="x", max_results=1000).text
        assert len(text) < 62_000
        assert "characters left out" in text
        assert "file:1000:" in text

    def test_a_large_file_is_left_out_and_counted(self, bench: Bench) -> None:
        """The others are searched all the same."""
        bench.write("small", "x")
        with (bench.root / "large").open("wb") as file:
            file.truncate(65 << 20)
        text = bench.run("grep", pattern="x").text
        assert text == "small:1: x\n[files left out as too large or not readable: 1]"

    def test_a_pattern_that_takes_forever_is_stopped(self, bench: Bench) -> None:
        """What was found before is told, the call has failed, and the reason is the pattern."""
        bench.write("a", "aaa\n")
        bench.write("b", "a" * 100 + "b\n")
        start = time.monotonic()
        outcome = bench.run("grep", pattern=CATASTROPHIC)
        assert time.monotonic() - start < SOON_S
        assert outcome.failed
        assert outcome.text.startswith("a:1: aaa\n[stopped: the pattern takes too long on b:1;")

    def test_a_cancel_stops_a_search(self, bench: Bench) -> None:
        """Also one that is in the middle of a file of slow lines."""
        # Each line is slow, none is so slow that the search would be stopped for it.
        bench.write("file", ("a" * 24 + "b\n") * 5000)
        timer = threading.Timer(0.05, bench.cancel.cancel)
        timer.start()
        start = time.monotonic()
        with pytest.raises(Cancelled):
            bench.run("grep", pattern=r"(a|aa)+$")
        assert time.monotonic() - start < SOON_S
        timer.join()


class TestWhatFails:
    @pytest.mark.parametrize("pattern", ["(", "[z-a]", "a{2,1}", "\\", "(" * 5000])
    def test_what_is_no_regular_expression_fails_before_anybody_is_asked(
        self, bench: Bench, pattern: str
    ) -> None:
        """The plan itself fails, and says how to search for the text literally."""
        with pytest.raises(ToolError, match=r"is no regular expression.*backslash"):
            bench.plan("grep", pattern=pattern)

    @pytest.mark.parametrize(
        "pattern",
        [
            "a{99999999}",
            "a{99999999999999999999}",
            "(?:a{1000}){1000}",
            "(?:a{1000}(?#()){1000}",
            "(){99999999}",
            "a{300}{300}",
            "(?x)a{ 99 99 99 99 }",
            "(?V1)(?:a{1000}[[a])][[a](]){1000}",
        ],
    )
    def test_a_pattern_too_large_to_compile_is_refused(self, bench: Bench, pattern: str) -> None:
        """Compiling it would take memory without end."""
        with pytest.raises(ToolError, match="repeats too much: written out it has more than"):
            bench.plan("grep", pattern=pattern)

    @pytest.mark.parametrize(
        "pattern", [r"\d{4}-\d{2}", "(?:[0-9a-f]{4}:){7}", "x{1000}", r"[{}]\{99999999\}", "a{2,}"]
    )
    def test_repetitions_in_bounds_are_accepted(self, bench: Bench, pattern: str) -> None:
        """Also braces that are none."""
        bench.plan("grep", pattern=pattern)

    def test_a_missing_path(self, bench: Bench) -> None:
        """Is told by name."""
        with pytest.raises(ToolError, match="cannot search missing: there is no such file"):
            found(bench, "x", path="missing")

    def test_a_path_that_was_not_granted(self, bench: Bench) -> None:
        """Is not even looked at."""
        with pytest.raises(ToolError, match="not allowed to read"):
            found(bench, "x", path=str(bench.outside))

    def test_a_bad_glob_names_its_parameter(self, bench: Bench) -> None:
        """Include and exclude are told apart."""
        with pytest.raises(ToolError, match="exclude '/x' is absolute"):
            bench.plan("grep", pattern="x", exclude="/x")


def test_the_plan_says_what_is_searched(bench: Bench) -> None:
    """The title names both, the access is the real path."""
    link: Path = bench.root / "link"
    link.symlink_to(bench.outside)
    plan = bench.plan("grep", pattern="a\nb", path="link")
    assert plan.title == f"Search for `a\nb` in {bench.outside}"
    assert plan.accesses == (Access(str(bench.outside), AccessMode.READ),)
