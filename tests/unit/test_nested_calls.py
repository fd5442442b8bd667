"""Calls that a running call makes: judged and shown like any other, told to nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from term2_acp.agent.calls import CallRunner, Surroundings
from term2_acp.agent.cancel import Cancelled, CancelToken
from term2_acp.agent.context import Conversation
from term2_acp.agent.model import AssistantTurn, ToolResult
from term2_acp.agent.ports import CallPlan, ToolContext, ToolKind, ToolOutcome
from term2_acp.eventlog import (
    PermissionAnswered,
    PermissionAsked,
    PlannedCall,
    SessionState,
    StateChanged,
    StepEnded,
    ToolCallCreated,
    ToolCallEnded,
    ToolStatus,
    TurnStarted,
)
from term2_acp.files.ledger import ReadLedger
from term2_acp.permissions import Permissions
from term2_acp.redaction import MARKER, Redactor
from term2_acp.workspace import Workspace
from tests.unit.doubles import NoShell, PathParams, RecordingLog, ScriptedClient, ScriptedTool

SECRET = "correct-horse-battery-7"


@attrs.define(eq=False)
class Fixture:
    """A runner whose tool `outer` does what a test says; the other tools are scripted."""

    root: Path
    client: ScriptedClient = attrs.field(factory=ScriptedClient)
    log: RecordingLog = attrs.field(factory=RecordingLog)

    def run(self, outer: Any, *tools: ScriptedTool) -> bool:
        def done(_params: PathParams, context: ToolContext) -> ToolOutcome:
            return ToolOutcome(outer(context))

        every = [ScriptedTool("outer", ToolKind.EXECUTE, done=done), *tools]
        surroundings = Surroundings(
            session_id="s",
            workspace=Workspace(str(self.root)),
            permissions=Permissions(str(self.root), (), "/home/nobody"),
            ledger=ReadLedger(),
            shell=NoShell(),  # type: ignore[arg-type]
            tools={tool.name: tool for tool in every},
            client=self.client,
            redactor=Redactor({"MY_KEY": SECRET}),
        )
        return CallRunner(surroundings, self.log).run(
            PlannedCall("call_1", "outer", '{"path":"o"}')
        )

    def statuses(self) -> list[tuple[str, ToolStatus]]:
        names = {event.tool_call_id: event.name for event in self.log.of(ToolCallCreated)}
        return [(names[e.tool_call_id], e.status) for e in self.log.of(ToolCallEnded)]


@pytest.fixture(name="fixture")
def _fixture(tmp_path: Path) -> Fixture:
    return Fixture(tmp_path)


def executing(name: str) -> ScriptedTool:
    return ScriptedTool(name, ToolKind.EXECUTE, lambda params: CallPlan(params.path, executes=True))


def test_a_nested_call_has_its_own_id_and_ends_first(fixture: Fixture) -> None:
    """The outer call gets what the model would be told: without credentials."""
    told: list[ToolOutcome] = []
    inner = ScriptedTool("inner", done=lambda *_: ToolOutcome(f"key={SECRET}"))

    def outer(context: ToolContext) -> str:
        told.append(context.run_nested("inner", f'{{"path": "{SECRET}"}}', context.cancel))
        return "done"

    assert fixture.run(outer, inner)
    assert fixture.statuses() == [
        ("inner", ToolStatus.COMPLETED),
        ("outer", ToolStatus.COMPLETED),
    ]
    assert told == [ToolOutcome(f"key={MARKER}")]
    assert inner.ran == [PathParams(SECRET)]
    outer_created, inner_created = fixture.log.of(ToolCallCreated)
    assert outer_created.tool_call_id != inner_created.tool_call_id
    assert inner_created.raw_input == {"path": MARKER}


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("nope", "{}", "There is no tool 'nope'. The tools are: inner."),
        ("outer", '{"path": "x"}', "There is no tool 'outer'. The tools are: inner."),
        ("inner", "{}", "path is missing"),
        ("inner", "no json", "not valid JSON"),
    ],
)
def test_a_bad_nested_call_is_a_failed_outcome(
    fixture: Fixture, tool: str, arguments: str, told: str
) -> None:
    """It is shown as failed; the outer call goes on, and cannot call itself."""
    outcomes: list[ToolOutcome] = []

    def outer(context: ToolContext) -> str:
        outcomes.append(context.run_nested(tool, arguments, context.cancel))
        return "done"

    assert fixture.run(outer, ScriptedTool("inner"))
    assert outcomes[0].failed
    assert told in outcomes[0].text
    assert [status for _, status in fixture.statuses()] == [
        ToolStatus.FAILED,
        ToolStatus.COMPLETED,
    ]


def test_a_denied_nested_call_is_a_failed_outcome(fixture: Fixture) -> None:
    """It is asked for by its own id and does not run."""
    fixture.client = ScriptedClient("reject", "approve")
    inner = executing("inner")
    outcomes: list[ToolOutcome] = []

    def outer(context: ToolContext) -> str:
        outcomes.extend(
            context.run_nested("inner", '{"path": "x"}', context.cancel) for _ in range(2)
        )
        return "done"

    assert fixture.run(outer, inner)
    assert [outcome.failed for outcome in outcomes] == [True, False]
    assert "denied" in outcomes[0].text
    assert len(inner.ran) == 1
    asked = [question.tool_call_id for question in fixture.client.questions]
    assert asked == [event.tool_call_id for event in fixture.log.of(ToolCallCreated)[1:]]


def test_a_question_of_a_call_that_is_over_is_closed(fixture: Fixture) -> None:
    """The turn, which goes on, is shown as running again."""
    over = CancelToken()

    def give_up(cancel: CancelToken) -> str | None:
        over.cancel()
        cancel.raise_if_cancelled()
        return "approve"

    fixture.client = ScriptedClient(give_up)
    inner = executing("inner")

    def outer(context: ToolContext) -> str:
        with pytest.raises(Cancelled):
            context.run_nested("inner", '{"path": "x"}', over)
        return "done"

    assert fixture.run(outer, inner)
    assert inner.ran == []
    assert fixture.statuses() == [
        ("inner", ToolStatus.CANCELLED),
        ("outer", ToolStatus.COMPLETED),
    ]
    assert [type(event) for event in fixture.log.of(PermissionAsked, PermissionAnswered)] == [
        PermissionAsked,
        PermissionAnswered,
    ]
    assert [event.state for event in fixture.log.of(StateChanged)] == [
        SessionState.REQUIRES_ACTION,
        SessionState.RUNNING,
    ]


def test_the_model_is_told_of_the_outer_call_only() -> None:
    """Nested calls are in no step, so the next request has neither them nor their results."""
    conversation = Conversation()
    outer = PlannedCall("call_1", "run_code", "{}")
    for event in (
        TurnStarted("turn_1"),
        StepEnded("tool_calls", (outer,)),
        ToolCallCreated("call_1", "run_code", "t", ToolKind.EXECUTE, {}),
        ToolCallCreated("call_2", "shell", "t", ToolKind.EXECUTE, {}),
        ToolCallEnded("call_2", ToolStatus.COMPLETED, "nested"),
        ToolCallEnded("call_1", ToolStatus.COMPLETED, "whole"),
    ):
        conversation.apply(event)
    assistant, result = conversation.messages()
    assert isinstance(assistant, AssistantTurn)
    assert [call.call_id for call in assistant.tool_calls] == ["call_1"]
    assert isinstance(result, ToolResult)
    assert (result.call_id, result.text) == ("call_1", "whole")
