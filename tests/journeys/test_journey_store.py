"""Spec section 10: stores that cannot be used, through the real program."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import resource
import shutil
import sqlite3
from pathlib import Path

import pytest

from term2_acp.eventlog import AgentText, TurnStarted, UserMessage
from term2_acp.schema import SCHEMA_VERSION
from term2_acp.store import Store
from tests.harness.client import Client
from tests.harness.confinement import can_mount, held_to_modes, on_a_disk, without_locks
from tests.harness.home import Home
from tests.harness.messages import agent_text, conversation
from tests.unit.stored import SESSIONS, earlier_store

needs_a_disk = pytest.mark.skipif(not can_mount(), reason="no file system can be mounted here")


def digest(folder: Path) -> dict[str, object]:
    """Everything below a folder; SQLite's index of the journal is nobody's data."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None,
        )
        for path in sorted(folder.rglob("*"))
        if not path.name.endswith("-shm")
    }


def refusal(client: Client, project: Path) -> str:
    """What session/new is answered with; session/list says the same."""
    error = client.request("session/new", {"cwd": str(project)}).error()
    assert error["code"] == -32603
    assert "\n" not in error["message"]
    assert client.request("session/list", {}).error() == error
    return str(error["message"])


# --- stores that are refused


def newer(state: Path) -> None:
    """Of a version that is not known yet."""
    with contextlib.closing(sqlite3.connect(state / "sessions.db")) as database:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")


def damaged(state: Path) -> None:
    """Overwritten by something else."""
    (state / "sessions.db").write_bytes(b"this is no database\n" * 500)


def cut(state: Path) -> None:
    """The last bytes are missing, of an orderly closed one."""
    path = state / "sessions.db"
    os.truncate(path, path.stat().st_size - 20)


def another(state: Path) -> None:
    """A database of some other program."""
    (state / "sessions.db").unlink()
    with contextlib.closing(sqlite3.connect(state / "sessions.db")) as database:
        database.execute("CREATE TABLE bookmarks (url TEXT)")
    (state / "sessions.db").chmod(0o600)


def a_file(state: Path) -> None:
    """The folder of the state is a file."""
    shutil.rmtree(state)
    state.write_text("mine")


def a_folder(state: Path) -> None:
    """The database is a folder."""
    (state / "sessions.db").unlink()
    (state / "sessions.db").mkdir()


def read_only(state: Path) -> None:
    """The folder may not be written."""
    state.chmod(0o500)


def forbidden(state: Path) -> None:
    """The database may not be read or written."""
    (state / "sessions.db").chmod(0o000)


def read_only_file(state: Path) -> None:
    """The database may not be written."""
    (state / "sessions.db").chmod(0o400)


REFUSED = {
    newer: "newer term2.*update term2",
    damaged: "damaged.*move it away.*not changed",
    cut: "damaged.*move it away.*not changed",
    another: "another program.*move it away.*not changed",
    a_file: "move away what has its name",
    a_folder: "move away what has its name",
    read_only: "writable for you",
    forbidden: "writable for you",
    read_only_file: "writable for you",
}


@pytest.fixture(name="bound", scope="module")
def _bound(tmp_path_factory):
    """A server for which modes count; it opens the store anew at each attempt."""
    home = Home.create(tmp_path_factory.mktemp("bound"))
    client = Client(home, command=held_to_modes())
    client.initialize()
    yield client
    client.close()


@pytest.fixture(name="filled", scope="module")
def _filled(tmp_path_factory):
    """A folder with a store in it."""
    folder = tmp_path_factory.mktemp("filled") / "term2"
    store = Store(str(folder))
    store.create_session("sess_x", "/project")
    store.append("sess_x", 2, [AgentText("m", "x" * 3000)])
    store.close()
    return folder


@pytest.mark.parametrize("break_it", REFUSED, ids=lambda case: case.__name__)
def test_a_store_that_cannot_be_used_is_left_alone(bound, filled, break_it):
    """The error names the file and the remedy, and not a byte or a mode is changed."""
    state = bound.home.state / "term2"
    shutil.copytree(filled, state)
    try:
        break_it(state)
        before = digest(bound.home.state)
        message = refusal(bound, bound.home.project())
        assert str(state / "sessions.db") in message
        assert re.search(REFUSED[break_it], message), message
        assert before == digest(bound.home.state)
    finally:
        if state.is_dir():
            state.chmod(0o700)
            shutil.rmtree(state)
        else:
            state.unlink()


def test_a_home_without_locks_is_named(start, home, project):
    """Two processes could not be kept apart there: nothing is made, and the remedy is told."""
    client = start(command=without_locks())
    client.initialize()
    message = refusal(client, project)
    assert "no locks" in message
    assert "local disk" in message
    assert "XDG_STATE_HOME" in message
    assert [path.name for path in (home.state / "term2").iterdir()] in ([], ["sessions.db"])


@needs_a_disk
def test_a_read_only_file_system_is_named(start, project):
    """Nothing can be made there."""
    client = start(command=on_a_disk("ro"))
    client.initialize()
    assert "Read-only file system" in refusal(client, project)


# --- versions


def test_an_earlier_store_is_used_once_nobody_else_has_it(start, home, project):
    """Refused while another process has it open; then migrated, listed, replayed, gone on with."""
    state = home.state / "term2"
    earlier_store(1, state, cwd=str(project))
    client = start()
    client.initialize()
    with contextlib.closing(sqlite3.connect(state / "sessions.db")) as other:
        other.execute("SELECT count(*) FROM sessions").fetchall()
        message = client.request("session/list", {}).error()["message"]
        assert "another process has it open" in message
        assert str(state / "sessions.db") in message
        assert other.execute("PRAGMA user_version").fetchone() == (1,)
    listed = client.request("session/list", {}).result()["sessions"]
    assert {"sess_whole", "sess_cut"} == {info["sessionId"] for info in listed}
    replayed = conversation(client.replay("sess_cut", project))
    assert ["user", "thought", "agent", "call", "call", "agent", "agent", "user", "agent"] == [
        kind for kind, _name, _value in replayed.items
    ][:9]
    output, status = replayed.terminals["term_1"]
    assert output.startswith(b"\x00\xff bytes\na line of output")
    assert {"exitCode": 0} == {k: v for k, v in status.items() if v is not None}
    client.still_works("sess_cut")
    assert SCHEMA_VERSION == version(state)


def version(state: Path) -> int:
    """The schema's version."""
    with contextlib.closing(sqlite3.connect(state / "sessions.db")) as database:
        return int(database.execute("PRAGMA user_version").fetchone()[0])


def test_events_of_a_newer_version_are_kept_and_skipped(start, home, project):
    """In the list, a replay, the model's context and the closing of an open turn."""
    first = start()
    first.initialize()
    session = first.new_session(project)
    first.still_works(session)
    told = conversation(first.updates(session)).items
    first.close()
    state = home.state / "term2"
    store = Store(str(state))
    last = store.find(session).last_seq
    store.append(session, last + 1, [TurnStarted("turn_x")])
    store.append(session, last + 3, [UserMessage("msg_x", SESSIONS["sess_whole"][2].content)])
    store.append(session, last + 5, [AgentText("msg_y", "half")])
    store.close()
    unknown = [(session, last + n, "hologram_shown", '{"angle": 7}') for n in (2, 4, 6)]
    with contextlib.closing(sqlite3.connect(state / "sessions.db")) as database, database:
        database.executemany("INSERT INTO events VALUES (?, ?, 0, ?, ?, NULL)", unknown)
    second = start()
    second.initialize()
    (info,) = second.request("session/list", {}).result()["sessions"]
    assert session == info["sessionId"]
    items = conversation(second.replay(session, project)).items
    assert told == items[: len(told)]
    assert [("user", "msg_x"), ("agent", "msg_y")] == [item[:2] for item in items[len(told) :]]
    second.still_works(session)
    with contextlib.closing(sqlite3.connect(state / "sessions.db")) as database:
        kept = database.execute(
            "SELECT session_id, seq, type, data FROM events WHERE type = 'hologram_shown'"
        ).fetchall()
    assert unknown == kept


# --- a disk that is full


def fill_up(client: Client) -> tuple[int, int]:
    """From now on nothing can be written into any file; the limits before."""
    before = resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE, (0, before[1]))
    return before


def test_a_turn_ends_when_it_cannot_be_stored_and_all_works_when_it_can(start, project):
    """Nothing is shown that is not stored; the next prompt is an error until there is space."""
    client = start()
    client.initialize()
    session = client.new_session(project)
    client.still_works(session)
    client.prompt(session, "/say before\n/shell true\n/say never shown").result()
    question = client.permissions.next()
    limits = fill_up(client)
    client.permissions.answer(question, "approve")
    assert "_term2_error" == client.wait_idle(session)
    assert "before" in agent_text(client.updates(session))
    assert "never shown" not in agent_text(client.updates(session))
    for attempt in (
        client.prompt(session, "/say not stored"),
        client.request("session/new", {"cwd": str(project)}),
    ):
        error = attempt.error()
        assert error["code"] == -32603
        assert "sessions.db" in error["message"]
        assert "free some space" in error["message"]
    assert [session] == [
        info["sessionId"] for info in client.request("session/list", {}).result()["sessions"]
    ]
    assert "free some space" in client.stderr
    # What was stored can be read all the same.
    assert "before" in agent_text(client.replay(session, project))
    resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE, limits)
    client.still_works(session)
    told = conversation(client.updates(session)).items
    client.close()
    again = start()
    again.initialize()
    assert told == conversation(again.replay(session, project)).items
    again.still_works(session)


@needs_a_disk
def test_a_full_disk_loses_nothing_that_was_shown(start, home, project):
    """With a real file system that is full: the same, and what was shown is there afterwards."""
    client = start(command=on_a_disk("size=1m,mode=700"))
    client.initialize()
    session = client.new_session(project)
    client.still_works(session)
    told = conversation(client.updates(session)).items
    inside = Path(f"/proc/{client.process.pid}/root{home.state}/filler")
    with open(inside, "wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))
    error, number = None, 0
    while error is None:
        # There may be some room left in the journal.
        number += 1
        reply = client.prompt(session, f"/say {number} {'x' * 4000}")
        error = reply.response().get("error")
        if error is None:
            client.wait_idle(session)
    assert "free some space" in error["message"]
    inside.unlink()
    client.still_works(session)
    replayed = conversation(client.replay(session, project)).items
    assert told == replayed[: len(told)]
    assert conversation(client.updates(session)).items == replayed


# --- a log whose end is torn


def minus_bytes(state: Path) -> None:
    """The last 20 bytes of the journal are missing."""
    path = state / "sessions.db-wal"
    os.truncate(path, path.stat().st_size - 20)


def plus_nul(state: Path) -> None:
    """NUL bytes come after the end of both files."""
    for name in ("sessions.db-wal", "sessions.db"):
        with open(state / name, "ab") as file:
            file.write(bytes(8192 + 5))


def nul_at_the_end(state: Path) -> None:
    """The last bytes of the journal became NUL, as after a power cut."""
    path = state / "sessions.db-wal"
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.seek(size - 300)
        file.write(bytes(300))


@pytest.fixture(name="torn", scope="module")
def _torn(tmp_path_factory):
    """A home whose server was killed in its third turn; the session and what was told."""
    home = Home.create(tmp_path_factory.mktemp("torn"))
    client = Client(home)
    client.initialize()
    session = client.new_session(home.project())
    client.run(session, "/say one\n/read README.md")
    client.run(session, "/say two")
    told = conversation(client.updates(session)).items
    client.prompt(session, "/say three\n/sleep 600").result()
    client.wait_update(lambda update: "three" in str(update.body) and update.kind != "user_message")
    client.kill()
    client.wait_exit()
    client.close()
    return home, session, told


@pytest.mark.parametrize("tear", [minus_bytes, plus_nul, nul_at_the_end])
def test_a_torn_log_keeps_its_turns_and_takes_new_ones(torn, tmp_path, tear):
    """All whole turns of before and the new ones are there, in every later process."""
    home, session, told = torn
    project = home.project()
    copy = Home.create(tmp_path)
    shutil.rmtree(copy.state)
    shutil.copytree(home.state, copy.state)
    tear(copy.state / "term2")
    client = Client(copy)
    client.initialize()
    items = conversation(client.replay(session, project)).items
    assert told == items[: len(told)]
    client.still_works(session)
    client.close_session(session)
    assert client.resume(session, project).result() == {}
    client.still_works(session)
    replayed = conversation(client.replay(session, project)).items
    assert items == replayed[: len(items)]
    assert 4 == len(replayed) - len(items)
    client.close()
