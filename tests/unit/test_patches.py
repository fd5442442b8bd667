"""Patches: git itself makes the new texts of the old ones."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from term2_acp.agent.ports import FileChange
from term2_acp.files import descent
from term2_acp.files.ledger import ReadLedger
from term2_acp.files.scope import FileEdit
from term2_acp.files.text import decode_text
from term2_acp.handlers import difference
from term2_acp.handlers.patches import git_patch
from term2_acp.tools.changes import file_change

ROOT = Path(__file__).resolve().parents[2]
LINES = st.lists(
    st.sampled_from(
        ["a", "b", "c", "", " ", "é🙂", "\u2028x", "\x0c", "\t", "-a", "+b", "@@ -1 +1 @@", "\\ No"]
    ),
    max_size=30,
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
TEXTS = st.builds(
    lambda lines, end, last: end.join(lines) + (end if last else ""), LINES, ENDS, st.booleans()
)


@st.composite
def edits(draw):
    """A text and what it became: small edits of a long one, or anything."""
    old = draw(TEXTS)
    if draw(st.booleans()):
        return old, draw(TEXTS)
    lines = old.split("\n") + [f"line {number}" for number in range(draw(st.integers(0, 40)))]
    changed = list(lines)
    for place in draw(st.lists(st.integers(0, len(lines) - 1), max_size=4)):
        changed[place : place + draw(st.integers(0, 2))] = draw(
            st.lists(st.sampled_from(["new", "line 3", ""]), max_size=2)
        )
    return "\n".join(lines), "\n".join(changed)


def git_apply(patch, folder):
    """Let git apply the bytes of a patch; what it warned of."""
    done = subprocess.run(
        ["git", "apply", "--unsafe-paths", "-p0", "--whitespace=nowarn", "-"],
        input=patch,
        cwd=folder,
        capture_output=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": folder, "GIT_CEILING_DIRECTORIES": "/"},
    )
    assert done.returncode == 0, f"{done.stderr.decode()}\n{patch!r}"
    return done.stderr.decode()


def applied(changes, folder):
    """What git makes of the old texts: the text of each path that is there afterwards."""
    for change in changes:
        if change.old is not None:
            Path(change.path).write_bytes(change.old.encode())
    patch = git_patch(changes).encode()
    if patch:
        git_apply(patch, folder)
    return {
        change.path: Path(change.path).read_bytes().decode()
        for change in changes
        if os.path.exists(change.path)
    }


def wanted(changes):
    """The same by the changes themselves."""
    return {change.path: change.new for change in changes if change.new is not None}


@settings(deadline=None, max_examples=60)
@given(edits())
def test_git_makes_the_new_text_of_the_old_one(edit):
    """Whatever the line ends are, with and without a final newline, from and to nothing."""
    old, new = edit
    with tempfile.TemporaryDirectory() as folder:
        changes = [FileChange(os.path.join(folder, "file.txt"), old, new)] if old != new else []
        assert wanted(changes) == applied(changes, folder)


@settings(deadline=None, max_examples=20)
@given(TEXTS.filter(bool), TEXTS.filter(bool), edits().filter(lambda edit: edit[0] != edit[1]))
def test_files_are_added_changed_and_deleted_in_one_patch(added, deleted, edit):
    """One section a file, and nothing of one runs into the next."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        changes = [
            FileChange(f"{path} added", None, added),
            FileChange(f"{path} changed", *edit),
            FileChange(f"{path} deleted", deleted, None),
        ]
        assert wanted(changes) == applied(changes, folder)


NAMES = [
    "plain",
    "with space",
    " at both ends ",
    'quo"ted',
    "back\\slash",
    "tab\there",
    "line\nfeed",
    "bell\x07",
    "delete\x7f",
    "ünïcödé🙂",
    "line\u2028separator",
    "a b/dev/null",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("old", "new"), [("a\n", "b\n"), (None, "b\n"), ("a\n", None)], ids=["modify", "add", "delete"]
)
def test_any_name_of_a_file_is_understood(tmp_path, name, old, new):
    """It is quoted as git does it where it has to be, and absolute."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    changes = [FileChange(str(path), old, new)]
    assert wanted(changes) == applied(changes, str(tmp_path))


@pytest.mark.parametrize(("old", "new"), [(None, ""), ("", None)], ids=["add", "delete"])
def test_an_empty_file_can_be_added_and_deleted(tmp_path, old, new):
    """A section without hunks still says which file it is."""
    changes = [FileChange(str(tmp_path / "empty"), old, new)]
    assert wanted(changes) == applied(changes, str(tmp_path))


def test_a_change_that_changes_nothing_has_no_section():
    """As the docstring of `git_patch` says."""
    assert "" == git_patch([FileChange("/file", "same\n", "same\n")])


LONG = [f"line {number}\n" for number in range(9000)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LONG, [line.upper() for line in LONG]),
        (LONG, ["first\n", *(line.upper() for line in LONG[:8500]), *LONG[8500:]]),
        (LONG[:10] + LONG, LONG[:10] + [line.upper() for line in LONG] + ["last"]),
        ([], LONG),
        (LONG, []),
        (LONG, LONG[:4] + LONG[-4:]),
        (LONG[:4] + LONG[-4:], LONG),
        (LONG, [*LONG[:-1], "no final newline"]),
        (["same\n"] * 5, ["same\n"] * 9000),
        (["same\n"] * 9000, ["same\n"] * 5),
    ],
)
def test_a_large_change_is_right_too(tmp_path, old, new):
    """Past the lines that are compared one by one, the changed region is replaced whole."""
    changes = [FileChange(str(tmp_path / "file"), "".join(old), "".join(new))]
    assert wanted(changes) == applied(changes, str(tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "header"),
    [
        (None, "a\n", "@@ -0,0 +1,1 @@"),
        ("a\n", None, "@@ -1,1 +0,0 @@"),
        ("", "a\nb", "@@ -0,0 +1,2 @@"),
        ("a\nb\nc\nd\ne\n", "a\nb\nc\nd\nX\n", "@@ -2,4 +2,4 @@"),
    ],
)
def test_an_empty_range_names_the_line_before_it(old, new, header):
    """As in every unified diff; editors place the hunk by it."""
    assert header in git_patch([FileChange("/file", old, new)]).splitlines()


def test_a_small_change_of_a_large_file_is_a_small_patch():
    """What is far from it is not told."""
    new = [*LONG[:4500], "changed\n", *LONG[4501:]]
    patch = git_patch([FileChange("/file", "".join(LONG), "".join(new))])
    assert len(patch.splitlines()) < 20


SLOW = """
from term2_acp.agent.ports import FileChange
from term2_acp.handlers import difference
from term2_acp.handlers.patches import git_patch
old = "x\\n" + "".join("0,0\\n" if n % 7 else f"{n}\\n" for n in range(1500))
new = "".join("0,0\\n" if n % 7 else f"{n + 1}\\n" for n in range(1500))
assert git_patch([FileChange("/data.csv", old, new)])
"""


def test_changes_that_are_far_apart_are_hunks_of_their_own(tmp_path):
    """Also where the text between them is too long to be matched line by line."""
    old = "".join(f"def f{number}():\n    return 1\n\n" for number in range(20_000))
    new = old.replace("f7()", "g7()").replace("f19000():\n", "f19000():\n    pass\n")
    moved = new.replace("def f500():\n", "def f501():\n", 1)
    for text, hunks in ((new, 2), (moved, 3)):
        changes = [FileChange(str(tmp_path / "file"), old, text)]
        assert wanted(changes) == applied(changes, str(tmp_path))
        patch = git_patch(changes)
        assert (patch.count("\n@@ "), len(patch.splitlines()) < 40) == (hunks, True)


@settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(edits(), st.sampled_from([0, 30, 200]))
def test_any_texts_differ_as_the_opcodes_say(monkeypatch, edit, cost):
    """However little is matched line by line: equal is equal, and nothing is left out."""
    monkeypatch.setattr(difference, "_MATCHING_COST", cost)
    old, new = (text.split("\n") for text in edit)
    i = j = 0
    last = None
    for tag, i1, i2, j1, j2 in difference.opcodes(old, new):
        assert (i, j) == (i1, j1)
        assert (old[i1:i2] == new[j1:j2]) is (tag == "equal")
        assert (tag == "equal") != last
        i, j, last = i2, j2, tag == "equal"
    assert (i, j) == (len(old), len(new))


def test_lines_that_repeat_do_not_stop_the_session():
    """A table of 1500 rows is compared within the second that a cancel has."""
    subprocess.run([sys.executable, "-c", SLOW], cwd=ROOT, timeout=4, check=True)


def change_of_bytes(path, old, new):
    """The change that the tools describe for a file, from its bytes; None for no file."""
    state = None
    if old is not None:
        path.write_bytes(old)
        with descent.open_parent(str(path)) as (folder, name):
            state = descent.read_regular(folder, name, limit=1 << 30)
    edit = FileEdit(str(path), state, path.name, in_place=False, ledger=ReadLedger())
    before = None if old is None else decode_text(old)
    return file_change(edit, before, None if new is None else decode_text(new).text, lambda _, t: t)


BOM = b"\xef\xbb\xbf"
MANY = b"".join(b"line %d\n" % number for number in range(200_000))
BYTES = [
    (BOM + b"a\nb\n", BOM + b"A\nb\n", "utf-8"),
    (BOM + b"a\nb", BOM + b"a\nB", "utf-8"),
    (BOM + b"a\n", BOM, "utf-8"),
    (BOM + b"a\n", None, "utf-8"),
    (b"caf\xe9\na\n", b"caf\xe9\nb\n", "cp1252"),
    (b"caf\xe9\n", None, "cp1252"),
    (b"a\r\nb\r\n", b"a\r\nB\r\n", "utf-8"),
    (MANY, MANY.replace(b"line 7\n", b"seven\n"), "utf-8"),
    (MANY, MANY.replace(b"line 123456\n", b"b\n"), "utf-8"),
    (MANY, MANY.replace(b"line 123456\n", b""), "utf-8"),
    (MANY, MANY.replace(b"line 123\n", b"x\n").replace(b"line 150\n", b""), "utf-8"),
    (MANY, MANY.replace(b"line 9\n", b"").replace(b"line 30000\n", b"x\ny\n"), "utf-8"),
    (MANY, MANY[:-1], "utf-8"),
    (MANY, b"first\n" + MANY, "utf-8"),
    (MANY, MANY + b"last", "utf-8"),
    (BOM + MANY, BOM + MANY[1:], "utf-8"),
    (BOM + MANY, BOM + MANY[:-9], "utf-8"),
]


@pytest.mark.parametrize(("old", "new", "encoding"), BYTES)
def test_git_makes_the_new_bytes_of_the_true_old_file(tmp_path, old, new, encoding):
    """With a byte order mark, in one byte a character, and of large files the region only."""
    path = tmp_path / "file"
    change = change_of_bytes(path, old, new)
    patch = git_patch([change])
    assert len(patch) < 2000
    git_apply(patch.encode(encoding), str(tmp_path))
    assert (path.read_bytes() if path.exists() else None) == new


def test_a_deleted_program_is_deleted_with_its_mode(tmp_path):
    """There is nothing for git to warn of."""
    path = tmp_path / "run.sh"
    path.write_bytes(b"true\n")
    path.chmod(0o755)
    change = change_of_bytes(path, b"true\n", None)
    assert "deleted file mode 100755\n" in git_patch([change])
    assert git_apply(git_patch([change]).encode(), str(tmp_path)) == ""
    assert not path.exists()


@pytest.mark.parametrize("new", [None, "y" * (5 << 20), "y\n" * (3 << 20)])
def test_what_is_too_much_to_be_shown_is_left_out(tmp_path, new):
    """A file of one line, or one that is other throughout; it says how much."""
    old = b"x" * (5 << 20)
    change = change_of_bytes(tmp_path / "file", old, None if new is None else new.encode())
    assert (change.old, change.new) == ("", None if new is None else "")
    assert change.left_out == len(old) + len(new or "")


def test_the_changed_region_has_whole_lines_and_where_they_begin(tmp_path):
    """Three lines around the change, as far as there are any."""
    change = change_of_bytes(tmp_path / "file", MANY, MANY.replace(b"line 99\n", b"x\n"))
    assert (change.first_line, change.old[:8], change.new[-9:]) == (
        97,
        "line 96\n",
        "line 102\n"[-9:],
    )
    change = change_of_bytes(tmp_path / "file", MANY, b"x" + MANY)
    assert (change.first_line, change.old.count("\n")) == (1, 4)
