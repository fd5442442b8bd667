"""Diffs are read as models write them, and refused where they could mean something else."""

from __future__ import annotations

import pytest

from term2_acp.tools.hunks import DiffError, Hunk, Mark, parse_diff


def sides(hunk: Hunk) -> tuple[list[str], list[str]]:
    """The old lines and the new lines of a hunk."""
    new = [line.text for line in hunk.lines if line.mark is not Mark.REMOVED]
    return hunk.old, new


class TestWhatIsRead:
    @pytest.mark.parametrize(
        "diff",
        [
            " a\n-b\n+c\n",
            " a\n-b\n+c",
            " a\r\n-b\r\n+c\r\n",
            "@@\n a\n-b\n+c\n",
            "@@ @@\n a\n-b\n+c\n",
            "@@ def f():\n a\n-b\n+c\n",
            "@@ -1,2 +1,2 @@ def f():\n a\n-b\n+c\n",
            "--- a/x\n+++ b/x\n@@ -7,2 +9,2 @@\n a\n-b\n+c\n",
            "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@\n a\n-b\n+c\n",
            " a\n-b\n+c\n\n\n",
            "@@\n@@\n a\n-b\n+c\n@@\n",
        ],
    )
    def test_one_hunk_in_many_forms(self, diff: str) -> None:
        """Headers, missing headers, CRLF and blank lines at the end make no difference."""
        (hunk,) = parse_diff(diff)
        assert sides(hunk) == (["a", "b"], ["a", "c"])

    def test_an_empty_line_within_a_hunk_is_an_empty_line_of_the_file(self) -> None:
        """The space in front of it got lost, as it often does."""
        (hunk,) = parse_diff(" a\n\n-b\n")
        assert hunk.old == ["a", "", "b"]

    def test_a_header_with_right_counts_keeps_the_empty_lines_at_the_end(self) -> None:
        """They are counted, so they are lines of the file."""
        (hunk,) = parse_diff("@@ -3,3 +3,2 @@\n a\n-b\n\n")
        assert (hunk.old, hunk.start) == (["a", "b", ""], 3)

    def test_a_header_with_wrong_counts_names_no_line(self) -> None:
        """Whoever miscounts the hunk knows nothing of the file's numbers."""
        assert [hunk.start for hunk in parse_diff("@@ -3,9 +3,2 @@\n-a\n+b\n")] == [None]
        assert [hunk.start for hunk in parse_diff("@@ -3 +3 @@\n-a\n+b\n")] == [3]

    def test_dashes_and_pluses_in_the_text_are_no_header(self) -> None:
        """A removed line "-- x" and an added one "++ y" are changes where no @@ follows."""
        (hunk,) = parse_diff("--- x\n+++ y\n z\n")
        assert sides(hunk) == (["-- x", "z"], ["++ y", "z"])

    @pytest.mark.parametrize(
        ("diff", "at_end", "final_newline"),
        [
            ("-a\n+b\n", False, None),
            ("-a\n\\ No newline at end of file\n+b\n", True, True),
            ("-a\n+b\n\\ No newline at end of file\n", True, False),
            ("-a\n\\ No newline\n+b\n\\ No newline\n", True, False),
            ("+x\n a\n\\ No newline at end of file\n", True, None),
        ],
    )
    def test_the_marker_of_a_missing_newline(
        self, diff: str, at_end: bool, final_newline: bool | None
    ) -> None:
        """It ties the hunk to the end of the file, and may change how the file ends."""
        (hunk,) = parse_diff(diff)
        assert (hunk.at_end, hunk.final_newline) == (at_end, final_newline)


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("diff", "told"),
        [
            ("", "no lines"),
            ("\n\n", "no lines"),
            ("@@\n", "no lines"),
            ("a\n+b\n", "line 1 is no line of a diff: 'a'"),
            ("```diff\n+b\n```", "line 1 is no line"),
            ("*** Begin Patch\n", "line 1 is no line"),
            ("-a\n+b\n*** End Patch", "line 3 is no line"),
            ("\\ No newline at end of file\n", "line 1 is no line"),
            (" a\n b\n", "hunk 1 changes nothing"),
            ("-a\n@@\n b\n", "hunk 2 changes nothing"),
            ("-a\n\\ No newline at end of file\n-b\n", "more lines after its no-newline marker"),
            ("+a\n\\ No newline at end of file\n b\n", "more lines after its no-newline marker"),
        ],
    )
    def test_the_reason_is_told(self, diff: str, told: str) -> None:
        """Nothing is guessed."""
        with pytest.raises(DiffError, match=told):
            parse_diff(diff)

    def test_a_wrong_line_is_not_cut_within_a_word(self) -> None:
        """It may be a credential, half of which would not be recognised."""
        token = "ghp_" + "a1B2" * 9
        with pytest.raises(DiffError, match="no line of a diff") as raised:
            parse_diff(f"key: {'x' * 30} {token}\n")
        assert "ghp_" not in str(raised.value)
