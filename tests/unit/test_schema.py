"""Stores of earlier versions: brought up to date as a whole, by one process that is alone."""

from __future__ import annotations

import contextlib
import hashlib
import resource
import sqlite3
import subprocess
import sys

import pytest

from term2_acp.errors import StoreError
from term2_acp.eventlog import AgentText, StopReason, ToolCallEnded, TurnEnded
from term2_acp.recovery import recover
from term2_acp.schema import SCHEMA_VERSION
from term2_acp.store import Store
from tests.unit.doubles import DEADLINE_S, together
from tests.unit.stored import FOLDER, SESSIONS, earlier_store

EARLIER = range(1, SCHEMA_VERSION)
HOLD = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("SELECT count(*) FROM sessions").fetchall()
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture(name="directory")
def _directory(tmp_path):
    """Where the store is."""
    return tmp_path / "state"


@contextlib.contextmanager
def opened(directory):
    """The store of a folder."""
    with contextlib.closing(Store(str(directory))) as store:
        yield store


@contextlib.contextmanager
def held_open(directory):
    """Another process has the database open, and does nothing with it."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory / "sessions.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout.readline() == b"open\n"
        try:
            yield
        finally:
            holder.communicate(timeout=DEADLINE_S)


def shape(path):
    """The tables and indexes as their columns, whatever the SQL that made them looked like."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        names = database.execute("SELECT type, name FROM sqlite_master ORDER BY name").fetchall()
        return {
            (kind, name): database.execute(f"PRAGMA {kind}_xinfo({name})").fetchall()
            for kind, name in names
        }


def version(path):
    """The version that a file says that it has."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        return database.execute("PRAGMA user_version").fetchone()[0]


def digest(directory):
    """What is in the database and its journal."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.iterdir())
        if not path.name.endswith("-shm")
    }


def test_there_is_a_store_of_every_earlier_version():
    """Whoever changes the schema keeps one of the last (`python -m tests.unit.stored`)."""
    assert sorted(FOLDER.glob("*.sql")) == [FOLDER / f"version_{n}.sql" for n in EARLIER]


@pytest.mark.parametrize("earlier", EARLIER)
def test_an_earlier_store_tells_the_same_after_its_migration(directory, earlier):
    """Every event, record and the key of the cursors; it has the form of a new one."""
    earlier_store(earlier, directory)
    path = directory / "sessions.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        key = database.execute("SELECT value FROM settings").fetchone()[0]
        rows = database.execute("SELECT id, cwd, title, updated_at FROM sessions").fetchall()
    with opened(directory) as store:
        for session_id, events in SESSIONS.items():
            assert list(enumerate(events, 1)) == list(store.read(session_id))
        assert key == store.cursor_key()
        for session_id, cwd, title, updated_at in rows:
            record = store.find(session_id)
            assert (cwd, title, updated_at) == (record.cwd, record.title, record.updated_at)
        assert ["sess_cut", "sess_whole"] == sorted(
            record.session_id for record in store.list_sessions(None, None, 10)
        )
    with opened(directory.with_name("new")) as store:
        expected = shape(store.path)
    assert expected == shape(path)
    assert SCHEMA_VERSION == version(path)
    # A second time there is nothing to do.
    before = path.read_bytes()
    with opened(directory):
        pass
    assert before == path.read_bytes()


@pytest.mark.parametrize("earlier", EARLIER)
def test_a_session_of_an_earlier_store_goes_on(directory, earlier):
    """What was left open in it is closed, and it takes new events, large ones too."""
    earlier_store(earlier, directory)
    with opened(directory) as store:
        record = recover(store, store.find("sess_cut"))
        store.append("sess_cut", record.last_seq + 1, [AgentText("m", "x" * 100_000)])
        events = [event for _seq, event in store.read("sess_cut", len(SESSIONS["sess_cut"]))]
        call, end, text = events
        assert isinstance(call, ToolCallEnded)
        assert TurnEnded("turn_2", StopReason.INTERRUPTED) == end
        assert AgentText("m", "x" * 100_000) == text


@pytest.mark.parametrize("earlier", EARLIER)
def test_an_earlier_store_that_is_in_use_is_not_touched(directory, earlier):
    """The start is refused with the reason, until whoever has it open is gone."""
    earlier_store(earlier, directory)
    with opened(directory.with_name("other")):
        pass
    with held_open(directory):
        before = digest(directory)
        with pytest.raises(StoreError, match="another process has it open.*close") as caught:
            Store(str(directory))
        assert "sessions.db" in caught.value.message
        assert before == digest(directory)
    assert earlier == version(directory / "sessions.db")
    with opened(directory) as store:
        assert store.find("sess_whole") is not None


@pytest.mark.parametrize("earlier", EARLIER)
def test_a_store_is_migrated_once_by_those_that_start_together(directory, earlier):
    """One does it; the others wait for it and find it done."""
    earlier_store(earlier, directory)
    stores = together([lambda: Store(str(directory))] * 4)
    for store in stores:
        assert SESSIONS["sess_whole"] == tuple(event for _n, event in store.read("sess_whole"))
        store.close()


def test_a_store_that_is_being_written_at_the_first_look_is_looked_at_again(directory):
    """It had no journal when it was asked for one, and is half written when it is read."""
    with opened(directory):
        pass
    path = directory / "sessions.db"
    whole, half = path.read_bytes(), bytearray(path.read_bytes())
    half[100] = 0  # No kind of page.
    contents = iter([bytes(half), whole])

    def write(_frame, event, argument):
        if event == "c_call" and argument is sqlite3.connect:
            content = next(contents, None)
            if content is not None:
                path.write_bytes(content)

    sys.setprofile(write)
    try:
        store = Store(str(directory))
    finally:
        sys.setprofile(None)
    store.close()
    assert next(contents, None) is None


def test_a_store_that_is_being_written_at_every_look_is_not_called_damaged(directory):
    """A backup that is put back over it, for instance: nobody is told to move it away."""
    with opened(directory):
        pass
    path = directory / "sessions.db"
    whole, half = path.read_bytes(), bytearray(path.read_bytes())
    half[100] = 0  # No kind of page.
    looks = 0

    def write(_frame, event, argument):
        nonlocal looks
        if event == "c_call" and argument is sqlite3.connect:
            looks += 1
            path.write_bytes(half + bytes(looks))

    sys.setprofile(write)
    try:
        with pytest.raises(StoreError, match="while another process changes it; try again"):
            Store(str(directory))
    finally:
        sys.setprofile(None)
    path.write_bytes(whole)
    Store(str(directory)).close()


@pytest.mark.parametrize("earlier", EARLIER)
def test_a_migration_that_fails_changes_nothing(directory, earlier):
    """On a full disk the store is still one of the earlier version, and works later."""
    earlier_store(earlier, directory)
    before = digest(directory)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(StoreError, match=r"sessions\.db.*free some space"):
            Store(str(directory))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert earlier == version(directory / "sessions.db")
    assert before == digest(directory)
    with opened(directory) as store:
        assert SESSIONS["sess_whole"] == tuple(event for _n, event in store.read("sess_whole"))


def test_a_database_of_another_program_is_refused_untouched(directory):
    """It is SQLite's, but no store."""
    directory.mkdir()
    path = directory / "sessions.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE bookmarks (url TEXT)")
    before = digest(directory)
    with pytest.raises(StoreError, match=r"sessions\.db.*another program.*not changed"):
        Store(str(directory))
    assert before == digest(directory)
