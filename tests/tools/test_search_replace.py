"""search_replace: pieces of a file change, nothing else does."""

from __future__ import annotations

import codecs
import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from term2_acp.agent.cancel import Cancelled
from term2_acp.agent.ports import Access, AccessMode, Location, ToolError
from tests.tools.bench import Bench, change_of

ENCODINGS = st.sampled_from(
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (b"", "cp1252"),
    ]
)
LINES = st.lists(st.sampled_from(["", "x = 1", "caf\xe9", "\ty", "€"]), min_size=1, max_size=6)
BREAK = st.sampled_from(["\n", "\r\n"])


class TestBytesThatAreNotTouched:
    @pytest.mark.parametrize(
        ("before", "old", "new", "after"),
        [
            (b"one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2", b"1\r\n2\r\nthree\r\n"),
            (b"a\nb\r\nc\rd\n", "b", "B\nB2", b"a\nB\r\nB2\r\nc\rd\n"),
            (b"x = 1\n// caf\xe9\n", "x = 1", "x = 2", b"x = 2\n// caf\xe9\n"),
            (b"// caf\xe9\n", "café", "thé", b"// th\xe9\n"),
            (b"\xef\xbb\xbfconst a=1;\n", "const a", "let a", b"\xef\xbb\xbflet a=1;\n"),
            (b"\xef\xbb\xbfa\n", "\ufeffa", "\ufeffb", b"\xef\xbb\xbfb\n"),
            ("é ".encode() + b"\xe9 a", "a", "b", "é ".encode() + b"\xe9 b"),
            (b"no final newline", "no", "still no", b"still no final newline"),
            ("a\u2028b\x85c\x0bd\n".encode(), "a", "A", "A\u2028b\x85c\x0bd\n".encode()),
        ],
    )
    def test_they_stay(self, bench: Bench, before: bytes, old: str, new: str, after: bytes) -> None:
        """Line endings, encoding, byte order mark and final newline are those of the file."""
        path = bench.write("file", before)
        bench.replace("file", (old, new))
        assert path.read_bytes() == after

    @settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(ENCODINGS, LINES, st.data())
    def test_one_line_of_any_file_changes_alone(
        self, bench: Bench, stored: tuple[bytes, str], lines: list[str], data: st.DataObject
    ) -> None:
        """In any encoding, with any mixture of line endings, only that line's bytes differ."""
        bom, encoding = stored
        ended = [line + data.draw(BREAK) for line in lines]
        index = data.draw(st.integers(0, len(lines)))
        ended.insert(index, "needle" + data.draw(BREAK))
        head = "".join(ended[:index])
        tail = "".join(ended[index:]).removeprefix("needle")
        path = bench.write("file", bom + (head + "needle" + tail).encode(encoding))
        bench.ledger = type(bench.ledger)()
        bench.replace("file", ("needle", "pin"))
        assert path.read_bytes() == bom + (head + "pin" + tail).encode(encoding)

    def test_the_link_stays_and_its_target_is_edited(self, bench: Bench) -> None:
        """An edit through a symbolic link changes the file behind it, whose mode stays."""
        real = bench.write("real.sh", "echo old\n")
        real.chmod(0o755)
        (bench.root / "l").symlink_to("real.sh")
        bench.replace("l", ("old", "new"))
        assert os.readlink(bench.root / "l") == "real.sh"
        assert real.read_text() == "echo new\n"
        assert stat.S_IMODE(real.stat().st_mode) == 0o755
        assert bench.names() == ["l", "real.sh"]

    def test_a_link_out_of_the_workspace_is_judged_by_its_target(self, bench: Bench) -> None:
        """The plan names the real file, and without a grant for it nothing is written."""
        target = bench.outside / "target"
        target.write_text("old")
        (bench.root / "l").symlink_to(target)
        arguments = {
            "path": "l",
            "replacements": [{"search_content": "old", "replace_content": "new"}],
        }
        plan = bench.plan("search_replace", **arguments)
        assert plan.accesses == (Access(str(target), AccessMode.EDIT),)
        with pytest.raises(ToolError, match="not allowed"):
            bench.run("search_replace", **arguments)
        assert target.read_text() == "old"
        bench.grant(target, AccessMode.EDIT)
        bench.run("search_replace", **arguments)
        assert target.read_text() == "new"


class TestWhatIsReported:
    def test_the_user_sees_the_whole_texts_and_the_first_changed_line(self, bench: Bench) -> None:
        """The model is told the place in one line."""
        path = bench.write("src/a.py", "one\ntwo\nthree\n")
        outcome = bench.replace("src/a.py", ("two", "2"), ("three", "3"))
        change = change_of(outcome)
        assert (change.path, change.old, change.new) == (
            str(path),
            "one\ntwo\nthree\n",
            "one\n2\n3\n",
        )
        assert outcome.locations == (Location(str(path), 2),)
        assert outcome.text == (
            "Edited src/a.py: 2 places replaced, the first change is in line 2."
        )
        assert not outcome.failed

    def test_bytes_that_are_no_text_are_shown_as_replacement_characters(self, bench: Bench) -> None:
        """What is reported can be sent; the file keeps its byte."""
        bench.write("file", "é ".encode() + b"\xe9 a")
        change = change_of(bench.replace("file", ("a", "b")))
        assert (change.old, change.new) == ("é \ufffd a", "é \ufffd b")

    def test_the_plan_names_the_file_in_a_short_title(self, bench: Bench) -> None:
        """Nothing is read for it; a missing file is planned as well."""
        plan = bench.plan(
            "search_replace",
            path="src/a.py",
            replacements=[{"search_content": "a", "replace_content": "b"}],
        )
        assert plan.title == "Edit src/a.py"
        assert plan.locations == (Location(str(bench.root / "src" / "a.py")),)
        assert not plan.executes


class TestWhatFailsUntouched:
    def test_a_missing_text_names_the_place_where_only_white_space_differs(
        self, bench: Bench
    ) -> None:
        """The near miss is shown with its line number."""
        path = bench.write("a.py", "def f():\n\treturn 1\n")
        with pytest.raises(ToolError, match=r"line 2 \(only white space differs\): '\\treturn 1'"):
            bench.replace("a.py", ("    return 1", "    return 2"))
        assert path.read_text() == "def f():\n\treturn 1\n"

    def test_a_text_that_is_not_unique_names_its_lines(self, bench: Bench) -> None:
        """The model can add context, or ask for all of them."""
        path = bench.write("a.py", "x\ny\nx\n")
        with pytest.raises(ToolError, match=r"not unique in a\.py: it is in lines 1, 3;"):
            bench.replace("a.py", ("x", "z"))
        assert path.read_text() == "x\ny\nx\n"

    def test_overlapping_places_are_not_unique(self, bench: Bench) -> None:
        """Which of them was meant cannot be known."""
        bench.write("file", "aaa")
        with pytest.raises(ToolError, match="not unique"):
            bench.replace("file", ("aa", "b"))

    def test_places_that_differ_only_in_their_line_break_are_not_unique(self, bench: Bench) -> None:
        """The model cannot see the difference, so it is not guessed."""
        bench.write("file", b"a\nb\na\r\nb\n")
        with pytest.raises(ToolError, match="not unique"):
            bench.replace("file", ("a\nb", "c"))

    def test_replace_all_replaces_each_place(self, bench: Bench) -> None:
        """From the left, without overlaps."""
        path = bench.write("file", "aaa x aa")
        outcome = bench.replace("file", ("aa", "b"), replace_all=True)
        assert path.read_text() == "ba x b"
        assert "2 places" in outcome.text

    def test_all_replacements_are_done_or_none(self, bench: Bench) -> None:
        """The last one fails, so the first one is not written either."""
        path = bench.write("file", "one two")
        with pytest.raises(ToolError, match=r"replacements\[1\].search_content is not in file"):
            bench.replace("file", ("one", "1"), ("three", "3"))
        assert path.read_text() == "one two"
        assert bench.names() == ["file"]

    def test_each_replacement_sees_what_the_ones_before_it_made(self, bench: Bench) -> None:
        """They are done in order."""
        path = bench.write("file", "one")
        bench.replace("file", ("one", "two"), ("two", "three"))
        assert path.read_text() == "three"

    @pytest.mark.parametrize("content", [b"a\0b", b"\x89PNG\r\n\x1a\n\xff\xd8 a"])
    def test_a_binary_file(self, bench: Bench, content: bytes) -> None:
        """Is refused as such."""
        path = bench.write("file", content)
        with pytest.raises(ToolError, match="cannot edit file: it is binary"):
            bench.replace("file", ("a", "b"))
        assert path.read_bytes() == content

    def test_a_character_that_the_encoding_lacks(self, bench: Bench) -> None:
        """A Latin-1 file is not turned into something else for it."""
        path = bench.write("file", b"caf\xe9")
        with pytest.raises(ToolError, match="cannot hold '→'"):
            bench.replace("file", ("caf", "→"))
        assert path.read_bytes() == b"caf\xe9"

    @pytest.mark.parametrize(
        ("pairs", "told"),
        [
            ((), "replacements is empty"),
            ((("", "x"),), r"replacements\[0\].search_content is empty"),
            ((("a", "b"), ("x", "x")), r"replacements\[1\].replace_content is the same"),
            ((("a", "b"), ("b", "a")), "leave file as it is"),
        ],
    )
    def test_a_call_that_would_change_nothing(
        self, bench: Bench, pairs: tuple[tuple[str, str], ...], told: str
    ) -> None:
        """Says why."""
        bench.write("file", "a")
        with pytest.raises(ToolError, match=told):
            bench.replace("file", *pairs)

    def test_a_missing_file_is_not_made(self, bench: Bench) -> None:
        """The error names the tool that makes files."""
        with pytest.raises(ToolError, match=r"no such file\. Use create_file"):
            bench.replace("file", ("a", "b"))
        assert bench.names() == []

    def test_a_cancelled_turn(self, bench: Bench) -> None:
        """Writes nothing any more."""
        path = bench.write("file", "a")
        bench.cancel.cancel()
        with pytest.raises(Cancelled):
            bench.replace("file", ("a", "b"))
        assert path.read_text() == "a"

    def test_a_cancel_while_it_works_is_heard_before_the_file_is_written(
        self, bench: Bench
    ) -> None:
        """Whatever was computed by then is thrown away."""
        path = bench.write("file", "a" * 1000)
        with pytest.raises(Cancelled):
            bench.run_cancelled_late(
                "search_replace",
                path="file",
                replacements=[{"search_content": "a", "replace_content": "b", "replace_all": True}],
            )
        assert path.read_text() == "a" * 1000

    def test_a_second_marker_is_one_too_many(self, bench: Bench) -> None:
        """One that the file has does not cover for one that stands for a credential."""
        path = bench.write("file", "A=[REDACTED]\nB=abcdefgh12345\n")
        with pytest.raises(ToolError, match="stands for a credential"):
            bench.replace("file", ("A=[REDACTED]\n", "A=[REDACTED]\nC=[REDACTED]\n"))
        assert path.read_text() == "A=[REDACTED]\nB=abcdefgh12345\n"

    def test_the_marker_of_a_hidden_credential_is_not_written_back(self, bench: Bench) -> None:
        """The model never saw the real value, and would destroy it."""
        path = bench.write(".env", "KEY=abcdefgh12345\n")
        with pytest.raises(ToolError, match=r"\[REDACTED\], which stands for a credential"):
            bench.replace(".env", ("KEY=", "KEY=[REDACTED] # "))
        assert path.read_text() == "KEY=abcdefgh12345\n"

    def test_the_marker_may_stay_where_the_file_has_it(self, bench: Bench) -> None:
        """A program about redaction can be edited."""
        path = bench.write("a.py", 'MARK = "[REDACTED]"\n')
        bench.replace("a.py", ('MARK = "[REDACTED]"', 'MARKER = "[REDACTED]"'))
        assert path.read_text() == 'MARKER = "[REDACTED]"\n'


class TestWhatTheSessionHasSeen:
    def test_a_file_that_was_never_read_may_be_edited(self, bench: Bench) -> None:
        """The text has to match, so nothing is overwritten blindly."""
        path = bench.write("file", "a")
        bench.replace("file", ("a", "b"))
        assert path.read_text() == "b"

    def test_a_file_changed_since_it_was_read_is_not_edited(self, bench: Bench) -> None:
        """The call says so; after another read it works."""
        path = bench.write("file", "a one")
        bench.run("read_file", path="file")
        bench.write("file", "a two")
        with pytest.raises(ToolError, match="changed by somebody else since you last read it"):
            bench.replace("file", ("a", "b"))
        assert path.read_text() == "a two"
        bench.run("read_file", path="file")
        bench.replace("file", ("a", "b"))
        assert path.read_text() == "b two"

    def test_a_file_that_was_only_touched_may_be_edited(self, bench: Bench) -> None:
        """Its content is the one that was read."""
        path = bench.write("file", "a")
        bench.run("read_file", path="file")
        os.utime(path, (1, 1))
        bench.replace("file", ("a", "b"))
        assert path.read_text() == "b"

    def test_edits_of_the_session_itself_are_no_change_by_others(self, bench: Bench) -> None:
        """One edit after the other works without reading in between."""
        path: Path = bench.write("file", "a")
        bench.replace("file", ("a", "b"))
        bench.replace("file", ("b", "c"))
        assert path.read_text() == "c"
