"""The update_plan tool."""

from __future__ import annotations

import attrs

from term2_acp.agent.ports import (
    CallPlan,
    PlanEntry,
    PlanPriority,
    PlanStatus,
    ToolContext,
    ToolError,
    ToolKind,
    ToolOutcome,
)
from term2_acp.tools.parameters import parameter
from term2_acp.workspace import Workspace

MOST_ENTRIES = 100


@attrs.frozen
class EntryParams:
    """One step of the plan."""

    content: str = parameter("What is to be done, in a short sentence.")
    priority: PlanPriority = parameter("How much it matters.")
    status: PlanStatus = parameter("How far it is.")


@attrs.frozen
class UpdatePlanParams:
    """What a model tells update_plan."""

    entries: tuple[EntryParams, ...] = parameter(
        "The whole plan; it replaces the one that the user is shown now."
    )


class UpdatePlan:
    """Shows the user what the agent is going to do and how far it is."""

    name = "update_plan"
    description = (
        "Show the user your plan, or how far it is. Send all entries each time; keep exactly one"
        " of them in_progress while you work. Use it for tasks of several steps."
    )
    kind = ToolKind.THINK
    params = UpdatePlanParams

    def plan(self, params: UpdatePlanParams, _workspace: Workspace) -> CallPlan:
        """Say what would be shown; see `Tool.plan`."""
        if len(params.entries) > MOST_ENTRIES:
            raise ToolError(f"entries has more than {MOST_ENTRIES} items; keep the plan short.")
        for index, entry in enumerate(params.entries):
            if not entry.content.strip():
                raise ToolError(f"entries[{index}].content is empty; say what is to be done.")
        return CallPlan(title="Update the plan")

    def run(self, params: UpdatePlanParams, context: ToolContext) -> ToolOutcome:
        """Show it; see `Tool.run`."""
        entries = tuple(
            PlanEntry(entry.content, entry.priority, entry.status) for entry in params.entries
        )
        context.set_plan(entries)
        done = sum(entry.status is PlanStatus.COMPLETED for entry in entries)
        return ToolOutcome(f"The plan is shown: {len(entries)} entries, {done} completed.")
