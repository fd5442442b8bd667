"""
Sessions with an event of every kind, and the stores of earlier versions that hold them.

`python -m tests.unit.stored` writes the store of the present schema as SQL, to be kept
in `tests/unit/stores` before the schema changes: each version is migrated in a test.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from term2_acp.agent.ports import (
    DiffContent,
    FileChange,
    Location,
    PlanEntry,
    PlanPriority,
    PlanStatus,
    TerminalContent,
    TextContent,
    ToolKind,
)
from term2_acp.eventlog import (
    AgentText,
    AgentThought,
    Compacted,
    Event,
    LinkBlock,
    Notice,
    PermissionAnswered,
    PermissionAsked,
    PlannedCall,
    PlanUpdated,
    ResourceBlock,
    SessionCreated,
    SessionState,
    StateChanged,
    StepEnded,
    StopReason,
    SystemPromptSet,
    TerminalExited,
    TerminalOpened,
    TerminalOutput,
    TextBlock,
    TitleSet,
    ToolCallCreated,
    ToolCallEnded,
    ToolCallShowed,
    ToolCallStarted,
    ToolStatus,
    TurnEnded,
    TurnStarted,
    UsageReported,
    UserMessage,
)
from term2_acp.store import Store

FOLDER = Path(__file__).with_name("stores")
BIG = "a line of output that is long and much like the next\n" * 160

_CALLS = (
    PlannedCall("call_1", "search_replace", '{"path":"a.txt"}'),
    PlannedCall("call_2", "shell", '{"command":"make"}'),
)
_TURN: tuple[Event, ...] = (
    TurnStarted("turn_1"),
    UserMessage(
        "msg_1",
        (
            TextBlock("please \u2028 🙂"),
            LinkBlock("a.txt", "file:///project/a.txt", size=3),
            ResourceBlock("file:///project/b.txt", "inside", "text/plain"),
        ),
    ),
    TitleSet("please 🙂"),
    SystemPromptSet("You are a coding agent."),
    AgentThought("msg_2", "First"),
    AgentThought("msg_2", ", I look."),
    AgentText("msg_3", "Here it is."),
    StepEnded("tool_calls", _CALLS, "scripted", {"signature": [1, None, "x"]}),
    UsageReported(1000, 128_000),
    ToolCallCreated(
        "call_1", "search_replace", "Edit a.txt", ToolKind.EDIT, {"path": "a.txt"}, (Location("a"),)
    ),
    ToolCallStarted("call_1"),
    ToolCallEnded(
        "call_1",
        ToolStatus.COMPLETED,
        "Replaced.",
        (DiffContent((FileChange("/project/a.txt", "old\n", "new\n"),)),),
        (Location("/project/a.txt", 1),),
    ),
    ToolCallCreated("call_2", "shell", "make", ToolKind.EXECUTE, {"command": "make"}),
    PermissionAsked("call_2", ("approve", "reject")),
    StateChanged(SessionState.REQUIRES_ACTION),
    PermissionAnswered("call_2", "approve"),
    StateChanged(SessionState.RUNNING),
    ToolCallStarted("call_2"),
    TerminalOpened("term_1", "make", "/project"),
    ToolCallShowed("call_2", (TerminalContent("term_1"),)),
    TerminalOutput("term_1", b"\x00\xff bytes\n"),
    TerminalOutput("term_1", BIG.encode()),
    TerminalExited("term_1", 0),
    ToolCallEnded("call_2", ToolStatus.COMPLETED, BIG, (TerminalContent("term_1"),)),
    PlanUpdated((PlanEntry("pour", PlanPriority.HIGH, PlanStatus.COMPLETED),)),
    Compacted("The story so far.", ("please",), ("a.txt",)),
    AgentText("msg_4", "Done."),
    StepEnded("stop", (), "scripted"),
    Notice("msg_5", "A word of term2 itself."),
    TurnEnded("turn_1", StopReason.END_TURN),
)
_CUT: tuple[Event, ...] = (
    TurnStarted("turn_2"),
    UserMessage("msg_6", (TextBlock("go on"),)),
    AgentText("msg_7", "I sta"),
    StepEnded("tool_calls", _CALLS[1:], "scripted"),
    ToolCallCreated("call_2", "shell", "make", ToolKind.EXECUTE, {"command": "make"}),
    ToolCallShowed("call_2", (TextContent("half"),)),
)
SESSIONS: dict[str, tuple[Event, ...]] = {
    "sess_whole": (SessionCreated("/project"), *_TURN),
    "sess_cut": (SessionCreated("/project"), *_TURN, *_CUT),
    "sess_silent": (SessionCreated("/elsewhere"),),
}


def fill(store: Store) -> None:
    """Write the sessions into an empty store."""
    for session_id, events in SESSIONS.items():
        created = events[0]
        assert isinstance(created, SessionCreated)
        store.create_session(session_id, created.cwd)
        if events[1:]:
            store.append(session_id, 2, events[1:])


def earlier_store(version: int, directory: Path, cwd: str = "/project") -> None:
    """Make the database that an earlier version left in a folder, of sessions in `cwd`."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with closing(sqlite3.connect(directory / "sessions.db", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.executescript((FOLDER / f"version_{version}.sql").read_text(encoding="utf-8"))
        database.execute("UPDATE sessions SET cwd = ? WHERE cwd = '/project'", (cwd,))


def main() -> None:
    """Write the store of the present schema as SQL."""
    with tempfile.TemporaryDirectory() as directory:
        store = Store(directory)
        fill(store)
        store.close()
        with closing(sqlite3.connect(store.path)) as database:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            sys.stdout.write("".join(f"{line}\n" for line in database.iterdump()))
            sys.stdout.write(f"PRAGMA user_version = {version};\n")


if __name__ == "__main__":
    main()
