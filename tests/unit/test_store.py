"""The event store: what was appended is there, and what cannot be used is refused untouched."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import itertools
import os
import shutil
import sqlite3
import stat
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.agent.context import CONTEXT_EVENTS, Conversation
from term2_acp.agent.ports import ToolKind
from term2_acp.errors import StoreError
from term2_acp.eventlog import (
    AgentText,
    Compacted,
    SessionCreated,
    StopReason,
    TerminalOutput,
    TextBlock,
    TitleSet,
    ToolCallCreated,
    ToolCallEnded,
    ToolStatus,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from term2_acp.eventrows import LARGE, event_to_row
from term2_acp.schema import SCHEMA_VERSION
from term2_acp.store import Store
from tests.unit.doubles import together
from tests.unit.histories import cut_histories

PROMPT = (TurnStarted("t"), UserMessage("m", (TextBlock("hello"),)))


@pytest.fixture(name="directory")
def _directory(tmp_path):
    """Where the store is to be."""
    return str(tmp_path / "state")


@pytest.fixture(name="store")
def _store(directory):
    """An empty store."""
    store = Store(directory)
    yield store
    store.close()


@pytest.fixture(name="shared", scope="module")
def _shared(tmp_path_factory):
    """A store for many examples, each of which uses sessions of its own."""
    store = Store(str(tmp_path_factory.mktemp("store")))
    yield store
    store.close()


def log_of(store, session_id, **bounds):
    """The events of a session."""
    return [event for _seq, event in store.read(session_id, **bounds)]


def files(directory):
    """Each file of the folder with its hash."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(Path(directory).iterdir())
    }


def add_prompted(store, session_id, cwd="/project"):
    """A session that had a prompt."""
    store.create_session(session_id, cwd)
    store.append(session_id, 2, PROMPT)


SESSIONS = itertools.count()


@settings(deadline=None, max_examples=25)
@given(events=cut_histories(), cuts=st.lists(st.integers(0, 60), max_size=5))
def test_a_log_comes_back_however_it_was_appended(shared, events, cuts):
    """All of it, in order, with positions from 1 on; also in parts."""
    session_id = f"s{next(SESSIONS)}"
    shared.create_session(session_id, "/project")
    rest = events[1:]
    bounds = sorted({0, len(rest), *(cut for cut in cuts if cut < len(rest))})
    for start, end in itertools.pairwise(bounds):
        shared.append(session_id, start + 2, rest[start:end])
    assert list(enumerate(events, 1)) == list(shared.read(session_id))
    middle = len(events) // 2
    assert events[middle:] == log_of(shared, session_id, after=middle)
    assert events[:middle] == log_of(shared, session_id, upto=middle)
    record = shared.find(session_id)
    assert len(events) == record.last_seq
    open_turns = [n for n, event in enumerate(events, 1) if isinstance(event, TurnStarted)]
    is_open = sum(isinstance(event, TurnStarted | TurnEnded) for event in events) % 2
    assert record.open_turn == (open_turns[-1] if is_open else None)


def test_a_long_log_is_read_in_parts(store):
    """More events than one read holds, and others may write meanwhile."""
    store.create_session("s", "/project")
    texts = [AgentText("m", str(number)) for number in range(1000)]
    store.append("s", 2, texts)
    read = []
    for _seq, event in store.read("s", 1, 1001):
        if len(read) == 300:
            store.append("s", 1002, [AgentText("m", "later")])
        read.append(event)
    assert texts == read


def test_everything_survives_a_reopen(directory):
    """Events, records and the key of the cursors."""
    with contextlib.closing(Store(directory)) as store:
        add_prompted(store, "s")
        store.append("s", 4, [TitleSet("a title"), AgentText("m", "\u2028🙂\0")])
        before = log_of(store, "s"), store.find("s"), store.cursor_key()
    with contextlib.closing(Store(directory)) as store:
        assert before == (log_of(store, "s"), store.find("s"), store.cursor_key())
        assert "a title" == store.find("s").title


def test_what_was_appended_survives_a_crash(directory, store, tmp_path):
    """The files as they are at this instant have it, without a close or a checkpoint."""
    add_prompted(store, "s")
    store.append("s", 4, [AgentText("m", "shown")])
    copy = tmp_path / "crashed"
    shutil.copytree(directory, copy)
    with contextlib.closing(Store(str(copy))) as after:
        assert log_of(store, "s") == log_of(after, "s")


def test_an_unknown_session_has_no_record_and_no_events(store):
    """Neither is an error."""
    assert store.find("nothing") is None
    assert [] == log_of(store, "nothing")


def test_unknown_kinds_of_events_are_skipped(directory, store):
    """What a newer version wrote into this schema does not hide the rest."""
    store.create_session("s", "/project")
    with contextlib.closing(sqlite3.connect(store.path)) as database, database:
        database.execute("INSERT INTO events VALUES ('s', 2, 0, 'hologram_shown', '{}', NULL)")
    store.append("s", 3, [AgentText("m", "after")])
    assert [(1, SessionCreated("/project")), (3, AgentText("m", "after"))] == list(store.read("s"))
    assert 3 == store.find("s").last_seq


def test_a_position_is_written_once(store):
    """Whoever is behind the log is told, and nothing of its events is kept."""
    add_prompted(store, "s")
    before = log_of(store, "s"), store.find("s")
    for seq in (1, 3, 2):
        with pytest.raises(StoreError):
            store.append("s", seq, [AgentText("m", "x"), TitleSet("y"), TurnEnded("t", "end_turn")])
    assert before == (log_of(store, "s"), store.find("s"))
    store.append("s", 4, [AgentText("m", "goes on")])


def test_an_append_is_all_or_nothing(store):
    """A conflict at its end takes back its beginning."""
    store.create_session("s", "/project")
    store.append("s", 4, [AgentText("m", "there already")])
    with pytest.raises(StoreError):
        store.append("s", 2, [TurnStarted("t"), AgentText("m", "x"), AgentText("m", "y")])
    assert [1, 4] == [seq for seq, _event in store.read("s")]
    assert store.find("s").open_turn is None


def test_a_session_is_created_once(store):
    """A second one of that id is refused and changes nothing."""
    store.create_session("s", "/project")
    with pytest.raises(StoreError):
        store.create_session("s", "/other")
    assert "/project" == store.find("s").cwd


def test_two_stores_on_one_file_see_each_others_events(directory):
    """Two processes may run at once, each with sessions of its own."""
    with contextlib.closing(Store(directory)) as one, contextlib.closing(Store(directory)) as two:
        assert one.cursor_key() == two.cursor_key()

        def write(store, name):
            for number in range(30):
                add_prompted(store, f"{name}{number}")

        together([lambda: write(one, "a"), lambda: write(two, "b")])
        for store in (one, two):
            assert 60 == len(store.list_sessions(None, None, 100))
        one.append("b1", 4, [AgentText("m", "by the other")])
        with pytest.raises(StoreError):
            two.append("b1", 4, [AgentText("m", "too late")])
        assert AgentText("m", "by the other") == log_of(two, "b1")[-1]


def test_a_store_is_made_once_by_those_that_start_together(directory):
    """The one that comes second finds it done."""
    stores = together([lambda: Store(directory)] * 4)
    assert 1 == len({store.cursor_key() for store in stores})
    for store in stores:
        store.close()


def test_threads_may_use_one_store(store):
    """Writers and readers do not disturb each other."""

    def write(name):
        store.create_session(name, "/project")
        for number in range(50):
            store.append(name, number + 2, [AgentText("m", str(number))])

    def read():
        for _ in range(50):
            for name in "abc":
                numbers = [int(event.text) for event in log_of(store, name)[1:]]
                assert list(range(len(numbers))) == numbers

    together([lambda: write("a"), lambda: write("b"), lambda: write("c"), read])
    assert [51, 51, 51] == [store.find(name).last_seq for name in "abc"]


def pages(store, cwd, size, between=lambda: None):
    """The list, page by page."""
    listed, before = [], None
    while True:
        page = store.list_sessions(cwd, before, size)
        listed += [record.session_id for record in page]
        if len(page) < size:
            return listed
        before = (page[-1].updated_at, page[-1].session_id)
        between()


@pytest.mark.parametrize("size", [1, 3, 7, 50])
def test_the_list_is_stable_while_sessions_are_added(store, size):
    """Newest first; each that was there at the start comes once, whatever comes meanwhile."""
    for number in range(10):
        add_prompted(store, f"s{number}", "/a" if number % 2 else "/b")
    names = iter(range(100))
    expected = [f"s{number}" for number in reversed(range(10))]
    assert expected == pages(store, None, size, lambda: add_prompted(store, f"new{next(names)}"))
    assert [name for name in expected if int(name[1:]) % 2] == pages(store, "/a", size)
    assert [] == pages(store, "/nowhere", size)


def test_sessions_of_the_same_instant_are_all_listed(store):
    """The key of a page is the instant and the id."""
    for number in range(9):
        add_prompted(store, f"s{number}")
    with contextlib.closing(sqlite3.connect(store.path)) as database, database:
        database.execute("UPDATE sessions SET updated_at = 5")
    assert [f"s{number}" for number in reversed(range(9))] == pages(store, None, 2)


def test_a_session_without_a_prompt_is_not_listed_and_activity_comes_first(store):
    """The start and the end of a turn count as activity."""
    store.create_session("silent", "/project")
    for name in ("one", "two"):
        add_prompted(store, name)
    assert ["two", "one"] == pages(store, None, 10)
    store.append("one", 4, [TurnEnded("t", StopReason.END_TURN)])
    assert ["one", "two"] == pages(store, None, 10)


def test_the_files_are_private(directory):
    """Whatever the umask is, SQLite's own files too, and what was missing on the way to them."""
    way = directory
    directory = os.path.join(way, "a", "b")
    before = os.umask(0)
    try:
        store = Store(directory)
        add_prompted(store, "s")
    finally:
        os.umask(before)
    for folder in (way, os.path.dirname(directory), directory):
        assert 0o700 == stat.S_IMODE(os.stat(folder).st_mode)
    modes = {
        name: stat.S_IMODE(os.stat(os.path.join(directory, name)).st_mode)
        for name in os.listdir(directory)
    }
    store.close()
    assert "sessions.db-wal" in modes
    assert {0o600} == set(modes.values())


def test_what_others_could_read_is_taken_from_them(directory, store):
    """A folder and a file that were made readable for all, by hand or by a copy."""
    store.close()
    os.chmod(directory, 0o755)  # noqa: S103 (the fault that is mended)
    os.chmod(store.path, 0o664)
    Store(directory).close()
    assert 0o700 == stat.S_IMODE(os.stat(directory).st_mode)
    assert 0o600 == stat.S_IMODE(os.stat(store.path).st_mode)


def refused(directory, match):
    """The store is refused with a text of one line; what is there afterwards."""
    with pytest.raises(StoreError, match=match) as caught:
        Store(directory)
    assert "sessions.db" in caught.value.message
    assert "\n" not in caught.value.message
    caught = None
    gc.collect()
    return files(directory)


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 2**31 - 1])
def test_a_newer_store_is_refused_untouched(directory, store, version):
    """The message says what to do."""
    add_prompted(store, "s")
    store.close()
    with contextlib.closing(sqlite3.connect(store.path)) as database:
        database.execute(f"PRAGMA user_version = {version}")
    before = files(directory)
    assert before == refused(directory, f"newer term2.*{version}.*update term2")


def test_a_newer_store_with_a_journal_is_refused_untouched(directory, store, tmp_path):
    """A newer version that was killed left a journal; that is its own to recover."""
    add_prompted(store, "s")
    with contextlib.closing(sqlite3.connect(store.path)) as database:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    copy = tmp_path / "crashed"
    shutil.copytree(directory, copy)
    before = files(copy)
    assert os.path.getsize(copy / "sessions.db-wal") > 0
    after = refused(str(copy), "newer term2")
    # The index of the journal is rebuilt by whoever opens it.
    for left in (before, after):
        left.pop("sessions.db-shm", None)
    assert before == after


def damaged(blob, kind):
    """A database in which something is broken."""
    return {
        "text": b"this is no database\n" * 500,
        "nothing but NUL": bytes(len(blob)),
        "a NUL header": bytes(4096) + blob[4096:],
        "a short file": blob[:50],
        "half of the file": blob[: len(blob) // 2],
    }[kind]


@pytest.mark.parametrize(
    "kind", ["text", "nothing but NUL", "a NUL header", "a short file", "half of the file"]
)
def test_a_damaged_store_is_refused_untouched(directory, store, kind):
    """The message says that it was not changed, and that is so."""
    for number in range(40):
        add_prompted(store, f"s{number}")
        store.append(f"s{number}", 4, [AgentText("m", "x" * 2000)])
    store.close()
    with open(store.path, "rb") as file:
        blob = file.read()
    with open(store.path, "wb") as file:
        file.write(damaged(blob, kind))
    before = files(directory)
    assert before == refused(directory, "damaged")


def test_damage_that_is_met_later_is_a_clear_error(directory, store):
    """Pages in the middle are lost: whatever needs them says so, and nothing else is raised."""
    for number in range(40):
        add_prompted(store, f"s{number}")
        store.append(f"s{number}", 4, [AgentText("m", "x" * 2000)])
    store.close()
    with open(store.path, "r+b") as file:
        file.seek(4096)
        file.write(bytes(4096 * 9))
    before = files(directory)
    with contextlib.closing(Store(directory)) as broken:
        for use in (
            lambda: broken.find("s3"),
            lambda: log_of(broken, "s3"),
            lambda: broken.list_sessions(None, None, 50),
            lambda: broken.create_session("new", "/project"),
            lambda: broken.append("s3", 5, [AgentText("m", "y")]),
            lambda: broken.append("s3", 5, [TurnEnded("t", StopReason.END_TURN)]),
        ):
            with pytest.raises(StoreError, match="damaged"):
                use()
    assert before == files(directory)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET at = 'noon' WHERE seq = 2",
        "UPDATE events SET at = 4611686018427387904 WHERE seq = 2",
        "UPDATE events SET data = x'00ff' WHERE seq = 2",
        "UPDATE events SET data = '[]' WHERE seq = 2",
        "UPDATE events SET data = CAST(x'7bff' AS TEXT) WHERE seq = 2",
        "UPDATE events SET large = 99 WHERE seq = 2",
        "UPDATE sessions SET updated_at = x''",
        "UPDATE sessions SET updated_at = 1.5",
        "UPDATE sessions SET updated_at = 4611686018427387904",
        "UPDATE sessions SET created_at = 'noon'",
        "UPDATE sessions SET open_turn = 'x'",
        "UPDATE sessions SET title = x'00'",
        "UPDATE sessions SET cwd = CAST(x'ff' AS TEXT)",
        "DELETE FROM sqlite_master WHERE name LIKE '%events%'",
    ],
)
def test_rows_that_cannot_be_are_a_clear_error(directory, store, change):
    """Whatever reads them names the file and the remedy; nothing fails in another way."""
    add_prompted(store, "s")
    store.close()
    with contextlib.closing(sqlite3.connect(store.path)) as database, database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute(change)
    with contextlib.closing(Store(directory)) as broken:
        failed = []
        for use in (
            lambda: broken.find("s"),
            lambda: log_of(broken, "s"),
            lambda: broken.list_sessions(None, None, 50),
        ):
            try:
                use()
            except StoreError as error:
                failed.append(error.message)
    assert failed
    for message in failed:
        assert store.path in message
        assert "damaged" in message
        assert "move it away" in message


def test_a_format_that_is_none_is_damage(directory, store):
    """SQLite would say that it may not be written."""
    store.close()
    with open(store.path, "r+b") as file:
        file.seek(18)
        file.write(b"\x07")
    before = files(directory)
    assert before == refused(directory, "damaged")


def test_a_journal_without_its_database_is_left_alone(directory, store):
    """SQLite would delete it, and what was told last with it."""
    add_prompted(store, "s")
    journal = f"{store.path}-wal"
    with open(journal, "rb") as file:
        blob = file.read()
    store.close()
    for left in (b"", None):
        with open(journal, "wb") as file:
            file.write(blob)
        os.truncate(store.path, 0) if left is not None else os.unlink(store.path)
        before = files(directory)
        assert before == refused(directory, "its journal .* is there; put it back")


def test_a_store_that_lost_its_name_takes_no_turn(directory, store, tmp_path):
    """What would be written into a file that was moved or deleted is found by nobody."""
    add_prompted(store, "s")
    os.rename(store.path, tmp_path / "moved")
    for another in (False, True):
        if another:
            shutil.copy(tmp_path / "moved", store.path)
        with pytest.raises(StoreError, match=r"moved or deleted.*put it back, or restart"):
            store.append("s", 4, [TurnStarted("t")])
    os.rename(tmp_path / "moved", store.path)
    store.append("s", 4, [TurnStarted("t")])


def test_a_store_that_cannot_be_made_says_why(tmp_path):
    """The path and the remedy are named."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"XDG_STATE_HOME"):
        Store(str(tmp_path / "file"))
    (tmp_path / "state" / "sessions.db").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"sessions\.db"):
        Store(str(tmp_path / "state"))


def test_a_closed_store_raises_from_every_method(store):
    """Closing twice is once."""
    store.create_session("s", "/project")
    store.close()
    store.close()
    for use in (
        lambda: store.find("s"),
        lambda: log_of(store, "s"),
        lambda: store.list_sessions(None, None, 1),
        store.cursor_key,
        lambda: store.create_session("t", "/project"),
        lambda: store.append("s", 2, [AgentText("m", "x")]),
    ):
        with pytest.raises(StoreError, match="closed"):
            use()


def nested(depth):
    """What json.loads makes of many brackets."""
    value = None
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "fail",
    [
        pytest.param(
            lambda store: store.create_session("bad", "/folder\udcff"), id="a cwd that is no UTF-8"
        ),
        pytest.param(lambda store: store.append("s", 2, [TitleSet("lone \ud800")]), id="a title"),
        pytest.param(
            lambda store: store.append(
                "s", 2, [ToolCallCreated("c", "n", "t", ToolKind.READ, nested(600))]
            ),
            id="deeply nested arguments",
        ),
    ],
)
def test_a_write_that_fails_in_any_way_leaves_the_store_usable(store, directory, fail):
    """For this process and for every other one."""
    store.create_session("s", "/project")
    with contextlib.suppress(Exception):
        fail(store)
    add_prompted(store, "next")
    with contextlib.closing(sqlite3.connect(store.path, timeout=0)) as database, database:
        database.execute("BEGIN IMMEDIATE")
    assert 3 == store.find("next").last_seq


@settings(deadline=None, max_examples=40)
@given(events=cut_histories(max_turns=4))
def test_the_model_s_context_needs_only_a_part_of_the_log(shared, events):
    """From the turn of the last compaction on, and only some kinds: the same context."""
    session_id = f"s{next(SESSIONS)}"
    shared.create_session(session_id, "/project")
    if events[1:]:
        shared.append(session_id, 2, events[1:])
    start = shared.find(session_id).context_from or 1
    whole, part = Conversation(), Conversation()
    for event in events:
        whole.apply(event)
    for _seq, event in shared.read(session_id, start - 1, kinds=CONTEXT_EVENTS):
        part.apply(event)
    assert whole.messages() == part.messages()
    assert whole.past() == part.past()
    assert (whole.used_tokens, whole.system) == (part.used_tokens, part.system)
    compacted = [n for n, event in enumerate(events, 1) if isinstance(event, Compacted)]
    if compacted:
        turns = [n for n, event in enumerate(events, 1) if isinstance(event, TurnStarted)]
        assert start == max(n for n in turns if n < compacted[-1])


def test_a_large_event_is_kept_apart_and_small(directory, store):
    """Compressed, out of its row, and read again as it was; its row alone is not enough."""
    store.create_session("s", "/project")
    output = b"".join(b"line %d of a log, like many others\n" % n for n in range(30_000))
    events = [
        TerminalOutput("t", output),
        AgentText("m", "small"),
        ToolCallEnded("c", ToolStatus.COMPLETED, "r" * 50_000),
        TerminalOutput("t", os.urandom(20_000)),
    ]
    store.append("s", 2, events)
    assert events == log_of(store, "s", after=1)
    with contextlib.closing(sqlite3.connect(store.path)) as database, database:
        sizes = database.execute("SELECT length(data) FROM events").fetchall()
        assert max(size for (size,) in sizes) < LARGE
        (stored,) = database.execute("SELECT sum(length(data)) FROM large_data").fetchone()
        assert stored < len(output) / 3
        database.execute("DELETE FROM large_data WHERE id = 2")
    with pytest.raises(StoreError, match="damaged"):
        log_of(store, "s")


def test_damage_in_a_large_event_is_a_clear_error(store):
    """It is not zlib's."""
    store.create_session("s", "/project")
    store.append("s", 2, [AgentText("m", "x" * LARGE)])
    with contextlib.closing(sqlite3.connect(store.path)) as database, database:
        database.execute("UPDATE large_data SET data = substr(data, 1, 12)")
    with pytest.raises(StoreError, match="damaged"):
        log_of(store, "s")


def test_large_events_are_read_one_at_a_time(store):
    """However many there are, also those that an earlier version kept in their rows."""
    store.create_session("s", "/project")
    one = 1024 * 1024
    store.append("s", 2, [TerminalOutput("t", bytes([65 + n]) * one) for n in range(30)])
    with contextlib.closing(sqlite3.connect(store.path)) as database, database:
        database.executemany(
            "INSERT INTO events VALUES ('s', ?, 0, ?, ?, NULL)",
            [(32 + n, *event_to_row(AgentText("m", str(n) * one))) for n in range(9)],
        )
    tracemalloc.start()
    try:
        read = sum(1 for _ in store.read("s"))
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 40 == read
    assert peak < 12 * one
