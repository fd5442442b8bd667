"""The tools that every session has."""

from __future__ import annotations

from collections.abc import Iterable

from term2_acp.agent.model import ToolSpec
from term2_acp.agent.ports import Tool
from term2_acp.tools.apply_patch import ApplyPatch
from term2_acp.tools.create_file import CreateFile
from term2_acp.tools.glob import Glob
from term2_acp.tools.grep import Grep
from term2_acp.tools.parameters import json_schema
from term2_acp.tools.read_file import ReadFile
from term2_acp.tools.run_code import RunCode
from term2_acp.tools.search_replace import SearchReplace
from term2_acp.tools.shell import RunShell
from term2_acp.tools.update_plan import UpdatePlan


def builtin_tools() -> tuple[Tool, ...]:
    """Return one object of each tool, in the order in which models are told of them."""
    return (
        ReadFile(),
        Glob(),
        Grep(),
        CreateFile(),
        SearchReplace(),
        ApplyPatch(),
        RunShell(),
        RunCode(),
        UpdatePlan(),
    )


def tool_specs(tools: Iterable[Tool]) -> tuple[ToolSpec, ...]:
    """Return what a model is told of the tools: names, descriptions and JSON schemas."""
    return tuple(ToolSpec(tool.name, tool.description, json_schema(tool.params)) for tool in tools)
