"""Hunks find their place by content alone, and no other byte changes."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.tools.hunks import DiffError, parse_diff
from term2_acp.tools.placing import apply_hunks

UNIQUE = [f"line {number}" for number in range(400)]
COMMON = st.sampled_from(["", "a", "b", "}", "  x", "\ty", "é€"])
ENDING = st.sampled_from(["\n", "\r\n"])


def applied(raw: str, diff: str) -> str:
    return apply_hunks(raw, parse_diff(diff))


class TestPlaces:
    def test_numbers_do_not_matter(self) -> None:
        """Wrong numbers, wrong counts, numbers out of the file."""
        raw = "".join(f"{line}\n" for line in UNIQUE[:20])
        for header in ("@@ -900,3 +1,3 @@", "@@ -1,3 +1,3 @@", "@@ -7,99 +8,1 @@", "@@"):
            diff = f"{header}\n line 4\n-line 5\n+five\n line 6\n"
            assert applied(raw, diff) == raw.replace("line 5\n", "five\n")

    def test_a_place_that_is_not_unique_is_refused(self) -> None:
        """The lines are named; more context, or the hunks around it, decide."""
        raw = "a\nx\nb\nx\nc\n"
        with pytest.raises(DiffError, match=r"hunk 1 is ambiguous: it fits at lines 2, 4; give"):
            applied(raw, "-x\n+y\n")
        assert applied(raw, "-x\n+y\n c\n") == "a\nx\nb\ny\nc\n"
        assert applied(raw, " b\n+B\n@@\n-x\n+y\n") == "a\nx\nb\nB\ny\nc\n"
        assert applied(raw, "-x\n+y\n@@\n-x\n+z\n") == "a\ny\nb\nz\nc\n"

    def test_a_right_header_decides_between_places(self) -> None:
        """Counts and line have to be right; a placeholder with wrong counts does not."""
        raw = "x\na\nx\nb\n"
        assert applied(raw, "@@ -3 +3 @@\n-x\n+y\n") == "x\na\ny\nb\n"
        for header in ("@@ -2 +2 @@", "@@ -1,3 +1,3 @@", "@@ -3,1 +3,2 @@"):
            with pytest.raises(DiffError, match="ambiguous"):
                applied(raw, f"{header}\n-x\n+y\n")

    def test_many_places_are_not_all_listed(self) -> None:
        """The message stays short and the search ends."""
        with pytest.raises(DiffError, match="9, 10 and more"):
            applied("x\n" * 5000, "-x\n+y\n")

    def test_what_is_not_there_is_told_with_what_is_near(self) -> None:
        """Which hunk, and which line of the file comes closest."""
        with pytest.raises(DiffError, match=r"hunk 2 does not fit.*near misses: line 3 \(only wh"):
            applied("a\nb\n\tfoo(1)\n", "-a\n+A\n@@\n-  foo(1)\n+bar\n")
        with pytest.raises(DiffError, match="nothing like them was found"):
            applied("a\n", "-something else\n+y\n")

    def test_hunks_in_the_wrong_order_are_refused(self) -> None:
        """It is told where the later one fits."""
        with pytest.raises(DiffError, match="hunk 2 fits only at line 1, before"):
            applied("a\nb\nc\n", "-c\n+C\n@@\n-a\n+A\n")

    def test_hunks_do_not_overlap(self) -> None:
        """Two hunks cannot both change one line."""
        with pytest.raises(DiffError, match="hunk 2 fits only at line 1"):
            applied("a\nb\n", "-a\n+A\n@@\n-a\n+B\n")

    def test_only_new_lines_have_no_place_but_in_an_empty_file(self) -> None:
        """Also where a header names one: that is what numbers are not for."""
        assert applied("", "+a\n+b\n") == "a\nb\n"
        with pytest.raises(DiffError, match="hunk 1 has only \\+ lines"):
            applied("x\n", "@@ -1,0 +2 @@\n+a\n")

    def test_a_marker_ties_a_hunk_to_the_end(self) -> None:
        """Of two places it is the last, whether or not the file ends with a newline."""
        diff = "-x\n\\ No newline at end of file\n+y\n\\ No newline at end of file\n"
        assert applied("x\nx", diff) == "x\ny"
        with pytest.raises(DiffError, match="not there at the end of the file"):
            applied("x\nz", diff)


class TestLineBreaks:
    @pytest.mark.parametrize(
        ("raw", "diff", "expected"),
        [
            ("a\r\nb\r\nc\r\n", " a\n-b\n+B\n+B2\n", "a\r\nB\r\nB2\r\nc\r\n"),
            ("a\nb\r\nc\nd", "-b\n+B\n c\n", "a\nB\r\nc\nd"),
            ("a\nb\r\nc\nd\n", "-a\n-b\n-c\n+1\n+2\n+3\n+4\n", "1\n2\r\n3\n4\nd\n"),
            ("a\r\nb\nc\r\n", " a\n+x\n b\n-c\n", "a\r\nx\nb\n"),
            ("a\nb\r\nc\n", " a\n+x\n b\n", "a\nx\r\nb\r\nc\n"),
            ("a\rb\rc", " a\n-b\n+B\n", "a\rB\rc"),
            ("a\nb\rc\nd\n", "-b\rc\n+x\n", "a\nx\nd\n"),
            ("a\u2028b\nc\n", "-a\u2028b\n+A\x0bB\n", "A\x0bB\nc\n"),
            # The final newline, or none, stays unless the diff says otherwise.
            ("a\nb", "-b\n+c\n", "a\nc"),
            ("a\nb", " b\n+c\n", "a\nb\nc"),
            ("a\r\nb", " b\n+c\n", "a\r\nb\r\nc"),
            ("a", " a\n+b\n", "a\nb"),
            ("a\nb", "-b\n\\ No newline at end of file\n+b\n", "a\nb\n"),
            ("a\r\nb", "-b\n\\ No newline at end of file\n+c\n", "a\r\nc\r\n"),
            ("a\nb\n", "-b\n+b\n\\ No newline at end of file\n", "a\nb"),
            ("a\nb\n", " a\n-b\n", "a\n"),
            ("a\nb", " a\n-b\n", "a"),
            ("a\n", "-a\n", ""),
            ("a\n\n\n", " a\n-\n+b\n", "a\nb\n\n"),
            # All hunks of an empty file are at its end, and the last one says how it ends.
            ("", "+a\n\\ No newline at end of file\n@@\n+b\n", "a\nb\n"),
            ("", "+a\n@@\n+b\n\\ No newline at end of file\n", "a\nb"),
        ],
    )
    def test_each_line_keeps_its_own(self, raw: str, diff: str, expected: str) -> None:
        """New lines take those of the lines that they replace, or of the next one."""
        assert applied(raw, diff) == expected


def diff_of(old: list[str], new: list[str], context: int) -> list[list[str]]:
    """The hunks of a diff as another program makes them, each without its header."""
    hunks: list[list[str]] = []
    for line in difflib.unified_diff(old, new, n=context, lineterm=""):
        if line.startswith("@@"):
            hunks.append([])
        elif hunks:
            hunks[-1].append(line)
    return hunks


class TestAgainstAReference:
    @settings(deadline=None, max_examples=300)
    @given(st.data())
    def test_any_edit_of_distinct_lines_applies_wherever_the_lines_have_gone(
        self, data: st.DataObject
    ) -> None:
        """
        Lines are removed, replaced and added at random, with any line breaks; meanwhile
        somebody else put lines between the hunks. Only the bytes of the edit differ.
        """
        size = data.draw(st.integers(1, 30))
        old = UNIQUE[:size]
        endings = [data.draw(ENDING) for _ in old]
        texts: list[str] = []
        for line in old:
            action = data.draw(
                st.sampled_from(["keep", "keep", "keep", "remove", "replace", "add"])
            )
            if action in ("keep", "add"):
                texts.append(line)
            if action == "replace":
                texts.append(f"new {line}")
            if action == "add":
                texts.append(f"more {line}")
        hunks = diff_of(old, texts, data.draw(st.integers(1, 3)))
        if not hunks:
            return
        header = data.draw(st.sampled_from(["@@", "@@ -1,1 +1,1 @@", "@@ -999,7 +3,2 @@ f"]))
        diff = "".join(f"{header}\n" + "".join(f"{line}\n" for line in hunk) for hunk in hunks)
        drift = data.draw(st.integers(0, 5))
        moved = "".join(f"moved {number}\n" for number in range(drift))
        raw = moved + "".join(map("".join, zip(old, endings, strict=True)))
        result = applied(raw, diff)
        assert result.replace("\r\n", "\n") == moved + "".join(f"{text}\n" for text in texts)
        kept = dict(zip(old, endings, strict=True))
        for text in texts:
            assert text not in kept or f"{text}{kept[text]}" in result

    @settings(deadline=None, max_examples=300)
    @given(st.lists(COMMON, max_size=12), st.lists(COMMON, max_size=12), st.integers(0, 3))
    def test_any_edit_of_lines_that_repeat_applies_or_is_refused(
        self, old: list[str], new: list[str], context: int
    ) -> None:
        """A hunk that fits in several places never ends up in the wrong one silently."""
        hunks = diff_of(old, new, context)
        if not hunks:
            return
        diff = "".join("@@\n" + "".join(f"{line}\n" for line in hunk) for hunk in hunks)
        raw = "".join(f"{line}\n" for line in old)
        try:
            result = applied(raw, diff)
        except DiffError as refused:
            reason = str(refused)
        else:
            reason = "" if result == "".join(f"{line}\n" for line in new) else "wrong"
        assert not reason or "ambiguous" in reason or "only + lines" in reason

    @settings(deadline=None, max_examples=200)
    @given(st.lists(COMMON, min_size=1, max_size=12), st.lists(COMMON, max_size=12))
    def test_the_real_numbers_and_counts_decide_what_repeats(
        self, old: list[str], new: list[str]
    ) -> None:
        """A diff as a program makes it, with three lines of context, always applies."""
        diff = "\n".join(difflib.unified_diff(old, new, "a/f", "b/f", lineterm="")) + "\n"
        if old != new:
            raw = "".join(f"{line}\n" for line in old)
            assert applied(raw, diff) == "".join(f"{line}\n" for line in new)
