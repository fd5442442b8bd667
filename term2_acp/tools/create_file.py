"""The create_file tool."""

from __future__ import annotations

import attrs

from term2_acp.agent.ports import (
    Access,
    AccessMode,
    CallPlan,
    Location,
    ToolContext,
    ToolError,
    ToolKind,
    ToolOutcome,
)
from term2_acp.files.errors import file_errors
from term2_acp.files.ledger import Knowledge
from term2_acp.files.scope import FileEdit
from term2_acp.files.text import TextFile, TextFormat, decode_text
from term2_acp.tools.bounds import LARGEST_FILE
from term2_acp.tools.edits import edit_outcome, refuse_redacted, refuse_stale
from term2_acp.tools.parameters import parameter
from term2_acp.workspace import Workspace


@attrs.frozen
class CreateFileParams:
    """What a model tells create_file."""

    path: str = parameter(
        "The file, relative to the workspace or absolute. Missing folders are made."
    )
    content: str = parameter("The whole content.")
    overwrite: bool = parameter(
        "Replace the file if there is one; it must have been read whole before.", default=False
    )


class CreateFile:
    """Makes a text file, or replaces the whole content of one."""

    name = "create_file"
    description = (
        "Create a text file with the given content. An existing file is replaced only with "
        "overwrite, and only after read_file; to change a part of it use search_replace."
    )
    kind = ToolKind.EDIT
    params = CreateFileParams

    def plan(self, params: CreateFileParams, workspace: Workspace) -> CallPlan:
        """Say which file would be written; see `Tool.plan`."""
        path = workspace.resolve_file(params.path)
        verb = "Write" if params.overwrite else "Create"
        return CallPlan(
            title=f"{verb} {workspace.display(path)}",
            accesses=(Access(path, AccessMode.EDIT),),
            locations=(Location(path),),
        )

    def run(self, params: CreateFileParams, context: ToolContext) -> ToolOutcome:
        """Write; see `Tool.run`."""
        path = context.workspace.resolve_file(params.path)
        shown = context.workspace.display(path)
        with context.files.edit(path, limit=LARGEST_FILE, cancel=context.cancel) as edit:
            if edit.state is None:
                refuse_redacted("", params.content, "content")
                with file_errors("write", shown):
                    data = TextFormat().encode(params.content)
                context.cancel.raise_if_cancelled()
                edit.write(data)
                return edit_outcome(edit, None, params.content, f"Created {shown}.", context)
            _refuse_blind(params, edit, shown)
            with file_errors("overwrite", shown):
                old = decode_text(edit.state.data)
            refuse_redacted(old.text, params.content, "content")
            new = _in_style_of(old, params.content)
            with file_errors("write", shown):
                data = old.format.encode(new)
            context.cancel.raise_if_cancelled()
            edit.write(data)
            return edit_outcome(edit, old, new, f"Replaced the content of {shown}.", context)


def _refuse_blind(params: CreateFileParams, edit: FileEdit, shown: str) -> None:
    """Keep a model from overwriting what it did not ask for or has not seen."""
    if not params.overwrite:
        raise ToolError(
            f"{shown} exists already; nothing was changed. Use search_replace to change it, or "
            "read it and set overwrite to replace all of it."
        )
    if edit.knowledge is Knowledge.UNSEEN:
        raise ToolError(
            f"{shown} was never read in this session; nothing was changed. Read it before "
            "overwriting it."
        )
    refuse_stale(edit, shown)
    if edit.knowledge is Knowledge.PARTIAL:
        raise ToolError(
            f"{shown} was seen only in part; nothing was changed. Use search_replace to change "
            "it, or read all of it before overwriting it."
        )


def _in_style_of(old: TextFile, content: str) -> str:
    """Write the content as the file was: one byte order mark, CRLF if it had nothing else."""
    if old.format.bom:
        content = content.removeprefix("\ufeff")
    breaks = old.text.count("\n")
    if breaks and breaks == old.text.count("\r\n") and "\r\n" not in content:
        return content.replace("\n", "\r\n")
    return content
