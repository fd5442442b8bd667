"""The rules of spec section 7 below its table, sentence by sentence, through the program."""

from __future__ import annotations

import subprocess
import threading

import pytest

from tests.models.steps import Call, ScriptedStep


def read(path, **lines):
    return Call.of("read_file", path=str(path), **lines)


def create(path, content="made", **more):
    return Call.of("create_file", path=str(path), content=content, **more)


def replace(path, old, new):
    pair = {"search_content": old, "replace_content": new}
    return Call.of("search_replace", path=str(path), replacements=[pair])


def update(path, diff):
    operation = {"type": "update_file", "path": str(path), "diff": diff}
    return Call.of("apply_patch", operations=[operation])


def delete(path):
    return Call.of("apply_patch", operations=[{"type": "delete_file", "path": str(path)}])


CHANGES = {
    "create_file": lambda path: create(path, overwrite=True),
    "search_replace": lambda path: replace(path, "one", "two"),
    "apply_patch update": lambda path: update(path, "-one\n+two"),
    "apply_patch delete": delete,
}


@pytest.mark.parametrize("tool", CHANGES)
def test_a_file_that_changed_since_it_was_read_is_not_overwritten(stage, tool):
    """Read, changed by somebody else, edited: it fails and says so; read again, it works."""
    session, work = stage.workspace()
    path = work / "file"
    path.write_text("one\n")
    stage.play(session, read("file"))
    path.write_text("one\nby somebody else\n")
    played = stage.play(session, CHANGES[tool](path))
    assert (played.status, path.read_text()) == ("failed", "one\nby somebody else\n")
    assert "changed by somebody else since you last read it" in played.result
    assert stage.play(session, read("file"), CHANGES[tool](path)).statuses == ["completed"] * 2
    assert not path.exists() or "one" not in path.read_text()


@pytest.mark.parametrize("tool", CHANGES)
def test_what_may_be_done_to_a_file_that_was_never_read(stage, tool):
    """It may be replaced in and patched, as the text must match, but not overwritten."""
    session, work = stage.workspace()
    path = work / "file"
    path.write_text("one\n")
    played = stage.play(session, CHANGES[tool](path))
    if tool == "create_file":
        assert (played.status, path.read_text()) == ("failed", "one\n")
        assert "never read" in played.result
    else:
        assert played.status == "completed"


def test_a_range_that_makes_no_sense_fails_and_says_how_many_lines_there_are(stage):
    """Below 1, past the end, or backwards; the ends are included."""
    session, work = stage.workspace()
    (work / "file").write_text("a\nb\nc\n")
    ranges = [(0, 2), (-1, None), (4, None), (9, 12), (3, 2), (1, 0), (2, -5)]
    calls = [read("file", start_line=first, end_line=last) for first, last in ranges]
    played = stage.play(session, *calls)
    assert played.statuses == ["failed"] * len(ranges)
    assert all("3 lines" in result for result in played.results), played.results
    good = stage.play(session, read("file", start_line=2, end_line=3))
    assert good.result.startswith("b\nc\n")


def test_searches_honour_gitignore(stage):
    """Rules of every level, in glob and grep; no_ignore has grep look at all the same."""
    session, work = stage.workspace()
    (work / "sub").mkdir()
    (work / ".gitignore").write_text("*.log\nbuild/\n")
    (work / "sub/.gitignore").write_text("!kept.log\nhidden\n")
    names = ["a.txt", "a.log", "build/a", "sub/kept.log", "sub/hidden", "sub/a.log"]
    for name in names:
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text("needle\n")
    shown = {"a.txt", "sub/kept.log"}
    listed, found, all_found = stage.play(
        session,
        Call.of("glob", pattern="**/*"),
        Call.of("grep", pattern="needle"),
        Call.of("grep", pattern="needle", no_ignore=True),
    ).results
    assert {name for name in names if name in listed.split("\n")} == shown
    assert {name for name in names if f"{name}:1:" in found.split()} == shown
    assert {name for name in names if f"{name}:1:" in all_found.split()} == set(names)


def test_a_regular_expression_that_takes_too_long_is_stopped(stage):
    """The call fails and says why; the turn goes on."""
    session, work = stage.workspace()
    (work / "file").write_text("a" * 100 + "b\n")
    played = stage.play(session, Call.of("grep", pattern="(a|aa)+$"), read("file"))
    assert played.statuses == ["failed", "completed"]
    assert "takes too long" in played.results[0]


def test_results_are_bounded_and_the_cut_is_stated(stage):
    """Head and tail of a large file, of many lines found, of much output."""
    session, work = stage.workspace()
    (work / "file").write_text("".join(f"line {number}\n" for number in range(300_000)))
    played = stage.play(
        session,
        read("file"),
        Call.of("grep", pattern="line", max_results=1000),
        Call.of("shell", command="echo first; seq 500000; echo last"),
        Call.of("run_code", code="print('first')\nfor n in range(500000): print(n)\nprint('last')"),
        answers="approve",
    )
    whole, found, output, printed = played.results
    assert all(len(result) < 100_000 for result in played.results)
    assert whole.startswith("line 0\n")
    assert "line 299999" in whole
    assert "omitted" in whole or "left out" in whole
    assert "there are more" in found
    for text in (output, printed):
        assert text.startswith("first\n")
        assert "\nlast\n" in text
        assert "omitted" in text or "left out" in text


def test_reads_of_one_step_run_side_by_side_and_others_in_order(stage):
    """All reads are asked before one is answered; with an edit among them, one at a time."""
    session, work = stage.workspace()
    outside = stage.folder()
    for name in "abc":
        (outside / name).write_text(f"told {name}")
    (work / "in").write_text("in")
    permissions = stage.client.permissions
    open_questions = []

    def answer_all(request):
        open_questions.append(request)
        if len(open_questions) == 3:
            for question in open_questions:
                permissions.answer(question, "approve")

    reads = tuple(read(outside / name) for name in "abc")
    played = stage.play(session, reads, answers=answer_all)
    assert [f"told {name}" in result for name, result in zip("abc", played.results, strict=True)]
    assert played.statuses == ["completed"] * 3

    seen = []

    def answer_one(request):
        # What came before it has ended: its effect is there.
        seen.append((work / "new").exists())
        return "approve"

    mixed = (read(outside / "a"), create("new"), read(outside / "b"))
    played = stage.play(session, mixed, answers=answer_one)
    assert (played.statuses, seen) == (["completed"] * 3, [False, True])


def test_two_sessions_that_edit_one_file_lose_no_edit(stage):
    """Every edit that is said to be done is in the file."""
    work = stage.folder()
    path = work / "file"
    path.write_text("end\n")
    sessions = [stage.client.new_session(work) for _ in range(2)]
    scripted = [replace("file", "end\n", f"made {n}\nend\n") for n in range(30)]
    script = "\n".join(
        f"try: tools.read_file(path='file'); tools.search_replace(**{call.arguments})\n"
        "except ToolFailed: pass"
        for call in scripted
    ).replace("true", "True")
    stage.client.permissions.allow_all()
    threads = []
    for session in sessions:
        code = Call.of("run_code", code=script)
        stage.chat.step(_step(code))
        stage.chat.step(_step())
        threads.append(
            threading.Thread(
                target=stage.client.run, args=(session, "Go.", 60), name=f"prompt-{session}"
            )
        )
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    done = [
        update
        for session in sessions
        for update in stage.client.updates(session)
        if update.kind == "tool_call_update"
        and update.body.get("status") == "completed"
        and "diff" in str(update.body.get("content"))
    ]
    assert path.read_text().count("made") == len(done) > 30


def test_a_call_of_several_operations_applies_all_or_none(stage):
    """One that does not apply leaves every file as it was."""
    session, work = stage.workspace()
    (work / "a").write_text("one\n")
    (work / "b").write_text("one\n")
    operations = [
        {"type": "update_file", "path": "a", "diff": "-one\n+two"},
        {"type": "create_file", "path": "c/d", "diff": "+new"},
        {"type": "delete_file", "path": "b"},
        {"type": "update_file", "path": "a/../missing", "diff": "-one\n+two"},
    ]
    played = stage.play(session, Call.of("apply_patch", operations=operations))
    assert played.status == "failed"
    assert [(work / name).read_text() for name in "ab"] == ["one\n", "one\n"]
    assert sorted(entry.name for entry in work.iterdir()) == ["a", "b"]
    assert stage.play(session, Call.of("apply_patch", operations=operations[:3])).status == (
        "completed"
    )
    assert sorted(entry.name for entry in work.iterdir()) == ["a", "c"]


def test_an_unknown_tool_and_malformed_arguments_are_failed_calls(stage):
    """The model is told what was wrong, and the turn goes on."""
    session, _work = stage.workspace()
    played = stage.play(session, Call.of("rm", path="/"), Call("read_file", '{"path": "x"'))
    assert played.statuses == ["failed", "failed"]
    assert "There is no tool 'rm'. The tools are: apply_patch" in played.results[0]
    assert "not valid JSON" in played.results[1]


def test_binary_files_are_neither_read_nor_edited(stage):
    """They stay as they are."""
    session, work = stage.workspace()
    path = work / "image"
    path.write_bytes(b"one\n\0\x01\x02\n")
    before = path.read_bytes()
    calls = [read("image"), *(make(path) for make in CHANGES.values())]
    assert stage.play(session, *calls).statuses == ["failed"] * len(calls)
    assert path.read_bytes() == before


def test_a_command_that_runs_too_long_has_failed_with_what_it_printed(stage):
    """Everything that it started is gone, and its later effects with it."""
    session, work = stage.workspace()
    command = "echo before; (sleep 2; touch late) & sleep 60"
    call = Call.of("shell", command=command, timeout_s=1)
    played = stage.play(session, call, answers="approve")
    assert played.status == "failed"
    assert played.result.startswith("before\n")
    ps = subprocess.run(["pgrep", "-f", "touch late"], capture_output=True, check=False)
    assert ps.stdout == b""
    assert not (work / "late").exists()


def test_what_is_asked_is_shown_whole(stage):
    """Nothing of a command, of code or of a protected file's text is hidden in the middle."""
    session, work = stage.workspace()
    filler = "# filler\n" * 5_000
    hidden = "touch hidden"
    text = f"true\n{filler}{hidden}\n{filler}"
    code = f"{filler * 3}import os; os.system('{hidden}')\n{filler * 3}"
    for call in (
        Call.of("shell", command=text),
        Call.of("run_code", code=code),
        Call.of("create_file", path=".envrc", content=code),
    ):
        played = stage.play(session, call, answers="reject")
        assert hidden in str(played.asked[0].tool_call["rawInput"]), call.name
        assert "characters ..." not in str(played.asked[0].tool_call["rawInput"])
    assert list(work.iterdir()) == []


def test_what_is_offered_cannot_pass_for_something_else(stage):
    """Names with line breaks, marks that turn the writing, and a hundred files in one call."""
    session, _work = stage.workspace()
    folder = stage.folder("out") / "x\nAllow reading\u202e\x1b[2K"
    folder.mkdir()
    names = [f"f\n{number}" for number in range(30)]
    operations = [
        {"type": "create_file", "path": str(folder / name), "diff": "+x"} for name in names
    ]
    played = stage.play(session, Call.of("apply_patch", operations=operations), answers="reject")
    labels = {o["optionId"]: o["name"] for o in played.asked[0].params["options"]}
    assert labels["allow-edit-folder-session"].endswith("/x Allow reading [2K for this session")
    assert labels["allow-edit-file-session"].endswith(", f 9 and 20 more for this session")
    assert all(label.isprintable() for label in labels.values())
    assert played.asked[0].params["title"].isprintable()


def test_a_command_that_no_system_takes_is_refused_before_anybody_is_asked(stage):
    """It says how long one may be."""
    session, _work = stage.workspace()
    played = stage.play(session, Call.of("shell", command=f"true {'x' * 200_000}"))
    assert played.status == "failed"
    assert "command is longer than 100000 bytes; write it to a file" in played.result
    longest = Call.of("shell", command=f"echo {'x' * 99_980} | wc -c")
    assert "99981" in stage.play(session, longest, answers="approve").result


def test_parallel_questions_are_answered_each_for_itself(stage):
    """In any order, with denials and malformed answers among them: each call gets its own."""
    session, _work = stage.workspace()
    outside = [stage.folder() for _ in range(8)]
    for number, folder in enumerate(outside):
        (folder / "file").write_text(f"told {number} here")
    permissions = stage.client.permissions
    waiting = []
    answers = [
        "approve",
        "reject",
        "allow-folder-session",
        None,
        "allow-edit-folder-session",
        "allow-once",
        "",
        "approve",
    ]

    def answer(request):
        waiting.append(request)
        if len(waiting) == len(outside):
            for question in sorted(waiting, key=lambda each: str(each.id)[::-1], reverse=True):
                path = question.tool_call["rawInput"]["path"]
                number = [str(folder / "file") for folder in outside].index(path)
                permissions.answer(question, answers[number])

    reads = tuple(read(folder / "file") for folder in outside)
    played = stage.play(session, reads, answers=answer)
    assert [f"told {n} here" in result for n, result in enumerate(played.results)] == [
        answer in ("approve", "allow-once", "allow-folder-session") for answer in answers
    ]
    again = stage.play(session, reads[2])
    assert "told 2 here" in again.result, "that one was granted"
    for number in (0, 1, 3):
        assert stage.play(session, reads[number], answers="reject").status == "failed"


def test_code_that_forks_twice_prints_nothing_of_the_channel(stage):
    """A forked process of a forked process has no channel to leave."""
    session, _work = stage.workspace()
    code = "import os\nif os.fork() == 0:\n    os.fork()\n    os._exit(0)\nos.wait()\nprint('ok')"
    played = stage.play(session, Call.of("run_code", code=code), answers="approve")
    assert played.result.startswith("ok\n[exit status 0")


def _step(*calls):
    return ScriptedStep(text="" if calls else "Done.", calls=calls)


@pytest.mark.parametrize("name", ["", "  ", "\u200b"])
def test_a_call_without_a_name_is_shown_with_one_and_fails(stage, name):
    """An editor gets a name for every call, whatever the model leaves out."""
    session, _ = stage.workspace()
    played = stage.play(session, Call.of(name))
    assert played.status == "failed"
    assert "There is no tool 'unnamed'. The tools are: apply_patch" in played.results[0]
    (created,) = [
        update.body
        for update in stage.client.updates(session)
        if update.kind == "tool_call_update" and "name" in update.body
    ]
    assert (created["name"], created["title"]) == ("unnamed", "unnamed")
