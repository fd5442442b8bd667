"""What a path means in a workspace."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.agent.ports import ToolError
from term2_acp.workspace import Workspace
from tests.tools.bench import Bench

# Folders, files, links inside, links outside, a sibling with a common prefix, and loops.
STEPS = st.sampled_from(
    ["a", "b", "file", "missing", "..", ".", "", "in", "out", "loop", "~", "work", "work-two"]
)


@pytest.fixture(scope="module")
def tree() -> Path:
    """A tree with everything in it that makes paths hard."""
    with tempfile.TemporaryDirectory() as made:
        top = Path(made).resolve()
        root = top / "work"
        (root / "a" / "b").mkdir(parents=True)
        (root / "a" / "file").write_text("x")
        (top / "work-two" / "a").mkdir(parents=True)
        (root / "a" / "in").symlink_to(root / "a" / "b")
        (root / "in").symlink_to("a")
        (root / "out").symlink_to("../work-two")
        (root / "a" / "out").symlink_to(top)
        (root / "loop").symlink_to("loop")
        (root / "dangling").symlink_to(top / "nowhere" / "file")
        yield root


@settings(deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=8), st.booleans(), st.booleans())
def test_a_path_means_what_the_system_would_open(
    tree: Path, steps: list[str], slash: bool, absolute: bool
) -> None:
    """For any path of folders, links and `..`, the answer is the file that the system reaches."""
    path = "/".join(steps) + ("/" if slash else "")
    if absolute:
        path = f"{tree}/{path}"
    if not path:
        return
    workspace = Workspace(str(tree))
    try:
        real = workspace.resolve(path)
    except ToolError:
        assert "loop" in steps
        with pytest.raises(OSError, match=r"symbolic link|No such file|Not a directory"):
            os.stat(os.path.join(tree, path))
        return
    assert os.path.realpath(real) == real
    assert os.path.isabs(real)
    assert "//" not in real
    assert real == "/" or not real.endswith("/")
    assert not {".", ".."} & set(real.split("/"))
    try:
        seen = os.stat(os.path.join(tree, path))
    except OSError:
        return
    assert os.path.samestat(seen, os.lstat(real))


@settings(deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=8))
def test_inside_means_below_the_root_component_by_component(tree: Path, steps: list[str]) -> None:
    """What counts as inside shares every component of the root; a common prefix is no help."""
    workspace = Workspace(str(tree))
    try:
        real = workspace.resolve("/".join(steps) or ".")
    except ToolError:
        assert "loop" in steps
        return
    inside = Path(real).parts[: len(tree.parts)] == tree.parts
    assert workspace.contains(real) is inside
    if inside:
        assert os.path.normpath(os.path.join(tree, workspace.display(real))) == real
    else:
        assert workspace.display(real) == real


def test_a_link_in_the_parents_of_a_new_file_is_followed(bench: Bench) -> None:
    """A file that does not exist yet is judged by where its folder really is."""
    (bench.root / "link").symlink_to(bench.outside)
    real = bench.workspace.resolve("link/new/file.txt")
    assert real == str(bench.outside / "new" / "file.txt")
    assert not bench.workspace.contains(real)


def test_a_dangling_link_means_what_it_points_to(bench: Bench) -> None:
    """Creating through a dangling link would create its target, so that is the path."""
    (bench.root / "link").symlink_to(bench.outside / "target")
    assert bench.workspace.resolve("link") == str(bench.outside / "target")


def test_dot_dot_after_a_link_is_taken_from_where_the_link_leads(bench: Bench) -> None:
    """`link/..` is the parent of the link's target, not of the link."""
    (bench.outside / "deep").mkdir()
    (bench.root / "link").symlink_to(bench.outside / "deep")
    assert bench.workspace.resolve("link/../x") == str(bench.outside / "x")


@pytest.mark.parametrize("path", ["loop", "loop/x", "loop/../link/x", "missing/../loop/../link"])
def test_a_link_that_leads_to_itself_leads_nowhere(bench: Bench, path: str) -> None:
    """Nor does what follows it: a path that only looks inside is not taken for one."""
    (bench.root / "loop").symlink_to("loop")
    (bench.root / "link").symlink_to(bench.outside)
    with pytest.raises(ToolError, match="cannot follow"):
        bench.workspace.resolve(path)


def test_tilde_is_an_ordinary_name(bench: Bench) -> None:
    """The home folder is not meant by `~`."""
    assert bench.workspace.resolve("~/x") == str(bench.root / "~" / "x")


@pytest.mark.parametrize(
    ("path", "told"), [("", "empty"), ("a\0b", "NUL"), ("a\ud800", "surrogate")]
)
def test_what_cannot_be_a_path_is_refused_with_the_reason(
    bench: Bench, path: str, told: str
) -> None:
    """The error is made of sendable text and says what is wrong."""
    with pytest.raises(ToolError, match=told) as refused:
        bench.workspace.resolve(path)
    str(refused.value).encode()


def test_a_link_that_the_system_does_not_follow_is_told_by_path(bench: Bench) -> None:
    """A path through another process's root, or one that changes under way, is no crash."""
    (bench.root / "link").symlink_to("/proc/1/root")
    try:
        os.readlink("/proc/1/root")
    except OSError:
        with pytest.raises(ToolError, match=r"cannot follow link/etc\\n: "):
            bench.workspace.resolve("link/etc\n")
    else:
        pytest.skip("this system lets us follow the root of process 1")


def test_a_name_cannot_pass_for_several_lines_or_hide(bench: Bench) -> None:
    """Control characters are shown as escapes."""
    shown = bench.workspace.display(f"{bench.root}/a\nb\x1b[2K\u202e\x7fé ü")
    assert shown == r"a\nb\x1b[2K\u202e\x7fé ü"


def test_a_name_that_is_no_utf8_is_shown_with_a_replacement_character(bench: Bench) -> None:
    """Display never holds a lone surrogate."""
    assert bench.workspace.display(f"{bench.root}/a\udcff") == "a\ufffd"


def test_the_root_is_displayed_as_a_dot(bench: Bench) -> None:
    """The root itself is inside, and has a name."""
    assert bench.workspace.contains(str(bench.root))
    assert bench.workspace.display(str(bench.root)) == "."
