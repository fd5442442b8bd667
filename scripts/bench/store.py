"""
The session store under growth: each figure at 1, 10 and 100 times a size.

What may not grow is judged against the smallest. `PYTHONPATH=scripts python -m bench.store`
measures this alone. Stores are made in temporary folders.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import attrs

from bench.figures import Figure, as_table
from term2_acp.agent.context import CONTEXT_EVENTS, Conversation
from term2_acp.agent.ports import TerminalContent, ToolKind
from term2_acp.directories import WorkspaceRules
from term2_acp.eventlog import (
    AgentText,
    AgentThought,
    Compacted,
    Event,
    PlannedCall,
    StepEnded,
    StopReason,
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
from term2_acp.recovery import recover
from term2_acp.registry import SessionRegistry
from term2_acp.replay import items
from term2_acp.store import SessionRecord, Store

_SIZES = (100, 1_000, 10_000)
_LENGTHS = (1_000, 10_000, 100_000)
_COMPACTED_EVERY = 40
_BATCH = 500
_RESUMES = 20
# What does not grow differs all the same, on a machine that does other things too.
_NO_GROWTH = 5.0
_MEMORY = 1.5


@attrs.frozen
class _Run:
    """What the real program did."""

    resume_s: float
    replay_s: float
    peak_mib: float


def measure(*, quick: bool = False) -> list[Figure]:
    """Every figure; `quick` leaves out the largest size."""
    sizes, lengths = (_SIZES[:2], _LENGTHS[:2]) if quick else (_SIZES, _LENGTHS)
    return [*_first_page(sizes), *_sessions(lengths), *_appends()]


def _first_page(sizes: tuple[int, ...]) -> list[Figure]:
    values = []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="term2-bench-") as folder:
            store = Store(folder)
            _fill_list(store, size)
            store.close()
            registry = _registry(folder)
            values.append(1e6 * _median(lambda r=registry: r.list_page(None, None), 100))
            registry.close()
    return _series("session/list, first page, sessions", "µs", sizes, values, _NO_GROWTH)


def _fill_list(store: Store, count: int) -> None:
    with store.database.transaction() as connection:
        connection.executemany(
            "INSERT INTO sessions (id, cwd, title, created_at, updated_at, prompted)"
            " VALUES (?, ?, ?, ?, ?, 1)",
            [
                (f"sess_{n:024x}", f"/project/{n % 20}", f"title {n}", n * 1000, n * 1000)
                for n in range(count)
            ],
        )


def _sessions(lengths: tuple[int, ...]) -> list[Figure]:
    resumes, contexts, speeds, memory, programs = [], [], [], [], []
    for length in lengths:
        with tempfile.TemporaryDirectory(prefix="term2-bench-") as folder:
            project = os.path.join(folder, "work", "project")
            os.makedirs(project)
            state = os.path.join(folder, "state", "term2")
            store = Store(state)
            _fill_session(store, project, length)
            contexts.append(1e3 * _median(lambda s=store: _context(s), 3))
            speeds.append(length / _median(lambda s=store: _replayed(s), 1))
            store.close()
            run = _program(folder, project)
            resumes.append(1e3 * run.resume_s)
            programs.append(length / run.replay_s)
            memory.append(run.peak_mib)
    return [
        *_series("session/resume without replay, events", "ms", lengths, resumes, _NO_GROWTH),
        *_series("context of the first prompt after a resume, events", "ms", lengths, contexts),
        *_series("replay folded in process, events", "events/s", lengths, speeds),
        *_series("replay over the pipe, events", "events/s", lengths, programs),
        *_series("memory of the program after a replay, events", "MiB", lengths, memory, _MEMORY),
    ]


def _appends() -> list[Figure]:
    results = []
    with tempfile.TemporaryDirectory(prefix="term2-bench-") as folder:
        store = Store(folder)
        kinds: tuple[tuple[str, Callable[[int], list[Event]], int], ...] = (
            ("a chunk a commit, survives SIGKILL", lambda n: [AgentText("m", f"word {n} ")], 2000),
            (
                "ten chunks a commit, survives SIGKILL",
                lambda n: [AgentText("m", f"word {n}.{k} ") for k in range(10)],
                500,
            ),
            ("a turn's start a commit, survives a power cut", lambda n: [TurnStarted(f"{n}")], 200),
        )
        for number, (name, events, count) in enumerate(kinds):
            session_id = f"s{number}"
            store.create_session(session_id, "/project")
            seq, started = 2, time.perf_counter()
            for n in range(count):
                batch = events(n)
                store.append(session_id, seq, batch)
                seq += len(batch)
            rate = (seq - 2) / (time.perf_counter() - started)
            results.append(Figure(f"append, {name}", "events/s", rate))
        store.close()
    return results


def _fill_session(store: Store, cwd: str, length: int) -> None:
    store.create_session("s", cwd)
    events = islice(_history(), length - 1)
    seq = 2
    while batch := list(islice(events, _BATCH)):
        store.append("s", seq, batch)
        seq += len(batch)
    # The end that a turn has; what was cut off is open otherwise.
    recover(store, _found(store))


def _history() -> Iterator[Event]:
    yield TitleSet("a long session")
    number = 0
    while True:
        number += 1
        call, terminal = f"call_{number}", f"term_{number}"
        yield TurnStarted(f"turn_{number}")
        yield UserMessage(f"u{number}", (TextBlock(f"please do number {number}"),))
        if number % _COMPACTED_EVERY == 0:
            yield Compacted("What came before, in short. " * 40)
        yield from (AgentThought(f"t{number}", f"thought {n} ") for n in range(4))
        yield from (AgentText(f"a{number}", f"some words, part {n} ") for n in range(8))
        yield StepEnded("tool_calls", (PlannedCall(call, "shell", '{"command":"make"}'),), "bench")
        yield UsageReported(1000, 128_000)
        yield ToolCallCreated(call, "shell", "make", ToolKind.EXECUTE, {"command": "make"})
        yield ToolCallStarted(call)
        yield TerminalOpened(terminal, "make", "/project")
        yield ToolCallShowed(call, (TerminalContent(terminal),))
        yield from (TerminalOutput(terminal, b"cc -c file.c\n" * 5) for _ in range(6))
        yield TerminalOutput(terminal, b"a long output of a test, line by line\n" * 400)
        yield TerminalExited(terminal, 0)
        result = "made it\n" * 50
        yield ToolCallEnded(call, ToolStatus.COMPLETED, result, (TerminalContent(terminal),))
        yield AgentText(f"b{number}", "Done.")
        yield StepEnded("stop", (), "bench")
        yield TurnEnded(f"turn_{number}", StopReason.END_TURN)


def _found(store: Store) -> SessionRecord:
    record = store.find("s")
    if record is None:
        raise RuntimeError("the session is not there")
    return record


def _context(store: Store) -> None:
    conversation = Conversation()
    start = _found(store).context_from or 1
    for _seq, event in store.read("s", start - 1, kinds=CONTEXT_EVENTS):
        conversation.apply(event)
    conversation.messages()


def _replayed(store: Store) -> None:
    for _item in items(event for _seq, event in store.read("s")):
        pass


def _program(folder: str, project: str) -> _Run:
    """Resume over the real program, silently and with a replay."""
    environment = {
        name: value for name, value in os.environ.items() if not name.endswith(("_KEY", "_TOKEN"))
    }
    environment.update(
        XDG_STATE_HOME=os.path.join(folder, "state"),
        XDG_CONFIG_HOME=os.path.join(folder, "config"),
        HOME=folder,
    )
    with subprocess.Popen(
        [sys.executable, "-m", "term2_acp", "acp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).resolve().parents[2],
        env=environment,
    ) as server:

        def ask(number: int, method: str, params: dict[str, object]) -> None:
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            server.stdin.write(json.dumps(message).encode() + b"\n")
            server.stdin.flush()
            start = b'{"jsonrpc":"2.0","id":%d,' % number
            for line in server.stdout:
                if line.startswith(start):
                    if b'"error"' in line:
                        raise RuntimeError(line.decode())
                    return
            raise RuntimeError("the server ended")

        ask(1, "initialize", {"protocolVersion": 2, "info": {"name": "bench", "version": "1"}})
        silent = {"sessionId": "s", "cwd": project}
        ask(2, "session/resume", silent)
        samples = []
        for number in range(3, 3 + 2 * _RESUMES, 2):
            ask(number, "session/close", {"sessionId": "s"})
            started = time.perf_counter()
            ask(number + 1, "session/resume", silent)
            samples.append(time.perf_counter() - started)
        started = time.perf_counter()
        ask(3 + 2 * _RESUMES, "session/resume", {**silent, "replayFrom": {"type": "start"}})
        run = _Run(statistics.median(samples), time.perf_counter() - started, _peak_mib(server.pid))
        server.stdin.close()
        server.wait(30)
    return run


def _peak_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the system does not tell the peak of memory")


def _registry(folder: str) -> SessionRegistry:
    def no_session(*_arguments: object) -> None:
        raise RuntimeError("nothing is opened here")

    return SessionRegistry(folder, WorkspaceRules("/nowhere", ()), no_session, 1)


def _median(function: Callable[[], object], rounds: int) -> float:
    samples = []
    for _ in range(rounds):
        started = time.perf_counter()
        function()
        samples.append(time.perf_counter() - started)
    return statistics.median(samples)


def _series(
    name: str,
    unit: str,
    sizes: Sequence[int],
    values: Sequence[float],
    most: float | None = None,
) -> list[Figure]:
    """A figure a size; the last is judged if it may be only `most` times the first."""
    figures = [
        Figure(f"{name}: {size:,}", unit, value) for size, value in zip(sizes, values, strict=True)
    ]
    if most is not None:
        figures[-1] = attrs.evolve(
            figures[-1],
            peer=f"{sizes[0]:,}",
            theirs=values[0],
            bar=f"at most {most:g} times",
            held=values[-1] <= most * values[0],
        )
    return figures


def main(arguments: list[str]) -> int:
    """Print a Markdown table; the exit status is 1 if anything grows that may not."""
    parser = argparse.ArgumentParser(prog="bench.store", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without the largest size")
    figures = measure(quick=parser.parse_args(arguments).quick)
    print(as_table(figures))
    return 1 if any(figure.held is False for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
