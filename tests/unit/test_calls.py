"""Tool calls from their first event to their last: judged, asked, run, ended, whatever happens."""

from __future__ import annotations

import json
import logging
import threading

import pytest

from term2_acp.agent.calls import CallRunner, Surroundings
from term2_acp.agent.cancel import Cancelled
from term2_acp.agent.ports import (
    Access,
    AccessMode,
    CallPlan,
    DiffContent,
    FileChange,
    Location,
    TextContent,
    ToolError,
    ToolKind,
    ToolOutcome,
)
from term2_acp.errors import StoreError
from term2_acp.eventlog import (
    PermissionAnswered,
    PermissionAsked,
    PlannedCall,
    SessionState,
    StateChanged,
    TerminalExited,
    TerminalOpened,
    TerminalOutput,
    ToolCallCreated,
    ToolCallEnded,
    ToolCallShowed,
    ToolCallStarted,
    ToolStatus,
)
from term2_acp.files.ledger import ReadLedger
from term2_acp.permissions import Choice, Permissions
from term2_acp.redaction import Redactor
from term2_acp.rpc.framing import encode
from term2_acp.workspace import Workspace
from tests.unit.doubles import (
    DEADLINE_S,
    Background,
    NoShell,
    RecordingLog,
    ScriptedClient,
    ScriptedTool,
)

ROOT = "/project"
SECRET = "s3cr3t-value-of-a-variable"


def reading(params):
    """A plan that reads the path, wherever it is."""
    return CallPlan(f"Read {params.path}", (Access(params.path, AccessMode.READ),))


def executing(params):
    """A plan that runs a program."""
    return CallPlan(f"Run {params.path}", executes=True)


class Bench:
    """A runner with scripted tools and answers, and the log it writes."""

    def __init__(self, *answers, tools=(), on_emit=lambda event: None):
        self.log = RecordingLog(on_emit)
        self.client = ScriptedClient(*answers)
        self.permissions = Permissions(ROOT, (), "/home/user")
        self.tools = {
            tool.name: tool
            for tool in (
                ScriptedTool("read", planned=reading),
                ScriptedTool("run", ToolKind.EXECUTE, planned=executing),
                *tools,
            )
        }
        self.runner = CallRunner(
            Surroundings(
                session_id="s",
                workspace=Workspace(ROOT),
                permissions=self.permissions,
                ledger=ReadLedger(),
                shell=NoShell(),
                tools=self.tools,
                client=self.client,
                redactor=Redactor({"MY_TOKEN": SECRET}),
            ),
            self.log,
        )

    def kinds(self):
        """The kinds of the events, in order."""
        return [type(event) for event in self.log.events]

    def ended(self):
        """The one end of the one call."""
        created = self.log.of(ToolCallCreated)
        ended = self.log.of(ToolCallEnded)
        assert [event.tool_call_id for event in created] == [event.tool_call_id for event in ended]
        return ended[0]


def call(name="read", path=f"{ROOT}/a", number=1, arguments=None):
    """A call as the model asked for it."""
    return PlannedCall(f"c{number}", name, arguments or json.dumps({"path": path}))


def test_a_free_call_is_created_started_and_completed():
    """It is shown before anything of it happens; nobody is asked."""
    bench = Bench()
    assert bench.runner.run(call()) is True
    assert [
        ToolCallCreated("c1", "read", f"Read {ROOT}/a", ToolKind.READ, {"path": f"{ROOT}/a"}),
        ToolCallStarted("c1"),
        ToolCallEnded("c1", ToolStatus.COMPLETED, f"did {ROOT}/a", (TextContent(f"did {ROOT}/a"),)),
    ] == bench.log.events
    assert [] == bench.client.questions


@pytest.mark.parametrize("answer", ["approve", "allow-once"])
def test_an_approved_call_runs(answer):
    """The order is: shown, asked, the state, the answer, the state again, then it runs."""
    bench = Bench(answer)
    assert bench.runner.run(call("run")) is True
    assert [
        ToolCallCreated,
        PermissionAsked,
        StateChanged,
        PermissionAnswered,
        StateChanged,
        ToolCallStarted,
        ToolCallEnded,
    ] == bench.kinds()
    assert [SessionState.REQUIRES_ACTION, SessionState.RUNNING] == [
        event.state for event in bench.log.of(StateChanged)
    ]
    assert [PermissionAnswered("c1", Choice.APPROVE)] == bench.log.of(PermissionAnswered)
    (question,) = bench.client.questions
    assert ("s", "c1", "run", ToolKind.EXECUTE) == (
        question.session_id,
        question.tool_call_id,
        question.name,
        question.kind,
    )


@pytest.mark.parametrize(
    "answer",
    ["reject", "deny", None, "", "allow-folder-session", "allow-remember", "Approve", "nonsense"],
)
def test_anything_but_an_offered_approval_denies(answer):
    """The call has failed without running, and the model is told that it was the user."""
    bench = Bench(answer)
    assert bench.runner.run(call("run")) is False
    assert ToolStatus.FAILED is bench.ended().status
    assert "denied" in bench.ended().result
    assert [] == bench.tools["run"].ran
    assert [] == bench.log.of(ToolCallStarted)
    assert SessionState.RUNNING is bench.log.of(StateChanged)[-1].state


def test_a_lasting_answer_becomes_a_grant_for_the_next_calls():
    """Of the same folder and mode; the others ask again."""
    bench = Bench("allow-folder-session", "reject", "reject")
    assert bench.runner.run(call(path="/data/a"))
    assert bench.runner.run(call(path="/data/b", number=2))
    assert not bench.runner.run(call(path="/data-2/b", number=3))
    assert not bench.runner.run(call("run", number=4))
    assert 3 == len(bench.client.questions)


@pytest.mark.parametrize(
    ("planned", "text"),
    [
        (call("nothing"), "There is no tool 'nothing'.*read, run"),
        (call(""), "There is no tool"),
        (call(arguments="{"), "not valid JSON"),
        (call(arguments='{"path": "a"} {}'), "not valid JSON"),
        (call(arguments="[]"), "one JSON object"),
        (call(arguments="5"), "one JSON object"),
        (call(arguments=" "), "path"),
        (call(arguments='{"path": 5}'), "path"),
        (call(arguments='{"path": "a", "count": "2"}'), "count"),
        (call(arguments='{"path": "a", "count": 1.0}'), "count"),
        (call(arguments='{"path": "a", "colour": 1}'), "colour"),
        (call(arguments="[" * 100_000), "not valid JSON"),
    ],
)
def test_a_call_that_cannot_run_is_shown_and_has_failed(planned, text):
    """The model is told what was wrong, and the turn goes on."""
    bench = Bench()
    assert bench.runner.run(planned) is False
    assert [ToolCallCreated, ToolCallEnded] == bench.kinds()
    assert ToolStatus.FAILED is bench.ended().status
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(bench.ended().result)
    assert bench.log.of(ToolCallCreated)[0].title


@pytest.mark.parametrize(
    "number",
    [
        pytest.param("NaN"),
        pytest.param("-Infinity"),
        pytest.param("1e999"),
        "1e308",
        "5",
    ],
)
def test_what_is_shown_of_arguments_can_be_sent(number):
    """Python reads numbers that no JSON text can hold; the writer refuses them."""
    bench = Bench()
    bench.runner.run(call(arguments=f'{{"path": {number}}}'))
    encode(bench.log.of(ToolCallCreated)[0].raw_input)


def failing(error):
    """A tool that fails with an exception."""

    def done(params, context):
        raise error

    return ScriptedTool("fail", done=done)


def test_a_tool_that_refuses_has_failed_with_its_reason():
    """The message is for the model."""
    bench = Bench(tools=[failing(ToolError("the file is missing"))])
    assert bench.runner.run(call("fail")) is False
    assert (ToolStatus.FAILED, "the file is missing") == (
        bench.ended().status,
        bench.ended().result,
    )


def test_a_fault_inside_a_tool_is_a_failed_call_without_its_text(caplog):
    """The text is on stderr; the turn goes on."""
    bench = Bench(tools=[failing(ValueError("internal detail"))])
    with caplog.at_level(logging.ERROR):
        assert bench.runner.run(call("fail")) is False
    assert ToolStatus.FAILED is bench.ended().status
    assert "internal detail" not in bench.ended().result
    assert "internal detail" in caplog.text


def test_a_tool_that_says_that_it_failed_has_failed():
    """With its text and content."""
    tool = ScriptedTool(
        "odd",
        done=lambda params, context: ToolOutcome(
            "exit 1", failed=True, content=(TextContent("shown"),), locations=(Location("/x", 3),)
        ),
    )
    bench = Bench(tools=[tool])
    assert bench.runner.run(call("odd"), note="Try something else.") is False
    assert (
        ToolCallEnded(
            "c1",
            ToolStatus.FAILED,
            "exit 1\n\nTry something else.",
            (TextContent("shown"),),
            (Location("/x", 3),),
        )
        == bench.ended()
    )


def test_a_log_that_cannot_be_written_ends_the_turn():
    """The error is passed on; the session ends what is open."""

    def refuse(event):
        if isinstance(event, ToolCallStarted):
            raise StoreError("the disk is full")

    bench = Bench(on_emit=refuse)
    with pytest.raises(StoreError):
        bench.runner.run(call())
    assert [] == bench.tools["read"].ran


@pytest.mark.parametrize("where", ["before", "while asking", "after the answer", "while it runs"])
def test_a_cancelled_call_ends_as_cancelled(where):
    """It does not run, or is stopped; one that was not shown yet is not shown."""
    bench = None

    def asked(cancel):
        bench.log.cancel.cancel()
        if where == "while asking":
            raise Cancelled
        return "approve"

    def done(params, context):
        bench.log.cancel.cancel()
        raise Cancelled

    tool = ScriptedTool(
        "stop", ToolKind.EXECUTE, planned=executing if "a" in where else reading, done=done
    )
    answers = [asked] if where in ("while asking", "after the answer") else []
    if not answers:
        tool.planned = reading
    bench = Bench(*answers, tools=[tool])
    if where == "before":
        bench.log.cancel.cancel()
    with pytest.raises(Cancelled):
        bench.runner.run(call("stop"))
    if where == "before":
        assert [] == bench.log.events
    else:
        assert ToolStatus.CANCELLED is bench.ended().status
    assert (where == "while it runs") == bool(tool.ran)


def test_reads_of_one_step_run_side_by_side():
    """All of them wait for each other, and the results come in the order of the calls."""
    meeting = threading.Barrier(3)

    def done(params, context):
        meeting.wait(DEADLINE_S)
        return ToolOutcome(params.path, failed=params.path.endswith("2"))

    bench = Bench(tools=[ScriptedTool("meet", planned=reading, done=done)])
    calls = [call("meet", f"{ROOT}/{number}", number) for number in (1, 2, 3)]
    assert [True, False, True] == bench.runner.run_all(calls)


def test_more_reads_than_run_at_once_all_run():
    """In parts of a bounded size."""
    lock, now, most = threading.Lock(), 0, 0

    def done(params, context):
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        with lock:
            now -= 1
        return ToolOutcome("ok")

    bench = Bench(tools=[ScriptedTool("count", planned=reading, done=done)])
    calls = [call("count", f"{ROOT}/a", number) for number in range(30)]
    assert [True] * 30 == bench.runner.run_all(calls)
    assert most <= 8
    assert 30 == len(bench.log.of(ToolCallEnded))


def test_a_step_with_anything_else_runs_in_order():
    """One after the other, as the model wrote them."""
    bench = Bench("approve", "approve")
    calls = [call("run", number=1), call("read", number=2), call("run", number=3)]
    assert [True] * 3 == bench.runner.run_all(calls)
    begun_and_ended = [
        (type(event), event.tool_call_id) for event in bench.log.of(ToolCallCreated, ToolCallEnded)
    ]
    assert [
        (kind, f"c{number}") for number in (1, 2, 3) for kind in (ToolCallCreated, ToolCallEnded)
    ] == begun_and_ended


def test_the_state_changes_with_the_first_and_the_last_question():
    """Reads that ask at the same time make one change each way."""
    meeting = threading.Barrier(3)

    def answer(cancel):
        meeting.wait(DEADLINE_S)
        return "approve"

    bench = Bench(answer, answer, answer)
    calls = [call(path=f"/data{number}/x", number=number) for number in (1, 2, 3)]
    assert [True] * 3 == bench.runner.run_all(calls)
    assert [SessionState.REQUIRES_ACTION, SessionState.RUNNING] == [
        event.state for event in bench.log.of(StateChanged)
    ]


def test_a_cancel_reaches_every_call_that_runs_side_by_side():
    """Each is ended as cancelled before the turn unwinds."""
    started = threading.Semaphore(0)

    def done(params, context):
        started.release()
        assert context.cancel.wait(DEADLINE_S)
        raise Cancelled

    bench = Bench(tools=[ScriptedTool("wait", planned=reading, done=done)])
    calls = [call("wait", f"{ROOT}/{number}", number) for number in range(3)]
    running = Background(lambda: bench.runner.run_all(calls))
    for _ in calls:
        assert started.acquire(timeout=DEADLINE_S)
    bench.log.cancel.cancel()
    with pytest.raises(Cancelled):
        running.result()
    assert [ToolStatus.CANCELLED] * 3 == [event.status for event in bench.log.of(ToolCallEnded)]


def test_a_fault_of_one_read_waits_for_the_others():
    """No call goes on after the step has ended."""

    def refuse(event):
        if isinstance(event, ToolCallStarted) and event.tool_call_id == "c1":
            raise StoreError("the disk is full")

    bench = Bench(on_emit=refuse)
    with pytest.raises(StoreError):
        bench.runner.run_all([call(number=number) for number in range(3)])
    assert ["c0", "c2"] == sorted(event.tool_call_id for event in bench.log.of(ToolCallEnded))
    assert not [
        thread for thread in threading.enumerate() if thread.name in ("term2-c0", "term2-c2")
    ]


def test_a_terminal_is_shown_with_its_call():
    """Opened, then referred to, then filled and exited."""

    def done(params, context):
        terminal = context.open_terminal("ls")
        terminal.output(b"out")
        terminal.finish()
        terminal.exited(0, None)
        return ToolOutcome("out")

    bench = Bench(tools=[ScriptedTool("term", planned=reading, done=done)])
    bench.runner.run(call("term"))
    assert [
        ToolCallCreated,
        ToolCallStarted,
        TerminalOpened,
        ToolCallShowed,
        TerminalOutput,
        TerminalExited,
        ToolCallEnded,
    ] == bench.kinds()
    assert ROOT == bench.log.of(TerminalOpened)[0].cwd


def test_a_credential_reaches_the_tool_and_nothing_else():
    """Not the log, not the question, not the result, not the diff."""

    def done(params, context):
        assert SECRET in params.path
        return ToolOutcome(
            f"wrote {SECRET}",
            content=(DiffContent((FileChange("/f", None, SECRET),)), TextContent(SECRET)),
        )

    tool = ScriptedTool("leak", ToolKind.EXECUTE, planned=executing, done=done)
    bench = Bench("approve", tools=[tool])
    planned = call("leak", f"echo {SECRET}")
    assert bench.runner.run(planned)
    assert 1 == len(tool.ran)
    assert SECRET not in str(bench.log.events)
    assert SECRET not in str(bench.client.questions)
    assert "[REDACTED]" in bench.ended().result
    (logged,) = bench.runner.as_logged([planned])
    assert SECRET not in logged.arguments
    assert json.loads(logged.arguments)


def test_the_name_of_an_unknown_tool_is_stored_and_shown_like_a_title():
    """Without a credential, on one line, and short; a model may write anything there."""
    bench = Bench()
    planned = call(f"{'x' * 5000}\n{SECRET}")
    assert not bench.runner.run(planned)
    (logged,) = bench.runner.as_logged([planned])
    (created,) = bench.log.of(ToolCallCreated)
    assert logged.name == created.name == created.title
    assert created.name.endswith("x [REDACTED]")
    assert len(created.name) == 120
    assert SECRET not in str(bench.log.events)
    assert len(bench.ended().result) < 300


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps({"path": "x" * 10**6}),
        json.dumps({"path": "/work/a", "other": list(range(200_000))}),
        json.dumps({"k" * 10**6: 1}),
        '{"path": "' + "x" * 10**6,
    ],
)
def test_what_is_shown_of_the_arguments_is_bounded(arguments):
    """A long string, a long list, a long name, and what is no JSON; both ends are there."""
    bench = Bench("reject")
    bench.runner.run(call(arguments=arguments))
    shown = json.dumps(bench.log.of(ToolCallCreated)[0].raw_input)
    assert len(shown) < 300_000
    assert " characters ...]" in shown
