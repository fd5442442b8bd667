"""`term2 sessions`: what a person does with the stored sessions (spec section 10)."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing

import pytest

from term2_acp.eventlog import AgentText, TextBlock, TurnStarted, UserMessage
from term2_acp.store import Store
from tests.unit.stored import SESSIONS, fill

DEADLINE_S = 60
DAY = 86_400_000_000


@pytest.fixture(name="term2")
def _term2(home):
    """Runs `term2 sessions ...`: its exit status, stdout and stderr."""

    def run(*arguments, **environment):
        done = subprocess.run(
            [sys.executable, "-m", "term2_acp", "sessions", *arguments],
            env=home.environment(TZ="UTC", **environment),
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert b"Traceback" not in done.stderr
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


@pytest.fixture(name="store")
def _store(home):
    """The store of that home, with sessions in it."""
    store = Store(str(home.state / "term2"))
    fill(store)
    yield store
    store.close()


def aged(store, session_id, days):
    """Let a session's last activity be some days ago."""
    with closing(sqlite3.connect(store.path)) as database, database:
        then = time.time_ns() // 1000 - days * DAY
        database.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", (then, session_id))


def left(store):
    """How many rows there are of everything."""
    with closing(sqlite3.connect(store.path)) as database:
        return [
            database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 (ours)
            for table in ("sessions", "events", "large_data")
        ]


def test_without_a_store_there_is_nothing_and_none_is_made(term2, home):
    """A list is empty; whatever names a session says that there are none."""
    assert (0, "", "") == term2("list")
    assert (0, "[]\n", "") == term2("list", "--json")
    assert (1, "", "term2: there are no sessions yet\n") == term2("show", "x")
    assert (0, "", "") == term2("prune", "--older-than", "1d")
    assert not (home.state / "term2").exists()


def test_the_list_is_a_table_or_json(term2, store):
    """Newest first, prompted ones only, of a folder if one is named."""
    aged(store, "sess_cut", 3)
    status, out, err = term2("list")
    assert (0, "") == (status, err)
    header, first, second = out.splitlines()
    assert ["SESSION", "UPDATED", "FOLDER", "TITLE"] == header.split()
    assert first.split()[0] == "sess_whole"
    assert second.split()[0] == "sess_cut"
    assert first.endswith("/project  please 🙂")
    listed = json.loads(term2("list", "--json", "--limit", "1")[1])
    assert ["sess_whole"] == [session["sessionId"] for session in listed]
    assert {"sessionId", "cwd", "title", "createdAt", "updatedAt"} == set(listed[0])
    assert [] == json.loads(term2("list", "--json", "--cwd", "/nowhere")[1])
    assert 2 == len(json.loads(term2("list", "--json", "--cwd", "/project", "--all")[1]))


def test_what_a_title_holds_does_not_reach_the_terminal(term2, store):
    """Escape sequences of a prompt are shown as what they are: none."""
    with closing(sqlite3.connect(store.path)) as database, database:
        database.execute("UPDATE sessions SET title = 'a\x1b[2J\u202eb\tc'")
    _status, out, _err = term2("list")
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "\x1b" not in term2("show", "sess_whole")[1]


def test_a_session_is_shown_by_any_unique_beginning(term2, store):
    """Also without its `sess_`; one that is none, or several, is refused with what would do."""
    status, out, _err = term2("show", "wh")
    assert 0 == status
    assert "sess_whole" in out
    assert "/project" in out
    assert f"{len(SESSIONS['sess_whole'])} events" in out
    assert "   1. please 🙂 [end_turn]\n" in out
    assert "2. go on [open]" in term2("show", "sess_cut")[1]
    shown = json.loads(term2("show", "sess_wh", "--json")[1])
    assert [{"prompt": "please 🙂", "stopReason": "end_turn"}] == shown["turns"]
    for beginning in ("zz", "whole_", "\udcff"):
        status, out, err = term2("show", beginning)
        assert (1, "") == (status, out)
        assert "there is no session" in err
    for beginning in ("", "s", "sess_"):
        status, out, err = term2("show", beginning)
        assert (1, "") == (status, out)
        assert "sess_cut, sess_silent, sess_whole" in err


def test_an_export_as_json_lines_has_every_event_as_it_is_stored(term2, store):
    """A line each, also of kinds that this version does not know, and what is damaged as it is."""
    count = len(SESSIONS["sess_whole"])
    with closing(sqlite3.connect(store.path)) as database, database:
        database.execute(
            "INSERT INTO events VALUES ('sess_whole', ?, 0, 'hologram_shown', '{\"x\":7}', NULL)",
            (count + 1,),
        )
        database.execute("UPDATE events SET data = '{\"t' WHERE type = 'plan_updated'")
    status, out, _err = term2("export", "sess_whole")
    head, *events = [json.loads(line) for line in out.rstrip("\n").split("\n")]
    assert 0 == status
    assert ("sess_whole", "/project") == (head["sessionId"], head["cwd"])
    assert list(range(1, count + 2)) == [event["seq"] for event in events]
    assert {"seq": count + 1, "type": "hologram_shown", "data": {"x": 7}} == {
        name: value for name, value in events[-1].items() if name != "at"
    }
    (title,) = [event["data"] for event in events if event["type"] == "title_set"]
    assert {"title": "please 🙂"} == title
    assert ['{"t'] == [event["damaged"] for event in events if event["type"] == "plan_updated"]


def test_an_export_as_markdown_can_be_read(term2, store, tmp_path):
    """What was said and done, with fences that hold; into a new file that only the user reads."""
    store.append(
        "sess_silent",
        2,
        [TurnStarted("t"), UserMessage("m", (TextBlock("x"),)), AgentText("n", "a\n```\nb")],
    )
    path = tmp_path / "out.md"
    assert (0, "", "") == term2("export", "whole", "--format", "markdown", "--output", str(path))
    text = path.read_text()
    for part in ("# please 🙂", "## You", "## Agent", "> First, I look.", "Here it is."):
        assert part in text
    assert "### make (shell, completed)" in text
    assert "$ make" in text
    assert "- [x] pour" in text
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    status, _out, err = term2("export", "whole", "--output", str(path))
    assert 1 == status
    assert f"{path}: File exists" in err
    assert text == path.read_text()


def test_deleted_sessions_are_gone_and_their_space_is_free(term2, store):
    """With all that is stored of them; the others stay as they are."""
    store.append("sess_silent", 2, [AgentText("m", os.urandom(300_000).hex())])
    store.append("sess_silent", 3, [AgentText("m", "x" * 2000) for _ in range(500)])
    before = list(store.read("sess_cut"))
    status, out, err = term2("delete", "sil", "sess_whole", "nothing")
    assert 1 == status
    assert "deleted sess_silent\ndeleted sess_whole\n" == out
    assert "there is no session 'nothing'" in err
    assert [1, len(before)] == left(store)[:2]
    assert before == list(store.read("sess_cut"))
    with closing(sqlite3.connect(store.path)) as database:
        assert 0 == database.execute("PRAGMA freelist_count").fetchone()[0]
        assert database.execute("PRAGMA page_count").fetchone()[0] < 60
    assert "sess_cut" in term2("list")[1]


def test_a_session_that_is_open_is_not_deleted(term2, start, project, home):
    """The process that has it is named; once it has ended, the session can go."""
    client = start()
    client.initialize()
    session = client.new_session(project)
    client.still_works(session)
    assert f"by process {client.process.pid}" in term2("show", session)[1]
    status, out, err = term2("delete", session)
    assert (1, "") == (status, out)
    assert f"pid {client.process.pid}" in err
    client.still_works(session)
    with closing(sqlite3.connect(home.state / "term2" / "sessions.db")) as database, database:
        database.execute("UPDATE sessions SET updated_at = 1")
    status, out, err = term2("prune", "--older-than", "1y")
    assert (0, "") == (status, out)
    assert f"kept: session '{session}' is in use" in err
    client.still_works(session)
    client.kill()
    client.wait_exit()
    assert "in use   no" in term2("show", session)[1]
    assert (0, f"deleted {session}\n", "") == term2("delete", session)
    assert (0, "", "") == term2("list")


def test_old_sessions_are_pruned(term2, store):
    """Those without activity for so long, prompted or not; first as a list, if asked."""
    aged(store, "sess_cut", 40)
    aged(store, "sess_silent", 29)
    before = left(store)
    status, out, _err = term2("prune", "--older-than", "30d", "--dry-run")
    assert 0 == status
    assert ["sess_cut"] == [line.split()[0] for line in out.splitlines()[1:]]
    assert before == left(store)
    assert (0, "deleted sess_cut\n", "") == term2("prune", "--older-than", "30d")
    assert (0, "deleted sess_silent\n", "") == term2("prune", "--older-than", "4w")
    assert (0, "", "") == term2("prune", "--older-than", "4w")
    assert (0, "", "") == term2("prune", "--older-than", "999999y")


def test_no_id_means_no_session(term2, store):
    """An empty one, as of an unset variable, does not delete the only session that there is."""
    for session_id in list(SESSIONS)[1:]:
        term2("delete", session_id)
    before = left(store)
    for empty in ("", "sess_"):
        status, out, err = term2("delete", empty)
        assert (1, "") == (status, out)
        assert "names no session" in err
    assert before == left(store)


def test_a_damaged_event_can_be_exported_around_and_deleted(term2, store):
    """As the error says; what was kept apart and is lost is null."""
    store.append("sess_silent", 2, [AgentText("m", "x" * 9000), AgentText("m", "whole")])
    with closing(sqlite3.connect(store.path)) as database, database:
        database.execute(
            "UPDATE large_data SET data = x'00' WHERE id ="
            " (SELECT large FROM events WHERE session_id = 'sess_silent' AND seq = 2)"
        )
    status, out, err = term2("export", "silent", "--format", "markdown")
    assert 1 == status
    assert "delete it with term2 sessions delete" in err.lower()
    status, out, _err = term2("export", "silent")
    (*_, lost, whole) = [json.loads(line) for line in out.splitlines()]
    assert (0, None, "whole") == (status, lost["damaged"], whole["data"]["text"])
    assert (0, "deleted sess_silent\n", "") == term2("delete", "silent")


def test_a_store_that_cannot_be_looked_at_is_not_an_empty_one(term2, home):
    """It is refused with the reason, not answered with an empty list."""
    (home.root / "file").write_text("")
    status, out, err = term2("list", XDG_STATE_HOME=str(home.root / "file"))
    assert (1, "") == (status, out)
    assert "move away what has its name" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "required: COMMAND"),
        (("frob",), "invalid choice: 'frob'"),
        (("list", "--limit", "0"), "--limit: must be a number from 1 to 999999999, not '0'"),
        (("list", "--limit", "9" * 30), "--limit: must be a number from 1 to 999999999"),
        (("show",), "required: ID"),
        (("prune",), "required: --older-than"),
        (("prune", "--older-than", "soon"), "must be like 12h, 30d, 8w or 1y, not 'soon'"),
        (("export", "x", "--format", "pdf"), "invalid choice: 'pdf'"),
    ],
)
def test_a_wrong_command_line_is_refused(term2, arguments, said):
    """One line on stderr that names what was wrong, exit status 1, nothing on stdout."""
    status, out, err = term2(*arguments)
    assert (1, "") == (status, out)
    assert said in err
    assert 1 == err.count("\n")


def test_help_is_there(term2):
    """For the whole and for each command."""
    assert "prune" in term2("--help")[1]
    assert "--older-than AGE" in term2("prune", "--help")[1]


def test_a_store_that_cannot_be_used_is_said(term2, store):
    """As everywhere: the file and the remedy."""
    store.close()
    with closing(sqlite3.connect(store.path)) as database:
        database.execute("PRAGMA user_version = 99")
    status, out, err = term2("list")
    assert (1, "") == (status, out)
    assert "newer term2" in err


def test_a_reader_that_has_enough_ends_an_export(home, store):
    """As `head` does; nothing is said about it."""
    store.append("sess_silent", 2, [AgentText("m", "x" * 4000) for _ in range(2000)])
    command = [sys.executable, "-m", "term2_acp", "sessions", "export", "sess_silent"]
    with subprocess.Popen(
        command, env=home.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert b"" == process.stderr.read()
        assert process.wait(DEADLINE_S) == -signal.SIGPIPE
