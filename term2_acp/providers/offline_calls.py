"""Which tool call each directive of the offline model stands for."""

from __future__ import annotations

import json
from typing import Any

import attrs

from term2_acp.providers.offline_directives import (
    Code,
    Create,
    Directive,
    Grep,
    Plan,
    Read,
    Replace,
    Shell,
)


@attrs.frozen
class PlannedCall:
    """A call to make: the tool's name and the JSON text of its arguments, in ASCII."""

    tool: str
    arguments: str


def call_for(directive: Directive) -> PlannedCall | None:
    """Translate a directive into its call; None for one that needs no tool."""
    match directive:
        case Read(path):
            return _call("read_file", path=path)
        case Grep(pattern):
            return _call("grep", pattern=pattern)
        case Create(path, text):
            return _call("create_file", path=path, content=text + "\n")
        case Replace(path, old, new):
            replacement = {"search_content": old, "replace_content": new}
            return _call("search_replace", path=path, replacements=[replacement])
        case Shell(command):
            return _call("shell", command=command)
        case Code(python):
            return _call("run_code", code=python)
        case Plan(entries):
            return _call(
                "update_plan",
                entries=[
                    {"content": entry, "priority": "medium", "status": "pending"}
                    for entry in entries
                ],
            )
        case _:
            return None


def list_workspace() -> PlannedCall:
    """Ask for what lies at the top of the workspace."""
    return _call("glob", pattern="*")


def read_whole(path: str) -> PlannedCall:
    """Ask for a file that a listing showed."""
    return _call("read_file", path=path)


def _call(tool: str, **arguments: Any) -> PlannedCall:
    return PlannedCall(tool, json.dumps(arguments))
