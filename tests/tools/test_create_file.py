"""create_file: new files, and whole files overwritten with care."""

from __future__ import annotations

import codecs
import os
import stat

import pytest

from term2_acp.agent.cancel import Cancelled
from term2_acp.agent.ports import Access, AccessMode, ChangeKind, Location, ToolError
from tests.tools.bench import Bench, change_of


class TestANewFile:
    def test_it_is_written_as_given(self, bench: Bench) -> None:
        """Folders are made, line endings stay, the user sees an addition."""
        outcome = bench.run("create_file", path="a/b/new.txt", content="é\r\nx")
        path = bench.root / "a" / "b" / "new.txt"
        assert path.read_bytes() == "é\r\nx".encode()
        change = change_of(outcome)
        assert (change.path, change.kind, change.old, change.new) == (
            str(path),
            ChangeKind.ADD,
            None,
            "é\r\nx",
        )
        assert outcome.locations == (Location(str(path), 1),)
        assert outcome.text == "Created a/b/new.txt."

    def test_it_may_be_edited_and_overwritten_at_once(self, bench: Bench) -> None:
        """The session knows what it wrote."""
        bench.run("create_file", path="new", content="a")
        bench.run("create_file", path="new", content="b", overwrite=True)
        assert (bench.root / "new").read_text() == "b"

    def test_it_is_planned_with_its_real_path(self, bench: Bench) -> None:
        """A link in its parents is seen through, and the plan makes nothing."""
        (bench.root / "link").symlink_to(bench.outside)
        plan = bench.plan("create_file", path="link/new", content="x")
        assert plan.accesses == (Access(str(bench.outside / "new"), AccessMode.EDIT),)
        assert plan.title == f"Create {bench.outside}/new"
        with pytest.raises(ToolError, match="not allowed"):
            bench.run("create_file", path="link/new", content="x")
        assert bench.names(bench.outside) == []

    def test_the_marker_of_a_hidden_credential_is_refused(self, bench: Bench) -> None:
        """A copy of a file with credentials would not be one."""
        with pytest.raises(ToolError, match="stands for a credential"):
            bench.run("create_file", path="new", content="KEY=[REDACTED]")
        assert bench.names() == []

    def test_a_file_in_the_place_of_a_folder_is_told(self, bench: Bench) -> None:
        """The path cannot be made."""
        bench.write("file", "x")
        with pytest.raises(ToolError, match="a part of its path is not a folder"):
            bench.run("create_file", path="file/new", content="x")


class TestAnExistingFile:
    def test_it_is_not_overwritten_without_being_asked_for(self, bench: Bench) -> None:
        """The error says how to go on."""
        path = bench.write("file", "old")
        with pytest.raises(ToolError, match=r"exists already.*search_replace.*overwrite"):
            bench.run("create_file", path="file", content="new")
        assert path.read_text() == "old"

    def test_it_is_not_overwritten_unread(self, bench: Bench) -> None:
        """Nobody overwrites what the session never saw; an edit does not count as unseen."""
        path = bench.write("file", "old")
        with pytest.raises(ToolError, match="never read in this session"):
            bench.run("create_file", path="file", content="new", overwrite=True)
        assert path.read_text() == "old"

    def test_it_is_not_overwritten_if_it_changed_since_it_was_read(self, bench: Bench) -> None:
        """Also if size and time are the same."""
        path = bench.write("file", "old")
        bench.run("read_file", path="file")
        status = path.stat()
        path.write_text("0ld")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(ToolError, match="changed by somebody else"):
            bench.run("create_file", path="file", content="new", overwrite=True)
        assert path.read_text() == "0ld"

    def test_it_is_overwritten_after_it_was_read(self, bench: Bench) -> None:
        """The mode stays, and the user sees both texts."""
        path = bench.write("file", "one\ntwo\n")
        path.chmod(0o700)
        bench.run("read_file", path="file")
        outcome = bench.run("create_file", path="file", content="one\n2\n", overwrite=True)
        assert path.read_text() == "one\n2\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        change = change_of(outcome)
        assert (change.kind, change.old) == (ChangeKind.MODIFY, "one\ntwo\n")
        assert outcome.locations == (Location(str(path), 2),)
        assert bench.names() == ["file"]

    @pytest.mark.parametrize(
        ("old", "content", "new"),
        [
            (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n"),
            (b"a\r\nb\n", "c\nd\n", b"c\nd\n"),
            (b"a\r\n", "c\r\nd\n", b"c\r\nd\n"),
            (codecs.BOM_UTF8 + b"a", "b", codecs.BOM_UTF8 + b"b"),
            (codecs.BOM_UTF8 + b"a", "\ufeffb", codecs.BOM_UTF8 + b"b"),
            (b"caf\xe9", "th\xe9", b"th\xe9"),
        ],
        ids=["crlf", "mixed", "given-crlf", "bom", "given-bom", "latin-1"],
    )
    def test_it_keeps_its_style(self, bench: Bench, old: bytes, content: str, new: bytes) -> None:
        """Encoding, byte order mark and CRLF endings are the file's."""
        path = bench.write("file", old)
        bench.run("read_file", path="file")
        bench.run("create_file", path="file", content=content, overwrite=True)
        assert path.read_bytes() == new

    def test_a_binary_file_is_not_overwritten(self, bench: Bench) -> None:
        """It cannot be read as text, so it was never seen."""
        path = bench.write("file", b"a\0b")
        with pytest.raises(ToolError):
            bench.run("read_file", path="file")
        with pytest.raises(ToolError):
            bench.run("create_file", path="file", content="x", overwrite=True)
        assert path.read_bytes() == b"a\0b"

    def test_it_is_not_overwritten_after_only_a_part_was_read(self, bench: Bench) -> None:
        """An edit that matched is no read of the rest; a read of all lines is."""
        old = "".join(f"line {number}\n" for number in range(100))
        path = bench.write("file", old)
        for number in (1, 2):
            bench.run("read_file", path="file", start_line=3, end_line=4)
            with pytest.raises(ToolError, match="seen only in part; nothing was changed"):
                bench.run("create_file", path="file", content="new", overwrite=True)
            bench.replace("file", (f"line {number}\n", f"LINE {number}\n"))
        assert path.read_text() == old.replace("line 1\n", "LINE 1\n").replace(
            "line 2\n", "LINE 2\n"
        )
        bench.run("read_file", path="file", start_line=1, end_line=100)
        bench.run("create_file", path="file", content="new", overwrite=True)
        assert path.read_text() == "new"

    def test_it_is_not_overwritten_after_a_read_that_was_cut(self, bench: Bench) -> None:
        """The middle of a long file was not shown."""
        path = bench.write("file", "line\n" * 50_000)
        bench.run("read_file", path="file")
        with pytest.raises(ToolError, match="seen only in part"):
            bench.run("create_file", path="file", content="new", overwrite=True)
        assert path.read_text() == "line\n" * 50_000

    def test_a_marker_that_it_has_does_not_cover_for_a_hidden_credential(
        self, bench: Bench
    ) -> None:
        """The markers are counted."""
        path = bench.write("file", "A=[REDACTED]\nB=abcdefgh12345\n")
        bench.run("read_file", path="file")
        redacted = "A=[REDACTED]\nB=[REDACTED]\n"
        with pytest.raises(ToolError, match="stands for a credential"):
            bench.run("create_file", path="file", content=redacted, overwrite=True)
        assert path.read_text() == "A=[REDACTED]\nB=abcdefgh12345\n"

    def test_a_folder_is_not_overwritten(self, bench: Bench) -> None:
        """The error says what is there."""
        (bench.root / "sub").mkdir()
        with pytest.raises(ToolError, match="it is a folder"):
            bench.run("create_file", path="sub", content="x", overwrite=True)


@pytest.mark.parametrize("path", ["file/", "new/", "new/.", "/", "."])
@pytest.mark.parametrize("tool", ["create_file", "read_file"])
def test_a_path_that_ends_as_a_folder_does_is_refused(bench: Bench, tool: str, path: str) -> None:
    """Before anybody is asked, and whatever is there."""
    bench.write("file", "x")
    content = {"content": "y", "overwrite": True} if tool == "create_file" else {}
    with pytest.raises(ToolError, match="it is a folder; give the path of a file"):
        bench.plan(tool, path=path, **content)
    assert bench.names() == ["file"]


@pytest.mark.parametrize("there", [False, True])
def test_a_cancel_is_heard_before_the_file_is_written(bench: Bench, there: bool) -> None:
    """Neither a new nor an old file is touched then."""
    if there:
        bench.write("file", "old")
        bench.run("read_file", path="file")
    with pytest.raises(Cancelled):
        bench.run_cancelled_late("create_file", path="file", content="new", overwrite=True)
    assert bench.names() == (["file"] if there else [])
    assert not there or (bench.root / "file").read_text() == "old"
