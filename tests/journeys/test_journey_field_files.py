"""
Faults that users met in programs like this one: the tools that edit files and run commands.

Each test is one kind of fault, tried as it was met. `test_field_reports` has the whole list.
"""

from __future__ import annotations

import os
import stat

import pytest

from tests.models.steps import Call, ScriptedStep


@pytest.fixture(name="folder")
def _folder(tmp_path):
    """The workspace of one test."""
    folder = (tmp_path / "workspace").resolve()
    folder.mkdir()
    return folder


@pytest.fixture(name="call")
def _call(lent_chat, folder):
    """Have the model call tools, one after the other: `call(*calls) -> (status, told) of each`."""
    client, chat = lent_chat.client, lent_chat.service
    session = client.new_session(folder)

    def call(*calls):
        for one in calls:
            chat.step(ScriptedStep(calls=(one,)))
        chat.step(ScriptedStep(text="Done."))
        turn = client.run(session, "go on")
        assert turn.stop_reason == "end_turn"
        told = [m["content"] for m in chat.requests[-1].body["messages"] if m["role"] == "tool"]
        return list(zip([one["status"] for one in turn.calls], told[-len(calls) :], strict=True))

    return call


def replace(path, old, new):
    """A search_replace of one text."""
    one = {"search_content": old, "replace_content": new}
    return Call.of("search_replace", path=path, replacements=[one])


def patch(path, diff):
    """An apply_patch that updates one file."""
    one = {"type": "update_file", "path": path, "diff": diff}
    return Call.of("apply_patch", operations=[one])


LINE_ENDINGS = {
    "crlf": (b"one\r\ntwo\r\nthree\r\n", b"1\r\n2\r\n2b\r\nthree\r\n"),
    "mixed": (b"zero\none\r\ntwo\r\nthree\n", b"zero\n1\r\n2\r\n2b\r\nthree\n"),
    "lone carriage return": (b"a\rb\r\none\r\ntwo\r\nthree", b"a\rb\r\n1\r\n2\r\n2b\r\nthree"),
}


@pytest.mark.parametrize("name", LINE_ENDINGS)
def test_an_edit_in_line_feeds_touches_only_its_bytes_in_a_file_of_others(folder, call, name):
    """Two lines become three by search_replace and by apply_patch; each other byte stays."""
    before, after = LINE_ENDINGS[name]
    for file in ("replaced.txt", "patched.txt"):
        (folder / file).write_bytes(before)
    edits = (
        replace("replaced.txt", "one\ntwo", "1\n2\n2b"),
        patch("patched.txt", "@@\n-one\n-two\n+1\n+2\n+2b\n three\n"),
    )
    assert ["completed"] * 2 == [status for status, _ in call(*edits)]
    assert after == (folder / "replaced.txt").read_bytes()
    assert after == (folder / "patched.txt").read_bytes()


ENCODINGS = {
    "latin-1": b"x = 1\n// caf\xe9\n",
    "utf-16": "x = 1\n// caf\xe9\n".encode("utf-16"),
    "nul": b"x = 1\n\0\xe9\n",
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_edit_of_ascii_keeps_the_other_bytes_or_is_refused(folder, call, name):
    """A file that is no UTF-8 never gets a replacement character."""
    before = ENCODINGS[name]
    encoding = "utf-16-le" if name == "utf-16" else "latin-1"
    after = before.replace("x = 1".encode(encoding), "x = 2".encode(encoding))
    for file in ("replaced.txt", "patched.txt"):
        (folder / file).write_bytes(before)
    edits = (
        replace("replaced.txt", "x = 1", "x = 2"),
        patch("patched.txt", "@@ -1,1 +1,1 @@\n-x = 1\n+x = 2\n"),
    )
    refused = name == "nul"
    assert ["failed" if refused else "completed"] * 2 == [status for status, _ in call(*edits)]
    for file in ("replaced.txt", "patched.txt"):
        assert (before if refused else after) == (folder / file).read_bytes()


def test_a_byte_order_mark_is_no_part_of_the_first_line_and_stays(folder, call):
    """Read, searched by `^`, replaced and patched; there is one mark before and after."""
    file = folder / "a.js"
    file.write_bytes(b"\xef\xbb\xbfconst a=1;\n")
    calls = (
        Call.of("read_file", path="a.js"),
        Call.of("grep", pattern="^const"),
        replace("a.js", "const a=1;", "const a=2;"),
        patch("a.js", "@@ -1,1 +1,1 @@\n-const a=2;\n+const a=3;\n"),
    )
    results = call(*calls)
    assert ["completed"] * 4 == [status for status, _ in results]
    assert "const a=1;" in results[1][1]
    assert "\ufeff" not in str(results)
    assert b"\xef\xbb\xbfconst a=3;\n" == file.read_bytes()


def test_an_edit_through_a_link_keeps_the_link_the_mode_and_every_name(lent_chat, folder, call):
    """Of a program, a hard link and in a read-only folder; a link out of the workspace asks."""
    outside = folder.parent / "outside.sh"
    outside.write_text("echo one\n")
    real, closed = folder / "real.sh", folder / "closed"
    closed.mkdir()
    for file in (real, closed / "x.sh"):
        file.write_text("echo one\n")
        file.chmod(0o755)
    (folder / "link").symlink_to("real.sh")
    (folder / "out").symlink_to(outside)
    os.link(real, folder / "hard.sh")
    closed.chmod(0o555)
    lent_chat.client.permissions.policy = lambda _question: "reject"
    statuses = [
        status
        for status, _ in call(
            replace("link", "one", "two"),
            replace("hard.sh", "two", "three"),
            replace("closed/x.sh", "one", "two"),
            replace("out", "one", "two"),
        )
    ]
    closed.chmod(0o755)
    assert ["completed", "completed", "completed", "failed"] == statuses
    assert "real.sh" == os.readlink(folder / "link")
    assert "echo three\n" == real.read_text() == (folder / "hard.sh").read_text()
    assert os.path.samefile(real, folder / "hard.sh")
    assert "echo two\n" == (closed / "x.sh").read_text()
    for file in (real, closed / "x.sh"):
        assert 0o755 == stat.S_IMODE(file.stat().st_mode)
    assert "echo one\n" == outside.read_text()
    names = {path.name for path in folder.rglob("*")}
    assert {"real.sh", "link", "out", "hard.sh", "closed", "x.sh"} == names
