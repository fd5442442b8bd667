"""The update_plan tool (spec section 7)."""

from __future__ import annotations

import pytest

from term2_acp.agent.ports import PlanEntry, PlanPriority, PlanStatus, ToolError


def entry(content: str = "read", priority: str = "high", status: str = "pending") -> dict:
    return {"content": content, "priority": priority, "status": status}


def test_the_plan_is_shown_as_a_whole(bench):
    """Each call replaces what is shown, and the model is told how far it is."""
    bench.run("update_plan", entries=[entry()])
    told = bench.run("update_plan", entries=[entry(status="completed"), entry("write")])
    assert bench.plans[-1] == (
        PlanEntry("read", PlanPriority.HIGH, PlanStatus.COMPLETED),
        PlanEntry("write", PlanPriority.HIGH, PlanStatus.PENDING),
    )
    assert "2 entries, 1 completed" in told.text


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        ([entry(priority="urgent")], "priority"),
        ([entry(status="done")], "status"),
        ([entry(content=" ")], "content"),
        ([{"content": "x", "priority": "low"}], "status"),
        ("read", "entries"),
        ([entry()] * 101, "entries"),
    ],
)
def test_a_wrong_plan_is_named_and_not_shown(bench, entries, named):
    """The member that is wrong is in the message, and the old plan stays."""
    with pytest.raises(ToolError, match=named):
        bench.run("update_plan", entries=entries)
    assert bench.plans == []
