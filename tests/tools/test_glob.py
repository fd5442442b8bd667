"""glob: files by the shape of their path."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from term2_acp.agent.cancel import Cancelled
from term2_acp.agent.ports import Access, AccessMode, ToolError
from term2_acp.tools.ignoring import IgnoreFile
from term2_acp.tools.walking import WalkGaps, walk
from tests.tools.bench import Bench


def found(bench: Bench, pattern: str = "**/*", **arguments: object) -> list[str]:
    """The paths that glob returns, without its notes."""
    text = bench.run("glob", pattern=pattern, **arguments).text
    if text.startswith("Nothing in "):
        return []
    return [line for line in text.split("\n") if not line.startswith("[")]


class TestWhatIsFound:
    def test_paths_are_sorted_and_relative_to_the_workspace(self, bench: Bench) -> None:
        """Also when only a folder of it is searched."""
        for name in ("b.py", "a/z.py", "a/b/c.py", "a-b/x.py", "a.py", "a/y.txt"):
            bench.write(name, "")
        assert found(bench, "**/*.py") == ["a-b/x.py", "a.py", "a/b/c.py", "a/z.py", "b.py"]
        assert found(bench, "*.py", path="a") == ["a/z.py"]
        assert found(bench, "**/*.py") == sorted(found(bench, "**/*.py"))

    def test_folders_are_shown_with_a_slash_unless_the_pattern_goes_deep(
        self, bench: Bench
    ) -> None:
        """`*` lists a folder; `**` is about files; a trailing slash asks for folders only."""
        bench.write("src/a.py", "")
        bench.write("b.py", "")
        assert found(bench, "*") == ["b.py", "src/"]
        assert found(bench, "**/*") == ["b.py", "src/a.py"]
        assert found(bench, "*/") == ["src/"]
        assert found(bench, "**/") == ["src/"]

    def test_hidden_files_are_found_but_not_the_git_folder(self, bench: Bench) -> None:
        """A .git file of a worktree is left out as well."""
        bench.write(".git/config", "")
        bench.write("sub/.git", "gitdir: elsewhere")
        bench.write(".github/workflows/ci.yml", "")
        assert found(bench) == [".github/workflows/ci.yml"]

    def test_results_are_cut_and_say_so(self, bench: Bench) -> None:
        """Fifty by default; exactly as many as there are is no cut."""
        for number in range(51):
            bench.write(f"f{number:02}", "")
        text = bench.run("glob", pattern="*").text
        assert text.split("\n")[49:] == [
            "f49",
            "[cut at 50 paths, there are more; narrow the pattern or raise max_results]",
        ]
        assert len(found(bench, "*", max_results=51)) == 51
        assert "cut" not in bench.run("glob", pattern="*", max_results=51).text

    def test_nothing_found_is_said_with_a_hint(self, bench: Bench) -> None:
        """A pattern without a folder looks only at the top."""
        bench.write("src/a.py", "")
        outcome = bench.run("glob", pattern="*.py")
        assert outcome.text == (
            "Nothing in . matches *.py. Use **/*.py to look in the folders below as well."
        )
        assert not outcome.failed

    def test_a_name_that_is_no_utf8_can_be_sent(self, bench: Bench) -> None:
        """Its bytes become U+FFFD."""
        with open(os.fsencode(bench.root) + b"/a\xff.txt", "wb"):
            pass
        assert found(bench, "*.txt") == ["a\ufffd.txt"]

    def test_what_is_no_file_is_left_out(self, bench: Bench) -> None:
        """Fifos and dangling links are not for reading."""
        os.mkfifo(bench.root / "fifo")
        (bench.root / "dangling").symlink_to("nowhere")
        assert found(bench) == []


class TestLinks:
    def test_a_link_to_a_file_inside_is_found(self, bench: Bench) -> None:
        """Under its own name."""
        bench.write("AGENTS.md", "")
        (bench.root / "CLAUDE.md").symlink_to("AGENTS.md")
        assert found(bench, "*.md") == ["AGENTS.md", "CLAUDE.md"]

    def test_what_leaves_the_workspace_is_skipped(self, bench: Bench) -> None:
        """Neither a link to a file outside nor what is below a link to a folder is found."""
        (bench.outside / "secret.md").write_text("")
        (bench.root / "folder").symlink_to(bench.outside)
        (bench.root / "link.md").symlink_to(bench.outside / "secret.md")
        assert found(bench) == []
        assert found(bench, "*") == []

    def test_a_file_that_no_grant_covers_is_not_shown(self, bench: Bench) -> None:
        """As with a credential store in a folder that was granted."""
        for name in (".netrc", "notes"):
            (bench.outside / name).write_text("")
        bench.grant(bench.outside, AccessMode.READ)
        bench.hidden = bench.outside / ".netrc"
        assert found(bench, path=str(bench.outside)) == [str(bench.outside / "notes")]

    def test_links_in_a_circle_end(self, bench: Bench) -> None:
        """A link to a folder above is not walked into."""
        bench.write("a/file", "")
        (bench.root / "a" / "up").symlink_to("..")
        assert found(bench) == ["a/file"]

    def test_a_link_given_as_path_is_judged_by_its_target(self, bench: Bench) -> None:
        """It needs a grant; with one, paths outside are absolute."""
        (bench.outside / "file").write_text("")
        (bench.root / "link").symlink_to(bench.outside)
        plan = bench.plan("glob", pattern="*", path="link")
        assert plan.accesses == (Access(str(bench.outside), AccessMode.READ),)
        with pytest.raises(ToolError, match="not allowed to read"):
            found(bench, "*", path="link")
        bench.grant(bench.outside, AccessMode.READ)
        assert found(bench, "*", path="link") == [str(bench.outside / "file")]


class TestIgnoredFiles:
    def test_rules_of_every_level_count(self, bench: Bench) -> None:
        """The innermost file wins, anchored rules are relative to their file."""
        bench.write(".gitignore", "*.log\n/build/\n!keep.log\n")
        bench.write("sub/.gitignore", "!*.log\n/only-here\n")
        for name in (
            "a.log",
            "keep.log",
            "build/x",
            "sub/b.log",
            "sub/build/x",
            "sub/only-here",
            "sub/deep/only-here",
        ):
            bench.write(name, "")
        assert found(bench) == [
            ".gitignore",
            "keep.log",
            "sub/.gitignore",
            "sub/b.log",
            "sub/build/x",
            "sub/deep/only-here",
        ]

    def test_rules_above_the_searched_folder_count(self, bench: Bench) -> None:
        """As far up as the workspace goes."""
        bench.write(".gitignore", "*.log\nsub/skip\n")
        bench.write("sub/a.log", "")
        bench.write("sub/a.txt", "")
        bench.write("sub/skip", "")
        assert found(bench, path="sub") == ["sub/a.txt"]

    def test_an_ignored_folder_can_be_searched_when_asked_for(self, bench: Bench) -> None:
        """Its own rules still count."""
        bench.write(".gitignore", "node_modules/\n*.js\n")
        bench.write("node_modules/.gitignore", "skip\n")
        bench.write("node_modules/pkg/index.js", "")
        bench.write("node_modules/skip", "")
        assert found(bench) == [".gitignore"]
        assert found(bench, path="node_modules/pkg") == ["node_modules/pkg/index.js"]
        assert "node_modules/skip" not in found(bench, path="node_modules")

    def test_rules_are_those_of_git(self, bench: Bench) -> None:
        """A tree full of odd rules lists exactly the files that git does not ignore."""
        rules = [
            "# comment",
            "\\#literal",
            "*.o",
            "!important.o",
            "/anchored",
            "doc/*.txt",
            "deep/**/end",
            "dir/",
            "trailing\\ ",
            "[ab].c",
            "!",
            "[z-a]",
            "name?.x",
        ]
        bench.write(".gitignore", "\r\n".join(rules) + "\r\n")
        for name in (
            "#literal",
            "x.o",
            "important.o",
            "sub/important.o",
            "anchored",
            "sub/anchored",
            "doc/a.txt",
            "doc/sub/a.txt",
            "deep/end",
            "deep/a/b/end",
            "dir/file",
            "sub/dir/file",
            "other/dir",
            "a.c",
            "c.c",
            "name1.x",
            "name12.x",
        ):
            bench.write(name, "")
        bench.write(".gitignore", "\n".join(rules) + "\n")
        git = ["git", "-c", "core.excludesFile=/dev/null", "-C", str(bench.root)]
        subprocess.run([*git, "init", "-q"], check=True)
        listed = subprocess.run(
            [*git, "ls-files", "--others", "--exclude-per-directory=.gitignore"],
            check=True,
            capture_output=True,
            text=True,
        )
        assert found(bench, max_results=1000) == sorted(listed.stdout.split("\n")[:-1])

    def test_rules_that_would_take_forever_are_left_out(self) -> None:
        """A hostile repository does not stop the server; its other rules still work."""
        rules = b"*a*[!b]*[!c]*b\n**/a/**/a/**/a/**/a/**/b\n*.o\n"
        file = IgnoreFile.parse((), rules)
        assert file.judge(["a" * 250], folder=False) is None
        assert file.judge(["x.o"], folder=False) is True
        assert file.left_out == 2

    def test_many_stars_take_linear_time(self) -> None:
        """Long names and thousands of rules that nearly match them."""
        rules = "".join(f"*a*a*a*a*a*a*{number}b\n" for number in range(2000))
        file = IgnoreFile.parse((), rules.encode())
        start = time.monotonic()
        for number in range(20):
            assert file.judge(["a" * 230 + str(number)], folder=False) is None
        assert time.monotonic() - start < 60
        assert file.judge(["caaaXaaa17b"], folder=False) is True

    @settings(deadline=None)
    @given(
        st.lists(st.sampled_from(["*", "*", "a", "b", "?", "[ab]", r"\b", "**", "/"]), max_size=9),
        st.lists(st.text(alphabet="abc", min_size=1, max_size=8), min_size=1, max_size=3),
        st.booleans(),
    )
    def test_a_rule_means_what_it_means_to_the_library(
        self, rule: list[str], parts: list[str], folder: bool
    ) -> None:
        """Matching it in linear time changes nothing."""
        line = "".join(rule)
        file = IgnoreFile.parse((), line.encode())
        wanted = GitIgnoreSpec.from_lines([line]).check_file("/".join(parts) + "/" * folder)
        assert file.left_out or file.judge(parts, folder=folder) is wanted.include

    def test_rules_that_are_not_applied_are_told(self, bench: Bench) -> None:
        """By both tools that honour them."""
        bench.write(".gitignore", "# comment\n\n" + "x\n" * 2010)
        bench.write("file", "needle")
        note = "[.gitignore rules not applied as too many or too slow: 10]"
        assert bench.run("glob", pattern="file").text == f"file\n{note}"
        assert bench.run("grep", pattern="needle").text == f"file:1: needle\n{note}"

    def test_what_is_left_out_counts_as_work(self, bench: Bench) -> None:
        """The time limit is looked at for ignored entries as well."""
        bench.write(".gitignore", "*\n")
        for number in range(10):
            bench.write(f"f{number}", "")
        checks: list[None] = []
        found = walk(
            bench.files,
            str(bench.root),
            enter=lambda _: True,
            honour_ignores=True,
            check=lambda: checks.append(None),
            gaps=WalkGaps(),
        )
        assert list(found) == []
        assert len(checks) >= 11


class TestWhatFails:
    def test_a_missing_folder(self, bench: Bench) -> None:
        """Is told by name."""
        with pytest.raises(ToolError, match="cannot search missing: there is no such"):
            found(bench, path="missing")

    def test_a_file_as_folder(self, bench: Bench) -> None:
        """Is told to be a file."""
        bench.write("file", "")
        with pytest.raises(ToolError, match="file is a file; glob needs a folder"):
            found(bench, path="file")

    def test_a_cancelled_turn(self, bench: Bench) -> None:
        """Ends the walk."""
        bench.write("file", "")
        bench.cancel.cancel()
        with pytest.raises(Cancelled):
            found(bench)

    def test_a_bad_pattern_fails_before_anybody_is_asked(self, bench: Bench) -> None:
        """The plan itself fails."""
        with pytest.raises(ToolError, match="absolute"):
            bench.plan("glob", pattern="/etc/*")


def test_no_descriptor_is_left_open(bench: Bench) -> None:
    """Neither by a walk to the end nor by one that was cut."""
    for name in ("a/b/c/d", "a/b/e", "f"):
        bench.write(name, "")
    before = set(os.listdir("/dev/fd"))
    found(bench)
    found(bench, max_results=1)
    assert set(os.listdir("/dev/fd")) == before


def test_a_very_deep_tree_is_walked_as_far_as_it_is_sane(bench: Bench) -> None:
    """It neither fails nor runs out of descriptors."""
    bench.write("top", "")
    folder = os.open(bench.root, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    note = "[folders more than 128 deep were not searched]"
    assert bench.run("glob", pattern="**/*").text == f"top\n{note}"
    assert bench.run("grep", pattern="x").text == f"No line in . matches x.\n{note}"
    assert "[" not in bench.run("glob", pattern="*").text


def test_a_link_that_cannot_be_followed_is_no_file(bench: Bench) -> None:
    """It is passed over, and the others are found."""
    (bench.root / "link").symlink_to("/proc/1/root")
    (bench.root / "loop").symlink_to("loop")
    bench.write("file", "")
    bench.grant(Path("/proc"), AccessMode.READ)
    assert found(bench) == ["file"]


def test_a_name_is_one_line(bench: Bench) -> None:
    """Whatever is in it, in glob and in grep."""
    bench.write("a\nb.py:1: x\x1b[2K", "x")
    assert bench.run("glob", pattern="*").text == r"a\nb.py:1: x\x1b[2K"
    assert bench.run("grep", pattern="x").text == r"a\nb.py:1: x\x1b[2K:1: x"


def test_the_plan_says_what_is_looked_for(bench: Bench) -> None:
    """The title names pattern and folder."""
    plan = bench.plan("glob", pattern="**/*.py", path="src")
    assert plan.title == "Find **/*.py in src"
    assert plan.accesses == (Access(str(bench.root / "src"), AccessMode.READ),)
