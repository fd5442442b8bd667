"""apply_patch: several files change, all or none, and nothing else of them does."""

from __future__ import annotations

import os
import stat
import threading
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from term2_acp.agent.cancel import Cancelled
from term2_acp.agent.ports import (
    Access,
    AccessMode,
    ChangeKind,
    DiffContent,
    Location,
    ToolError,
    ToolOutcome,
)
from term2_acp.files.locks import EDIT_LOCKS
from term2_acp.redaction import MARKER
from tests.tools.bench import Bench

DEADLINE_S = 30


def create(path: str, diff: str | None) -> dict[str, Any]:
    return {"type": "create_file", "path": path, "diff": diff}


def update(path: str, diff: str | None) -> dict[str, Any]:
    return {"type": "update_file", "path": path, "diff": diff}


def delete(path: str, diff: str | None = None) -> dict[str, Any]:
    return {"type": "delete_file", "path": path, "diff": diff}


def patch(bench: Bench, *operations: dict[str, Any]) -> ToolOutcome:
    return bench.run("apply_patch", operations=list(operations))


def tree(root: Path) -> dict[str, Any]:
    """Everything below a folder: names, contents and modes."""
    found: dict[str, Any] = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = Path(folder, name)
            status = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
            found[str(path.relative_to(root))] = (stat.S_IMODE(status.st_mode), content)
    return found


class TestOneCall:
    def test_creates_updates_and_deletes(self, bench: Bench) -> None:
        """All at once; the user is shown every change and where it is."""
        bench.write("a.txt", "one\ntwo\nthree\n")
        bench.write("b.txt", "gone\n")
        outcome = patch(
            bench,
            update("a.txt", " two\n-three\n+THREE\n@@\n"),
            create("new/deep/c.txt", "+first\n+second\n"),
            delete("b.txt"),
        )
        assert outcome.text == (
            "The patch is applied: updated a.txt (1 hunk), created new/deep/c.txt, deleted b.txt."
        )
        assert (bench.root / "a.txt").read_text() == "one\ntwo\nTHREE\n"
        assert (bench.root / "new/deep/c.txt").read_text() == "first\nsecond\n"
        assert bench.names() == ["a.txt", "new"]
        (content,) = outcome.content
        assert isinstance(content, DiffContent)
        assert [(change.kind, change.old, change.new) for change in content.changes] == [
            (ChangeKind.MODIFY, "one\ntwo\nthree\n", "one\ntwo\nTHREE\n"),
            (ChangeKind.ADD, None, "first\nsecond\n"),
            (ChangeKind.DELETE, "gone\n", None),
        ]
        root = str(bench.root)
        assert outcome.locations == (
            Location(f"{root}/a.txt", 3),
            Location(f"{root}/new/deep/c.txt", 1),
            Location(f"{root}/b.txt", 1),
        )

    def test_the_plan_names_every_file_for_editing(self, bench: Bench) -> None:
        """In one request, whatever is to happen with them."""
        plan = bench.plan(
            "apply_patch", operations=[delete("a"), create("x/b", "+1\n"), update("../c", "-1\n")]
        )
        paths = [f"{bench.root}/a", f"{bench.root}/x/b", str(bench.root.parent / "c")]
        assert plan.accesses == tuple(Access(path, AccessMode.EDIT) for path in paths)
        assert plan.locations == tuple(Location(path) for path in paths)
        assert plan.title == f"Patch 3 files: a, x/b, {paths[2]}"
        assert bench.plan("apply_patch", operations=[delete("a")]).title == "Delete a"

    @pytest.mark.parametrize(
        ("before", "diff", "after"),
        [
            (b"a\r\nb\r\n", "-b\n+c\n+d\n", b"a\r\nc\r\nd\r\n"),
            (b"a\nb\r\nc", "-a\n+A\n b\n", b"A\nb\r\nc"),
            (b"\xef\xbb\xbfconst a=1;\n", "-const a=1;\n+let a=1;\n", b"\xef\xbb\xbflet a=1;\n"),
            (b"\xef\xbb\xbfa\n", "-\ufeffa\n+\ufeffb\n", b"\xef\xbb\xbfb\n"),
            ("a\r\nü\r\n".encode("utf-16"), "-ü\n+ö\n", "a\r\nö\r\n".encode("utf-16")),
            (b"x = 1\n// caf\xe9\n", "-x = 1\n+x = 2\n", b"x = 2\n// caf\xe9\n"),
            (b"// caf\xe9\n", "-// café\n+// thé\n", b"// th\xe9\n"),
            ("é ".encode() + b"\xe9\na\n", "-a\n+b\n", "é ".encode() + b"\xe9\nb\n"),
            (b"", "+first\n", b"first\n"),
            (b"a", "-a\n", b""),
            (b"a\nb\n", "-b\n+b\n\\ No newline at end of file\n", b"a\nb"),
        ],
    )
    def test_the_bytes_of_the_file_stay(
        self, bench: Bench, before: bytes, diff: str, after: bytes
    ) -> None:
        """Encoding, byte order mark, line endings, final newline and mode."""
        path = bench.write("f", before)
        path.chmod(0o751)
        patch(bench, update("f", diff))
        assert path.read_bytes() == after
        assert stat.S_IMODE(path.stat().st_mode) == 0o751
        assert bench.names() == ["f"]

    def test_a_link_stays_and_a_hard_link_shows_the_new_text(self, bench: Bench) -> None:
        """An edit by the name of a link changes what it leads to, which is what was judged."""
        real = bench.write("real", "a\n")
        os.link(real, bench.root / "hard")
        (bench.root / "soft").symlink_to("real")
        patch(bench, update("soft", "-a\n+b\n"))
        assert (bench.root / "hard").read_text() == "b\n"
        assert os.readlink(bench.root / "soft") == "real"
        patch(bench, delete("hard"))
        assert (real.read_text(), bench.names()) == ("b\n", ["real", "soft"])

    def test_a_link_is_not_deleted_in_place_of_what_it_leads_to(self, bench: Bench) -> None:
        """Nor the other way round: what is meant has to be said."""
        bench.write("real", "a\n")
        (bench.root / "soft").symlink_to("real")
        with pytest.raises(ToolError, match=r"operations\[0\].path is a symbolic link to real"):
            patch(bench, delete("soft"))
        assert bench.names() == ["real", "soft"]

    def test_an_empty_file_is_created_from_an_empty_diff(self, bench: Bench) -> None:
        """But not from none, which is one that was forgotten."""
        patch(bench, create("empty", ""), create("bare", "+no newline\n\\ No newline\n"))
        assert (bench.root / "empty").read_bytes() == b""
        assert (bench.root / "bare").read_bytes() == b"no newline"

    def test_a_file_that_was_patched_is_known(self, bench: Bench) -> None:
        """It can be patched and overwritten again, until somebody else changes it."""
        path = bench.write("f", "a\n")
        patch(bench, update("f", "-a\n+b\n"), create("g", "+a\n"))
        patch(bench, update("f", "-b\n+c\n"), update("g", "-a\n+b\n"))
        path.write_text("mine\n")
        with pytest.raises(ToolError, match="f was changed by somebody else"):
            patch(bench, update("f", "-mine\n+yours\n"))
        with pytest.raises(ToolError, match="f was changed by somebody else"):
            patch(bench, delete("f"))
        assert path.read_text() == "mine\n"

    def test_a_diff_of_a_deletion_must_remove_everything(self, bench: Bench) -> None:
        """It is checked like any other."""
        bench.write("f", "a\nb\n")
        with pytest.raises(ToolError, match="does not remove every line of f"):
            patch(bench, delete("f", "-a\n"))
        with pytest.raises(ToolError, match="does not apply to f: hunk 1 does not fit"):
            patch(bench, delete("f", "-a\n-c\n"))
        patch(bench, delete("f", "-a\n-b\n"))
        assert bench.names() == []


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("operations", "told"),
        [
            ([], "operations is empty"),
            ([delete("f")] * 101, "more than 100 items"),
            ([update("f", "-a\n+b\n"), delete("./f")], r"operations\[1\].path is the same file as"),
            ([update("f", "-a\n+b\n"), delete("link")], r"operations\[1\].path is the same file"),
            ([update("f", None)], r"operations\[0\].diff is missing; update_file needs one"),
            ([create("n", None)], r"operations\[0\].diff is missing; create_file needs one"),
            ([update("f", "")], r"operations\[0\].diff cannot be read: it has no lines"),
            ([update("f", "x\n")], r"operations\[0\].diff cannot be read: line 1 is no line"),
            ([create("n", "+a\n b\n")], "every line of a new file must begin with"),
            ([create("n", "+a\n@@\n+b\n")], "only one hunk"),
            ([create("", "+a\n")], "path is empty"),
            ([create("n/", "+a\n")], "says by its ending that it is a folder"),
            ([create("f", "+a\n")], "cannot create f: it exists already"),
            ([create("d", "+a\n")], "cannot edit d: it is a folder"),
            ([update("n", "-a\n+b\n")], "there is no file n; nothing was changed. Use create_file"),
            ([delete("n")], "there is no file n"),
            ([update("f", "-x\n+y\n")], "does not apply to f: hunk 1 does not fit"),
            ([update("f", "-a\n+a\n")], "leaves f as it is"),
            ([update("bin", "-a\n+b\n")], "cannot patch bin: it is binary"),
            ([delete("bin")], "cannot patch bin: it is binary"),
            ([update("read-only", "-a\n+b\n")], "cannot write read-only: it is read-only"),
            ([delete("read-only")], "cannot delete read-only: it is read-only"),
            ([update("latin", "-é\n+€\n+\u0416\n")], "cannot patch latin: it is stored as cp1252"),
            ([update("f", f"-a\n+{MARKER}\n")], "stands for a credential"),
            ([create("n", f"+key = {MARKER}\n")], "stands for a credential"),
        ],
    )
    @pytest.mark.parametrize("place", ["alone", "last", "first"])
    def test_all_files_stay_as_they_are(
        self, bench: Bench, operations: list[dict[str, Any]], told: str, place: str
    ) -> None:
        """Whatever is wrong with one operation, wherever it stands among good ones."""
        bench.write("f", "a\n")
        bench.write("d/other", "o\n")
        bench.write("bin", b"a\0\n")
        bench.write("latin", b"\xe9\n")
        bench.write("read-only", "a\n").chmod(0o444)
        (bench.root / "link").symlink_to("f")
        good = [create("made/x", "+x\n"), update("d/other", "-o\n+O\n")]
        before = tree(bench.root)
        index = len(good) if place == "last" else 0
        if operations and place == "last":
            told = told.replace(r"[1\]", rf"[{index + 1}\]").replace(r"[0\]", rf"[{index}\]")
            operations = good + operations
        elif operations and place == "first":
            operations = operations + good
        with pytest.raises(ToolError, match=told):
            patch(bench, *operations)
        assert tree(bench.root) == before

    def test_a_path_that_was_not_granted(self, bench: Bench) -> None:
        """Of any operation."""
        (bench.outside / "f").write_text("a\n")
        before = tree(bench.outside)
        for operation in (
            create("../outside/n", "+a\n"),
            update("../outside/f", "-a\n+b\n"),
            delete("../outside/f"),
        ):
            with pytest.raises(ToolError, match="not allowed to edit"):
                patch(bench, create("n", "+n\n"), operation)
        assert tree(bench.outside) == before
        assert bench.names() == []
        bench.grant(bench.outside / "f", AccessMode.EDIT)
        patch(bench, delete("../outside/f"))
        assert bench.names(bench.outside) == []

    def test_a_marker_that_is_in_the_file_may_be_moved(self, bench: Bench) -> None:
        """It is the file's own text then."""
        bench.write("f", f"{MARKER}\n")
        patch(bench, update("f", f"-{MARKER}\n+x {MARKER}\n"))
        assert (bench.root / "f").read_text() == f"x {MARKER}\n"


class TestAFailureOnTheWay:
    def test_what_was_written_is_put_back(self, bench: Bench) -> None:
        """
        The last file cannot be written: new files and folders go, old contents and deleted
        files come back, with their modes, and the session knows nothing new.
        """
        bench.write("a", "a\n").chmod(0o640)
        gone = bench.write("gone", "g\n")
        gone.chmod(0o700)
        os.link(gone, bench.root / "other-name")
        before = tree(bench.root)
        # A file where a folder is to be made is found out only when it is.
        with pytest.raises(ToolError, match="cannot write new/x/y"):
            patch(
                bench,
                update("a", "-a\n+b\n"),
                delete("gone"),
                create("new/x", "+1\n"),
                create("new/x/y", "+2\n"),
            )
        assert tree(bench.root) == before
        assert os.path.samefile(gone, bench.root / "other-name")
        with pytest.raises(ToolError, match="a was never read"):
            bench.run("create_file", path="a", content="x", overwrite=True)

    def test_what_somebody_else_did_meanwhile_is_not_overwritten(self, bench: Bench) -> None:
        """A second name of a file is changed by the first operation, so the second fails."""
        bench.write("one", "a\n")
        os.link(bench.root / "one", bench.root / "two")
        with pytest.raises(ToolError, match="cannot write two: it was changed by somebody else"):
            patch(bench, update("one", "-a\n+b\n"), update("two", "-a\n+c\n"))
        assert (bench.root / "two").read_text() == "a\n"

    def test_who_writes_at_once_to_what_was_just_made_makes_no_failure(self, bench: Bench) -> None:
        """A formatter that an editor starts on each save, say: the files are all made."""
        names = [f"f{number}" for number in range(100)]
        over = threading.Event()

        def format_on_save() -> None:
            for name in names:
                while not over.is_set():
                    with suppress(FileNotFoundError):
                        descriptor = os.open(bench.root / name, os.O_WRONLY | os.O_APPEND)
                        os.write(descriptor, b"formatted\n")
                        os.close(descriptor)
                        break

        formatter = threading.Thread(target=format_on_save, name="formatter")
        formatter.start()
        try:
            for name in names:
                patch(bench, create(name, "+made\n"))
        finally:
            over.set()
            formatter.join()
        assert set(names) == {path.name for path in bench.root.iterdir()}

    def test_a_cancel_while_another_session_edits(self, bench: Bench) -> None:
        """Nothing is changed, and the locks are free again."""
        bench.write("a", "a\n")
        bench.write("b", "b\n")
        with EDIT_LOCKS.hold(str(bench.root / "b"), bench.cancel):
            timer = threading.Timer(0.1, bench.cancel.cancel)
            timer.name = "test-cancel"
            timer.start()
            with pytest.raises(Cancelled):
                patch(bench, update("b", "-b\n+B\n"), update("a", "-a\n+A\n"))
            timer.join()
        assert {path.read_text() for path in bench.root.iterdir()} == {"a\n", "b\n"}

    def test_calls_that_share_files_do_not_wait_for_each_other(self, bench: Bench) -> None:
        """However they name them, every call ends and no change is lost."""
        bench.write("a", "0\n")
        bench.write("b", "0\n")
        names = [["a", "b"], ["b", "a"]] * 4

        def bump(order: list[str]) -> None:
            session = Bench(bench.root, bench.outside)
            while True:
                number = int((bench.root / "a").read_text())
                diff = f"-{number}\n+{number + 1}\n"
                try:
                    patch(session, *(update(name, diff) for name in order))
                except ToolError:
                    session = Bench(bench.root, bench.outside)
                else:
                    return

        threads = [
            threading.Thread(target=bump, args=(order,), name="test-patch", daemon=True)
            for order in names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert not any(thread.is_alive() for thread in threads)
        assert {(bench.root / name).read_text() for name in "ab"} == {f"{len(names)}\n"}


LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=5)


class TestAgainstAReference:
    @settings(
        deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(st.data())
    def test_a_script_of_patches(self, bench: Bench, data: st.DataObject) -> None:
        """
        Random calls on few names, many of them wrong: after each the files are as the model
        says, changed whole if the call succeeded and untouched if it failed.
        """
        session = Bench(bench.root, bench.outside)
        for path in bench.root.iterdir():
            path.unlink()
        model: dict[str, str] = {}
        for _ in range(data.draw(st.integers(1, 5))):
            wanted = dict(model)
            fits = True
            operations = []
            for name in data.draw(st.lists(st.sampled_from("xyz"), min_size=1, unique=True)):
                kind = data.draw(st.sampled_from(["create", "update", "update", "delete"]))
                lines = data.draw(LINES)
                if kind == "create":
                    operations.append(create(name, "".join(f"+{line}\n" for line in lines)))
                    wanted[name] = "".join(f"{line}\n" for line in lines)
                    fits &= name not in model
                elif kind == "update":
                    old = model.get(name, "z\n").split("\n")[:-1]
                    body = [f"-{line}\n" for line in old] + [f"+{line}\n" for line in lines]
                    operations.append(update(name, "".join(body)))
                    wanted[name] = "".join(f"{line}\n" for line in lines)
                    fits &= name in model and model[name] != wanted[name]
                else:
                    fits &= name in model
                    operations.append(delete(name))
                    wanted.pop(name, None)
            with nullcontext() if fits else pytest.raises(ToolError):
                patch(session, *operations)
            model = wanted if fits else model
            assert {path.name: path.read_text() for path in bench.root.iterdir()} == model
