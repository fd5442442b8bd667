"""What a call says of itself: its events and its question, without credentials and bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from term2_acp import strictjson
from term2_acp.agent.ports import (
    CallPlan,
    Location,
    PlanEntry,
    TextContent,
    Tool,
    ToolKind,
    ToolOutcome,
)
from term2_acp.agent.redacting import openable, without_credentials
from term2_acp.eventlog import PlannedCall, PlanUpdated, ToolCallCreated, ToolCallEnded, ToolStatus
from term2_acp.permissions import Judgement, PermissionQuestion
from term2_acp.redaction import Redactor
from term2_acp.tools.bounds import one_line, title_line

MAX_RAW_CHARACTERS = 64 * 1024
"""A longer string of the arguments is shown by its two ends, and so are longer arguments."""
MAX_ASKED_CHARACTERS = 1024 * 1024
"""As above, where the user is asked: what is allowed is to be seen, to its last line."""
_UNNAMED = "unnamed"


@attrs.frozen
class CallEvents:
    """
    Makes what is stored, shown and asked of calls (spec sections 7 and 8).

    Attributes:
        session_id: of the session.
        root: its folder, whose own path stays as it is.
        tools: by their names.
        redactor: takes the credentials out.
    """

    session_id: str
    root: str
    tools: Mapping[str, Tool]
    redactor: Redactor

    def planned(self, call: PlannedCall) -> PlannedCall:
        """The call as it is stored and told to the model again."""
        return attrs.evolve(
            call, name=self.name(call), arguments=self.redactor.arguments(call.arguments)
        )

    def name(self, call: PlannedCall) -> str:
        """The name of its tool; a model may write anything there."""
        if call.name in self.tools:
            return call.name
        return title_line(self.redactor.text(call.name)) or _UNNAMED

    def created(self, call: PlannedCall, tool: Tool, plan: CallPlan) -> ToolCallCreated:
        """It is there, with what it would do."""
        return ToolCallCreated(
            tool_call_id=call.tool_call_id,
            name=tool.name,
            title=self._title(plan),
            kind=tool.kind,
            raw_input=self._raw_input(call, MAX_RAW_CHARACTERS),
            locations=self._places(plan.locations),
        )

    def unplanned(self, call: PlannedCall, tool: Tool | None) -> ToolCallCreated:
        """It is there, but cannot run; `tool` is None if there is none of its name."""
        return ToolCallCreated(
            tool_call_id=call.tool_call_id,
            name=self.name(call),
            title=self.name(call),
            kind=tool.kind if tool else ToolKind.OTHER,
            raw_input=self._raw_input(call, MAX_RAW_CHARACTERS),
        )

    def question(
        self, call: PlannedCall, tool: Tool, plan: CallPlan, judgement: Judgement
    ) -> PermissionQuestion:
        """What the user is asked."""
        return PermissionQuestion(
            session_id=self.session_id,
            tool_call_id=call.tool_call_id,
            name=tool.name,
            title=self._title(plan),
            kind=tool.kind,
            raw_input=self._raw_input(call, MAX_ASKED_CHARACTERS),
            locations=self._places(plan.locations),
            options=tuple(
                attrs.evolve(option, label=one_line(self.redactor.text(option.label)))
                for option in judgement.offer()
            ),
        )

    def plan_updated(self, entries: Sequence[PlanEntry]) -> PlanUpdated:
        """The plan that a call has made."""
        redact = self.redactor.text
        shown = (attrs.evolve(entry, content=redact(entry.content)) for entry in entries)
        return PlanUpdated(tuple(shown))

    def ended(
        self, call: PlannedCall, status: ToolStatus, outcome: ToolOutcome, note: str
    ) -> ToolCallEnded:
        """How it ended; the model is told the `note` behind the result."""
        text = self.redactor.text(outcome.text)
        return ToolCallEnded(
            tool_call_id=call.tool_call_id,
            status=status,
            result=f"{text}\n\n{note}" if note else text,
            content=without_credentials(outcome.content, self.redactor, self.root)
            or (TextContent(text),),
            locations=self._places(outcome.locations),
        )

    def _title(self, plan: CallPlan) -> str:
        return title_line(self.redactor.text(plan.title))

    def _places(self, places: Sequence[Location]) -> tuple[Location, ...]:
        return openable(places, self.redactor, self.root)

    def _raw_input(self, call: PlannedCall, longest: int) -> Any:
        try:
            shown = self.redactor.value(strictjson.loads(call.arguments))
            return strictjson.bounded(shown, longest)
        except ValueError:
            shown = self.redactor.text(call.arguments)
            return strictjson.shortened(shown, MAX_RAW_CHARACTERS)
