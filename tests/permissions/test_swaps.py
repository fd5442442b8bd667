"""Time of check and time of use: a path that becomes a link once its call was allowed."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading

import pytest

from tests.models.steps import Call

SECRET = "what the victim says"
TOOLS = {
    "read_file": lambda path: Call.of("read_file", path=path),
    "grep": lambda path: Call.of("grep", pattern="victim", path=path),
    "grep folder": lambda path: Call.of("grep", pattern="victim", path=os.path.dirname(path)),
    "glob": lambda path: Call.of("glob", pattern="*", path=os.path.dirname(path)),
    "create_file": lambda path: Call.of("create_file", path=path, content="leak", overwrite=True),
    "create_file new": lambda path: Call.of("create_file", path=f"{path}-leak", content="leak"),
    "search_replace": lambda path: Call.of(
        "search_replace",
        path=path,
        replacements=[{"search_content": "says", "replace_content": "leak"}],
    ),
    "update": lambda path: _patch("update_file", path, f"-{SECRET}\n+leak"),
    "delete": lambda path: _patch("delete_file", path, ""),
    "create": lambda path: _patch("create_file", f"{path}-leak", "+leak"),
}


def _patch(kind, path, diff):
    operation = {"type": kind, "path": path, "diff": diff}
    return Call.of("apply_patch", operations=[operation])


def as_code(call):
    """The same call, made by code."""
    values = f"__import__('json').loads({call.arguments!r})"
    code = f"try: print(tools.{call.name}(**{values}))\nexcept ToolFailed as e: print(e)"
    return Call.of("run_code", code=code)


def swap(path, target):
    """Put a link to `target` in the place of `path`."""
    path.rename(path.with_name(f"{path.name}-moved"))
    path.symlink_to(target)


@pytest.mark.parametrize("nested", [False, True], ids=["plain", "nested"])
@pytest.mark.parametrize("tool", TOOLS)
def test_a_path_swapped_while_it_is_asked_for_is_not_followed(stage, tool, nested):
    """
    The target, its parent and the folder above, each to a place outside and to a store.

    The call fails or does its work where it was allowed; it neither reads nor changes
    what the link leads to.
    """
    session, _work = stage.workspace()
    for level, place in itertools.product(("file", "b", "a"), ("outside", "store")):
        granted, victim = stage.folder("granted"), stage.folder("victim")
        if place == "store":
            victim = stage.home.path / ".ssh" / victim.name
        for base, text in ((granted, f"{SECRET}\n"), (victim, f"{SECRET} secretly\n")):
            (base / "a" / "b").mkdir(parents=True)
            (base / "a" / "b" / "file").write_text(text)
        below = {"file": "a/b/file", "b": "a/b", "a": "a"}[level]
        call = TOOLS[tool](str(granted / "a" / "b" / "file"))
        (victim / "a" / "b" / "secretly").touch()
        before = snapshot(victim)

        def answer(request, granted=granted, victim=victim, below=below):
            if "code" not in request.tool_call["rawInput"]:
                swap(granted / below, victim / below)
            return "approve"

        played = stage.play(session, as_code(call) if nested else call, answers=answer)
        assert len(played.asked) == 1 + nested, "nothing is asked a second time"
        assert "secretly" not in played.result, (level, place, played)
        assert snapshot(victim) == before, (level, place, played)


@pytest.mark.parametrize("tool", ["search_replace", "update", "delete", "create_file"])
def test_an_approved_path_swapped_for_a_link_to_a_protected_one_is_not_followed(stage, tool):
    """Though it is in the workspace, it was not asked for."""
    session, work = stage.workspace()
    granted = stage.folder("granted")
    (granted / "file").write_text(f"{SECRET}\n")
    (work / ".envrc").write_text(f"{SECRET}\n")

    def answer(_request):
        swap(granted / "file", work / ".envrc")
        return "approve"

    played = stage.play(session, TOOLS[tool](str(granted / "file")), answers=answer)
    assert (played.status, (work / ".envrc").read_text()) == ("failed", f"{SECRET}\n")


@pytest.mark.skipif(sys.platform != "linux", reason="needs renameat2")
def test_a_folder_that_is_swapped_all_the_time_lets_nothing_out(stage):
    """Free edits and reads in the workspace, while their folder is now a link and now none."""
    session, work = stage.workspace()
    outside = stage.folder("victim")
    (outside / "file").write_text("secretly\n")
    (work / "sub").mkdir()
    (work / "sub" / "file").write_text("mine\n")
    (work / "link").symlink_to(outside)
    over = threading.Event()

    def spin():
        while not over.is_set():
            exchange(work / "sub", work / "link")

    thread = threading.Thread(target=spin, name="swapper")
    thread.start()
    calls = []
    for number in range(60):
        calls += [
            Call.of("create_file", path=f"sub/new{number}", content="leak"),
            Call.of("read_file", path="sub/file"),
            TOOLS["search_replace"]("sub/file"),
            _patch("create_file", f"sub/deep{number}/new", "+leak"),
        ]
    try:
        played = stage.play(session, tuple(calls), answers="reject")
    finally:
        over.set()
        thread.join()
    assert not any("secretly" in result for result in played.results)
    assert snapshot(outside) == {"file": "secretly\n"}


def exchange(one, other):
    """Swap two names at one instant."""
    now, both = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    names = (os.fsencode(one), os.fsencode(other))
    if ctypes.CDLL(None).renameat2(now, names[0], now, names[1], both) != 0:
        raise OSError(f"renameat2 failed on {one}")


def snapshot(folder):
    """Every file below a folder with its text."""
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else None
        for path in folder.rglob("*")
        if not path.is_dir()
    }
