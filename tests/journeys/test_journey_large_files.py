"""Spec section 7 and issue 4: files of 50 MB are read and edited, in bounded time and memory."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

MIB = 1 << 20
LINES = 1_150_000


def line(number):
    return f"line {number:07} of a file that is rather large\n"


def peak(pid: int) -> int:
    """The most memory that a process ever used, in bytes."""
    for entry in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if entry.startswith("VmHWM:"):
            return int(entry.split()[1]) * 1024
    raise AssertionError("no VmHWM in the status of the process")


def code(call):
    return f"/code <<END\nprint({call})\nEND"


def wire_size(turn):
    """How many characters the updates of a turn have together."""
    return sum(len(json.dumps(update.body)) for update in turn.updates)


def patch_of(turn, name):
    """The patch that the last call of a tool showed, None if there was none."""
    call = [each for each in turn.calls if each["name"] == name][-1]
    assert call["status"] == "completed", call
    (diff,) = (item for item in call["content"] if item["type"] == "diff")
    assert [change["operation"] for change in diff["changes"]] == ["modify"]
    return diff.get("patch", {}).get("text")


def test_a_large_file_is_read_and_edited_in_bounded_memory(client, session, project):
    """Each way of editing changes what it is to change; git understands each patch."""
    client.permissions.allow_all()
    file = project / "large.txt"
    file.write_text("".join(map(line, range(1, LINES + 1))))
    assert file.stat().st_size > 50 * 10**6
    turn = client.run(session, "/read large.txt", timeout=60)
    assert [call["status"] for call in turn.calls] == ["completed"]
    ranged = code("tools.read_file(path='large.txt', start_line=777777, end_line=777778)")
    turn = client.run(session, ranged, timeout=60)
    assert wire_size(turn) < MIB
    read = turn.calls[-1]
    assert line(777777) in read["content"][0]["content"]["text"]
    assert (
        f"[lines 777777 to 777778 of {LINES} of large.txt]" in read["content"][0]["content"]["text"]
    )
    edits = [
        ("search_replace", "/replace large.txt line 0500000 of => line five of", 500000, "five of"),
        (
            "apply_patch",
            code(
                "tools.apply_patch(operations=[{'type': 'update_file', 'path': 'large.txt', "
                f"'diff': '@@ -7,1 +7,1 @@\\n-{line(900000).rstrip()}\\n+patched\\n'}}])"
            ),
            900000,
            "patched",
        ),
    ]
    for name, prompt, number, written in edits:
        old = file.read_bytes()
        turn = client.run(session, prompt, timeout=60)
        patch = patch_of(turn, name)
        assert wire_size(turn) < MIB
        assert f"\n@@ -{number - 3},7 +{number - 3},7 @@\n" in patch
        new = file.read_bytes()
        assert written in new.splitlines()[number - 1].decode()
        # git makes the new file of the old one.
        file.write_bytes(old)
        apply = ["git", "apply", "--unsafe-paths", "-p0", "-"]
        subprocess.run(apply, input=patch.encode(), cwd=project.parent, check=True)
        assert file.read_bytes() == new
    assert peak(client.process.pid) < 500 * MIB


def test_a_large_file_of_one_line_is_edited_without_showing_it(client, session, project):
    """There is no small region to show, so the edit is told; version 1 gets the same text."""
    client.permissions.allow_all()
    file = project / "one"
    file.write_bytes(b"x" * (25 * 10**6) + b" needle " + b"y" * (25 * 10**6))
    turn = client.run(session, "/read one\n/replace one needle => thread", timeout=60)
    assert [call["status"] for call in turn.calls] == ["completed", "completed"]
    assert patch_of(turn, "search_replace") is None
    note = turn.calls[-1]["content"][1]["content"]["text"]
    assert note == f"The change of {file} is too large to be shown (100000016 characters)."
    assert wire_size(turn) < MIB
    assert b" thread " in file.read_bytes()
    assert peak(client.process.pid) < 500 * MIB


def test_version_1_is_told_of_an_edit_that_is_too_large_to_be_shown(start, project):
    """As text, in place of the diff; a smaller change of a large file is the region."""
    editor = start()
    editor.request("initialize", {"protocolVersion": 1}).result()
    new = {"cwd": str(project), "mcpServers": []}
    session = editor.request("session/new", new).result()["sessionId"]
    (project / "one").write_bytes(b"x" * (5 * MIB) + b" needle\n")
    (project / "many").write_text("".join(map(line, range(40_000))))
    text = "/replace one needle => thread\n/replace many line 0000007 => seven"
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    editor.request("session/prompt", prompt).result()
    one, many = (u.body for u in editor.updates(session) if u.body.get("status") == "completed")
    (note,) = one["content"]
    assert "one is too large to be shown" in note["content"]["text"]
    (diff,) = many["content"]
    assert diff["oldText"] == "".join(map(line, range(4, 11)))
    assert diff["newText"] == diff["oldText"].replace("line 0000007", "seven")


@pytest.mark.parametrize("prompt", ["/read huge", "/replace huge a => b"])
def test_a_file_past_the_bound_is_refused(client, session, project, prompt):
    """The bound is told, and the file is as it was."""
    with (project / "huge").open("wb") as file:
        file.truncate(65 * MIB)
    (call,) = client.run(session, prompt).calls
    assert call["status"] == "failed"
    assert "huge: it is larger than 64 MiB" in call["content"][0]["content"]["text"]
    assert (project / "huge").stat().st_size == 65 * MIB
