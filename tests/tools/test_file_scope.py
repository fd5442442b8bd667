"""What an approved call may touch, and what it may not, whatever happens to the tree meanwhile."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from term2_acp.agent.cancel import Cancelled, CancelToken
from term2_acp.agent.ports import AccessMode, ToolError
from term2_acp.files import hard_links
from term2_acp.files.errors import AccessDenied, FileRefusedError
from term2_acp.files.folder import Entry, EntryKind
from term2_acp.files.ledger import Knowledge
from term2_acp.files.locks import PathLocks
from tests.tools.bench import Bench

LIMIT = 1 << 20
DEADLINE_S = 30

# In a process of its own, since the limit on the size of files holds for all of a process.
WRITE_TOO_MUCH = """
import resource, signal, sys
from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.ports import ToolError
from term2_acp.files.ledger import ReadLedger
from term2_acp.workspace import FileScope, Workspace

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
files = FileScope(Workspace(sys.argv[1]), ReadLedger(), lambda path, mode: True)
try:
    with files.edit(sys.argv[1] + "/file", limit=1 << 20, cancel=CancelToken()) as edit:
        edit.write(b"new" * 10_000)
except ToolError as error:
    print(error)
"""


def write(
    bench: Bench, path: Path | str, data: bytes, *, meanwhile: Callable[[], object] | None = None
) -> None:
    """Edit a file as the edit tools do; `meanwhile` happens between reading and writing."""
    with bench.files.edit(str(path), limit=LIMIT, cancel=bench.cancel) as edit:
        if meanwhile is not None:
            meanwhile()
        edit.write(data)


def read(bench: Bench, path: Path | str) -> bytes:
    return bench.files.read(str(path), limit=LIMIT)


def open_descriptors() -> set[str]:
    return set(os.listdir("/dev/fd"))


class TestWhatWasNotGranted:
    def test_nothing_of_it_can_be_reached(self, bench: Bench) -> None:
        """Reading, listing, looking and editing outside are all denied."""
        secret = bench.outside / "secret"
        secret.write_text("x")
        with pytest.raises(AccessDenied, match="not allowed to read"):
            read(bench, secret)
        with pytest.raises(AccessDenied):
            bench.files.stat(str(secret))
        with pytest.raises(AccessDenied):
            bench.files.open_folder(str(bench.outside))
        with pytest.raises(AccessDenied, match="not allowed to edit"):
            write(bench, secret, b"y")
        assert secret.read_text() == "x"

    def test_a_grant_to_read_allows_no_edit(self, bench: Bench) -> None:
        """The mode counts, not only the path."""
        path = bench.outside / "file"
        path.write_text("x")
        bench.grant(path, AccessMode.READ)
        assert read(bench, path) == b"x"
        with pytest.raises(AccessDenied):
            write(bench, path, b"y")

    def test_a_folder_in_an_open_folder_asks_again(self, bench: Bench) -> None:
        """What is met on the way down is not covered by the folder it was met in."""
        (bench.root / "sub").mkdir()
        bench.write("file", "x")
        folder = bench.files.open_folder(str(bench.root))
        try:
            bench.hidden = bench.root
            with pytest.raises(FileRefusedError, match="not among the paths"):
                folder.open("sub")
            with pytest.raises(FileRefusedError, match="not among the paths"):
                folder.read("file", limit=LIMIT)
        finally:
            folder.close()


class TestASwapAfterTheApproval:
    @pytest.mark.parametrize("swapped", ["sub", "sub/file"])
    def test_a_path_that_became_a_link_is_not_followed(self, bench: Bench, swapped: str) -> None:
        """Neither the file nor a folder of its path may be a link when it is opened."""
        bench.write("sub/file", "mine")
        (bench.outside / "file").write_text("secret")
        real = bench.workspace.resolve("sub/file")
        victim = bench.root / swapped
        victim.rename(bench.root / "moved")
        target = bench.outside if swapped == "sub" else bench.outside / "file"
        victim.symlink_to(target)

        with pytest.raises(ToolError):
            read(bench, real)
        with pytest.raises(ToolError):
            write(bench, real, b"overwritten")
        with pytest.raises(ToolError):
            bench.files.open_folder(real)
        assert (bench.outside / "file").read_text() == "secret"
        assert bench.names(bench.outside) == ["file"]

    def test_a_folder_that_became_a_link_is_not_listed(self, bench: Bench) -> None:
        """Neither by its path nor from the folder that holds it."""
        (bench.root / "sub").mkdir()
        real = bench.workspace.resolve("sub")
        (bench.root / "sub").rmdir()
        (bench.root / "sub").symlink_to(bench.outside)
        with pytest.raises(ToolError):
            bench.files.open_folder(real)
        folder = bench.files.open_folder(str(bench.root))
        try:
            with pytest.raises(NotADirectoryError):
                folder.open("sub")
        finally:
            folder.close()

    def test_a_swap_between_reading_and_writing_is_noticed(self, bench: Bench) -> None:
        """The folder becomes a link while the edit is made: nothing is written through it."""
        bench.write("sub/file", "mine")
        (bench.outside / "file").write_text("secret")
        real = bench.workspace.resolve("sub/file")

        def swap() -> None:
            (bench.root / "sub").rename(bench.root / "moved")
            (bench.root / "sub").symlink_to(bench.outside)

        with pytest.raises(ToolError, match="cannot write"):
            write(bench, real, b"overwritten", meanwhile=swap)
        assert (bench.outside / "file").read_text() == "secret"
        assert (bench.root / "moved" / "file").read_text() == "mine"

    def test_a_new_file_is_not_made_through_a_link(self, bench: Bench) -> None:
        """A folder that becomes a link gets no new file and no new folder behind it."""
        (bench.root / "sub").mkdir()
        real = bench.workspace.resolve("sub/new/file")
        (bench.root / "sub").rmdir()
        (bench.root / "sub").symlink_to(bench.outside)
        with pytest.raises(ToolError):
            write(bench, real, b"x")
        assert bench.names(bench.outside) == []


class TestReading:
    def test_what_is_no_regular_file_is_refused_at_once(self, bench: Bench) -> None:
        """A fifo that nobody writes to does not keep the call waiting."""
        os.mkfifo(bench.root / "fifo")
        with pytest.raises(ToolError, match="no regular file"):
            read(bench, bench.root / "fifo")

    def test_a_device_is_refused(self, bench: Bench) -> None:
        """Also when it was granted: reading it would never end."""
        bench.grant(Path("/dev/zero"), AccessMode.READ)
        with pytest.raises(ToolError, match="no regular file"):
            read(bench, "/dev/zero")

    def test_a_folder_is_called_a_folder(self, bench: Bench) -> None:
        """The error says what is there."""
        with pytest.raises(ToolError, match="it is a folder"):
            read(bench, bench.root)

    def test_a_missing_file_is_called_missing(self, bench: Bench) -> None:
        """Looking at it says None, reading it fails."""
        assert bench.files.stat(str(bench.root / "missing")) is None
        with pytest.raises(ToolError, match="no such file"):
            read(bench, bench.root / "missing")

    def test_a_file_over_the_limit_is_refused_whole(self, bench: Bench) -> None:
        """The limit itself is still read."""
        bench.write("file", b"x" * LIMIT)
        assert len(read(bench, bench.root / "file")) == LIMIT
        bench.write("file", b"x" * (LIMIT + 1))
        with pytest.raises(ToolError, match="larger than 1 MiB"):
            read(bench, bench.root / "file")

    def test_a_folder_lists_what_is_in_it_without_following(self, bench: Bench) -> None:
        """Links, folders and fifos are told apart."""
        bench.write("file", "x")
        (bench.root / "folder").mkdir()
        (bench.root / "link").symlink_to("folder")
        os.mkfifo(bench.root / "fifo")
        folder = bench.files.open_folder(str(bench.root))
        try:
            entries = set(folder.entries())
        finally:
            folder.close()
        assert entries == {
            Entry("file", EntryKind.FILE),
            Entry("folder", EntryKind.FOLDER),
            Entry("link", EntryKind.LINK),
            Entry("fifo", EntryKind.OTHER),
        }

    def test_no_descriptor_is_left_open(self, bench: Bench) -> None:
        """Neither by what works nor by what fails."""
        bench.write("a/b/file", "x")
        before = open_descriptors()
        read(bench, bench.root / "a" / "b" / "file")
        write(bench, bench.root / "a" / "b" / "file", b"y")
        write(bench, bench.root / "a" / "c" / "new", b"y")
        for path in ("a/b", "a/missing", "a/b/file/below"):
            with pytest.raises(ToolError):
                read(bench, bench.root / path)
        assert open_descriptors() == before


class TestWriting:
    def test_the_mode_stays(self, bench: Bench) -> None:
        """An executable script stays executable."""
        path = bench.write("run.sh", "old")
        path.chmod(0o4755)
        write(bench, path, b"new")
        assert path.read_bytes() == b"new"
        assert stat.S_IMODE(path.stat().st_mode) == 0o4755

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
    def test_the_owner_stays(self, bench: Bench) -> None:
        """A file of somebody else is still theirs after root edited it."""
        path = bench.write("theirs", "old")
        os.chown(path, 12345, 23456)
        write(bench, path, b"new")
        status = path.stat()
        assert (status.st_uid, status.st_gid) == (12345, 23456)

    @pytest.mark.skipif(not hasattr(os, "setxattr"), reason="Linux only")
    def test_extended_attributes_stay(self, bench: Bench) -> None:
        """Labels and access lists belong to the file, not to its content."""
        path = bench.write("labelled", "old")
        try:
            os.setxattr(path, "user.term2", b"label")
        except OSError:
            pytest.skip("this file system has no extended attributes")
        write(bench, path, b"new")
        assert os.getxattr(path, "user.term2") == b"label"

    def test_all_names_of_a_hard_linked_file_show_the_edit(self, bench: Bench) -> None:
        """The link between the names stays, so both show the new content."""
        path = bench.write("one", "a longer content than the new one")
        os.link(path, bench.root / "two")
        write(bench, path, b"new")
        assert (bench.root / "two").read_bytes() == b"new"
        assert path.stat().st_ino == (bench.root / "two").stat().st_ino
        assert bench.names() == ["one", "two"]

    def test_a_name_outside_is_not_reached_by_an_edit(self, bench: Bench) -> None:
        """The file becomes one of its own, with its mode; the other name keeps the content."""
        path = bench.write("one", "old")
        path.chmod(0o754)
        other = bench.outside / "other"
        os.link(path, other)
        os.link(path, bench.root / "inside")
        write(bench, path, b"new")
        assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o754)
        assert [other.read_bytes(), (bench.root / "inside").read_bytes()] == [b"old", b"old"]
        bench.grant(bench.outside, AccessMode.EDIT)
        write(bench, other, b"also granted")
        assert (bench.root / "inside").read_bytes() == b"also granted"

    def test_a_name_that_may_not_be_edited_is_not_reached(self, bench: Bench) -> None:
        """Also where it is in the workspace, as a protected path is."""
        path = bench.write("one", "old")
        bench.hidden = bench.root / "sub"
        bench.hidden.mkdir()
        os.link(path, bench.hidden / "hook")
        write(bench, path, b"new")
        assert (bench.hidden / "hook").read_bytes() == b"old"

    def test_a_search_for_names_that_is_too_long_finds_too_few(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Then no other name is reached."""
        monkeypatch.setattr(hard_links, "MOST_ENTRIES", 5)
        path = bench.write("z/one", "old")
        for number in range(9):
            bench.write(f"other{number}", "x")
        os.link(path, bench.root / "z/two")
        write(bench, path, b"new")
        assert (bench.root / "z/two").read_bytes() == b"old"

    def test_another_reader_keeps_the_old_content_until_it_opens_again(self, bench: Bench) -> None:
        """A file with one name is replaced as a whole, never half-written in place."""
        path = bench.write("file", "old")
        with path.open("rb") as reader:
            write(bench, path, b"new")
            assert reader.read() == b"old"
        assert path.read_bytes() == b"new"
        assert bench.names() == ["file"]

    def test_a_read_only_file_is_refused(self, bench: Bench) -> None:
        """Also for root, who could write it; nothing temporary is left."""
        path = bench.write("file", "old")
        path.chmod(0o444)
        with pytest.raises(ToolError, match="it is read-only"):
            write(bench, path, b"new")
        assert path.read_bytes() == b"old"
        assert bench.names() == ["file"]

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write into any folder")
    def test_a_writable_file_in_a_read_only_folder_is_edited_in_place(self, bench: Bench) -> None:
        """The user may write it, so the edit works, and leaves nothing behind."""
        path = bench.write("sub/file", "old content")
        path.parent.chmod(0o555)
        try:
            write(bench, path, b"new")
        finally:
            path.parent.chmod(0o755)
        assert path.read_bytes() == b"new"
        assert bench.names(path.parent) == ["file"]

    def test_a_new_file_gets_its_missing_folders(self, bench: Bench) -> None:
        """And the mode that any new file gets."""
        path = bench.root / "a" / "b" / "new"
        write(bench, path, b"x")
        assert path.read_bytes() == b"x"
        plain = bench.write("plain", "")
        assert path.stat().st_mode == plain.stat().st_mode
        assert path.stat().st_nlink == 1

    def test_folders_made_for_a_file_go_again_if_it_cannot_be_made(self, bench: Bench) -> None:
        """A failed call leaves the tree as it was."""
        path = bench.root / "a" / "b" / ("x" * 300)
        with pytest.raises(ToolError, match=os.strerror(errno.ENAMETOOLONG)):
            write(bench, path, b"x")
        assert bench.names() == []

    def test_a_file_made_by_somebody_else_meanwhile_is_not_overwritten(self, bench: Bench) -> None:
        """The edit began when there was none, so it fails."""
        path = bench.root / "new"
        with pytest.raises(ToolError, match="it exists already"):
            write(bench, path, b"mine", meanwhile=lambda: path.write_text("theirs"))
        assert path.read_text() == "theirs"
        assert bench.names() == ["new"]

    @pytest.mark.parametrize("replaced", [True, False])
    def test_a_file_changed_by_somebody_else_meanwhile_is_not_overwritten(
        self, bench: Bench, replaced: bool
    ) -> None:
        """Neither when they wrote into it nor when they put another file in its place."""
        path = bench.write("file", "old")

        def change() -> None:
            if replaced:
                path.unlink()
            path.write_text("theirs, longer")

        with pytest.raises(ToolError, match="changed by somebody else"):
            write(bench, path, b"mine", meanwhile=change)
        assert path.read_text() == "theirs, longer"
        assert bench.names() == ["file"]

    @pytest.mark.parametrize("names", [("file",), ("file", "linked")])
    def test_a_full_disk_leaves_the_old_content(self, bench: Bench, names: tuple[str, ...]) -> None:
        """Neither half of the new content nor a temporary file is left."""
        old = b"old " * 1000
        path = bench.write("file", old)
        for name in names[1:]:
            os.link(path, bench.root / name)
        finished = subprocess.run(
            [sys.executable, "-c", WRITE_TOO_MUCH, str(bench.root)],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            timeout=DEADLINE_S,
            check=False,
        )
        assert finished.stdout == f"cannot write file: {os.strerror(errno.EFBIG)}.\n", finished
        assert path.read_bytes() == old
        assert bench.names() == list(names)

    def test_what_was_written_is_known_to_the_session(self, bench: Bench) -> None:
        """The session's own edit is no change by somebody else."""
        path = bench.write("file", "old")
        bench.ledger.record(str(path), b"old")
        write(bench, path, b"new")
        assert bench.ledger.compare(str(path), b"new") is Knowledge.CURRENT

    @pytest.mark.parametrize("seen", [False, True])
    def test_writing_a_file_that_was_not_seen_whole_does_not_make_it_known(
        self, bench: Bench, seen: bool
    ) -> None:
        """An edit shows nothing of the rest of the file."""
        path = bench.write("file", "old")
        if seen:
            bench.ledger.record(str(path), b"old", whole=False)
        write(bench, path, b"new")
        assert bench.ledger.compare(str(path), b"new") is Knowledge.PARTIAL


class TestTheLedger:
    def test_content_decides_not_time(self, bench: Bench) -> None:
        """A touched file is unchanged; one of the same size is changed if a byte differs."""
        bench.ledger.record("/f", b"one")
        assert bench.ledger.compare("/f", b"one") is Knowledge.CURRENT
        assert bench.ledger.compare("/f", b"two") is Knowledge.STALE
        assert bench.ledger.compare("/g", b"one") is Knowledge.UNSEEN

    def test_a_part_is_not_the_whole(self, bench: Bench) -> None:
        """But who saw the whole before still knows it, unless it changed."""
        bench.ledger.record("/f", b"one", whole=False)
        assert bench.ledger.compare("/f", b"one") is Knowledge.PARTIAL
        assert bench.ledger.compare("/f", b"two") is Knowledge.STALE
        bench.ledger.record("/f", b"one")
        bench.ledger.record("/f", b"one", whole=False)
        assert bench.ledger.compare("/f", b"one") is Knowledge.CURRENT
        bench.ledger.record("/f", b"two", whole=False)
        assert bench.ledger.compare("/f", b"two") is Knowledge.PARTIAL


class TestTheRootOfTheSystem:
    def test_it_is_told_to_be_a_folder(self, bench: Bench) -> None:
        """No folder holds it, which is no reason to break."""
        bench.grant(Path("/"), AccessMode.READ)
        bench.grant(Path("/"), AccessMode.EDIT)
        with pytest.raises(ToolError, match="cannot read /: it is a folder"):
            read(bench, "/")
        with pytest.raises(ToolError, match="cannot edit /: it is a folder"):
            write(bench, "/", b"x")


class TestTheEditLock:
    def test_a_second_editor_waits_for_the_first(self) -> None:
        """While one holds a path, another gets it only afterwards; other paths are free."""
        locks = PathLocks()
        order: list[str] = []
        waiting = CancelToken()

        def second() -> None:
            with locks.hold("/f", waiting):
                order.append("second")

        thread = threading.Thread(target=second, name="second-editor")
        with locks.hold("/f", CancelToken()):
            thread.start()
            with locks.hold("/other", CancelToken()):
                order.append("first")
        thread.join(DEADLINE_S)
        assert order == ["first", "second"]

    def test_a_cancel_ends_the_wait(self) -> None:
        """Whoever waits for a file is not stuck behind another session."""
        locks = PathLocks()
        cancel = CancelToken()
        ended = threading.Event()

        def wait() -> None:
            with pytest.raises(Cancelled), locks.hold("/f", cancel):
                pass
            ended.set()

        thread = threading.Thread(target=wait, name="waiting-editor")
        with locks.hold("/f", CancelToken()):
            thread.start()
            cancel.cancel()
            assert ended.wait(DEADLINE_S)
        thread.join(DEADLINE_S)

    def test_edits_of_two_sessions_do_not_get_lost(self, bench: Bench) -> None:
        """Every one of many concurrent read-and-append edits is in the file at the end."""
        path = bench.write("file", "")
        other = Bench(bench.root, bench.outside)
        rounds = 40

        def edit_often(session: Bench) -> None:
            for _ in range(rounds):
                with session.files.edit(str(path), limit=LIMIT, cancel=session.cancel) as edit:
                    assert edit.state is not None
                    edit.write(edit.state.data + b"x")

        threads = [
            threading.Thread(target=edit_often, args=(session,), name=f"session-{index}")
            for index, session in enumerate((bench, other))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert path.read_bytes() == b"x" * (2 * rounds)
