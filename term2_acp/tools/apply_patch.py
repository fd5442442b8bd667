"""The apply_patch tool: several files in one call, all or none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from enum import StrEnum

import attrs

from term2_acp.agent.ports import (
    Access,
    AccessMode,
    CallPlan,
    FileChange,
    Location,
    ToolContext,
    ToolError,
    ToolKind,
    ToolOutcome,
)
from term2_acp.files.batch import PlannedChange, change_all
from term2_acp.files.errors import file_errors
from term2_acp.files.scope import FileEdit
from term2_acp.files.text import TextFile, TextFormat, decode_text
from term2_acp.redaction import MARKER
from term2_acp.surrogates import replace_lone_surrogates
from term2_acp.tools.bounds import LARGEST_FILE
from term2_acp.tools.changes import diff_content, file_change
from term2_acp.tools.edits import marker_note, other_names_note, refuse_redacted, refuse_stale
from term2_acp.tools.hunks import DiffError, Hunk, Mark, parse_diff
from term2_acp.tools.parameters import parameter
from term2_acp.tools.placing import apply_hunks
from term2_acp.tools.replacing import first_difference
from term2_acp.workspace import Workspace

MOST_OPERATIONS = 100
_BOM = "\ufeff"


class OperationType(StrEnum):
    """What happens to a file."""

    CREATE = "create_file"
    UPDATE = "update_file"
    DELETE = "delete_file"


@attrs.frozen
class OperationParams:
    """One file of the patch."""

    type: OperationType = parameter("What to do with the file.")
    path: str = parameter(
        "The file, relative to the workspace or absolute. Missing folders are made."
    )
    diff: str | None = parameter(
        "The body of a unified diff: lines that begin with a space (context), - or +, and @@ "
        "between hunks; line numbers are not needed. For create_file all lines begin with +. "
        "For delete_file it may be left out; if given, it must remove every line.",
        default=None,
    )


@attrs.frozen
class ApplyPatchParams:
    """What a model tells apply_patch."""

    operations: tuple[OperationParams, ...] = parameter(
        "The files to change, each named once; if one of them fails none is changed."
    )


@attrs.frozen
class _Operation:
    """An operation that was read: `where` names it to the model."""

    where: str
    type: OperationType
    path: str
    hunks: tuple[Hunk, ...]


@attrs.frozen
class _Result:
    """What one operation comes to: the bytes to write, and what the user is shown."""

    planned: PlannedChange
    change: FileChange
    line: int
    text: str


class ApplyPatch:
    """Creates, updates and deletes text files by diffs."""

    name = "apply_patch"
    description = (
        "Change several text files at once: create, update and delete them, all or none. "
        "Hunks are placed by their context and removed lines, which must be in the file exactly "
        "and only once. Line endings, encoding and the final newline of a file are kept."
    )
    kind = ToolKind.EDIT
    params = ApplyPatchParams

    def plan(self, params: ApplyPatchParams, workspace: Workspace) -> CallPlan:
        """Say which files would be changed; see `Tool.plan`."""
        operations = _read(params, workspace)
        shown = [workspace.display(operation.path) for operation in operations]
        verbs = {
            OperationType.CREATE: "Create",
            OperationType.UPDATE: "Edit",
            OperationType.DELETE: "Delete",
        }
        title = f"{verbs[operations[0].type]} {shown[0]}"
        if len(shown) > 1:
            title = f"Patch {len(shown)} files: {', '.join(shown)}"
        return CallPlan(
            title=title,
            accesses=tuple(Access(each.path, AccessMode.EDIT) for each in operations),
            locations=tuple(Location(each.path) for each in operations),
        )

    def run(self, params: ApplyPatchParams, context: ToolContext) -> ToolOutcome:
        """Change the files; see `Tool.run`."""
        operations = _read(params, context.workspace)
        with ExitStack() as stack:
            edits: dict[str, FileEdit] = {}
            size = 0
            # One order for everybody, so that two calls never wait for each other.
            for path in sorted(operation.path for operation in operations):
                edits[path] = edit = stack.enter_context(
                    context.files.edit(path, limit=LARGEST_FILE, cancel=context.cancel)
                )
                size += 0 if edit.state is None else len(edit.state.data)
                if size > LARGEST_FILE:
                    raise ToolError(
                        f"the files are larger than {LARGEST_FILE >> 20} MiB together; "
                        "nothing was changed. Patch fewer of them in one call."
                    )
            results = []
            for operation in operations:
                context.cancel.raise_if_cancelled()
                results.append(_prepare(operation, edits[operation.path], context))
            change_all([result.planned for result in results])
        return _outcome(results)


def _read(params: ApplyPatchParams, workspace: Workspace) -> list[_Operation]:
    if not params.operations:
        raise ToolError("operations is empty; give at least one.")
    if len(params.operations) > MOST_OPERATIONS:
        raise ToolError(f"operations has more than {MOST_OPERATIONS} items; make several calls.")
    named: dict[str, str] = {}
    operations = []
    for index, given in enumerate(params.operations):
        where = f"operations[{index}]"
        path = workspace.resolve_file(given.path)
        if path in named:
            raise ToolError(
                f"{where}.path is the same file as {named[path]}.path; "
                "give one operation for each file."
            )
        if given.type is OperationType.DELETE and workspace.is_link(given.path):
            raise ToolError(
                f"{where}.path is a symbolic link to {workspace.display(path)}; nothing was "
                "changed. Delete that file by its own path, or the link with a command."
            )
        named[path] = where
        operations.append(_Operation(where, given.type, path, _hunks(given, where)))
    return operations


def _hunks(given: OperationParams, where: str) -> tuple[Hunk, ...]:
    diff = given.diff or ""
    if given.type is OperationType.DELETE and not diff.strip():
        return ()
    if given.diff is None:
        raise ToolError(f"{where}.diff is missing; {given.type} needs one.")
    if given.type is OperationType.CREATE and not diff:
        return ()
    try:
        hunks = parse_diff(diff)
    except DiffError as error:
        raise ToolError(f"{where}.diff cannot be read: {error}.") from error
    for hunk in hunks:
        marks = {line.mark for line in hunk.lines}
        if given.type is OperationType.CREATE and marks != {Mark.ADDED}:
            raise ToolError(f"{where}.diff: every line of a new file must begin with +.")
        refuse_redacted("\n".join(hunk.old), "\n".join(hunk.added), f"{where}.diff")
    if given.type is OperationType.CREATE and len(hunks) > 1:
        raise ToolError(f"{where}.diff: a new file has only one hunk; leave out @@.")
    return hunks


def _prepare(operation: _Operation, edit: FileEdit, context: ToolContext) -> _Result:
    """Work out one operation, without changing anything."""
    shown = edit.shown
    if operation.type is OperationType.CREATE:
        if edit.state is not None:
            raise ToolError(
                f"cannot create {shown}: it exists already; nothing was changed. "
                "Use update_file to change it."
            )
        text = _patched("", operation, edit, context)
        with file_errors("create", shown):
            data = TextFormat().encode(text)
        change = file_change(edit, None, text, context.redact_file)
        return _Result(PlannedChange(edit, data), change, 1, f"created {shown}")
    if edit.state is None:
        raise ToolError(
            f"{operation.where}: there is no file {shown}; nothing was changed. "
            "Use create_file to make it."
        )
    refuse_stale(edit, shown)
    with file_errors("patch", shown):
        old = decode_text(edit.state.data)
    if operation.type is OperationType.DELETE:
        return _deleted(operation, edit, old, context)
    text = _patched(old.text, _for_file(operation, old), edit, context)
    if text == old.text:
        raise ToolError(f"{operation.where}.diff leaves {shown} as it is; nothing was changed.")
    with file_errors("patch", shown):
        data = old.format.encode(text)
    change = file_change(edit, old, text, context.redact_file)
    count = len(operation.hunks)
    report = f"updated {shown} ({count} hunk{'s' * (count > 1)})"
    return _Result(PlannedChange(edit, data), change, first_difference(old.text, text), report)


def _deleted(operation: _Operation, edit: FileEdit, old: TextFile, context: ToolContext) -> _Result:
    removes = _for_file(operation, old)
    if operation.hunks and _patched(old.text, removes, edit, context):
        raise ToolError(
            f"{operation.where}.diff does not remove every line of {edit.shown}; nothing was "
            "changed. Leave the diff out to delete the file, or use update_file to edit it."
        )
    change = file_change(edit, old, None, context.redact_file)
    return _Result(PlannedChange(edit, None), change, 1, f"deleted {edit.shown}")


def _patched(text: str, operation: _Operation, edit: FileEdit, context: ToolContext) -> str:
    if not operation.hunks:
        return ""
    try:
        return apply_hunks(
            text,
            operation.hunks,
            check=context.cancel.raise_if_cancelled,
            told=lambda text: context.redact_file(edit.path, text),
        )
    except DiffError as error:
        has_marker = any(MARKER in line for hunk in operation.hunks for line in hunk.old)
        note = f" {marker_note()}" if has_marker else ""
        raise ToolError(
            replace_lone_surrogates(
                f"{operation.where}.diff does not apply to {edit.shown}: {error}. "
                f"Nothing was changed.{note}"
            )
        ) from error


def _for_file(operation: _Operation, file: TextFile) -> _Operation:
    """Leave out a byte order mark that the model wrote, since the file keeps its own."""
    if not (file.format.bom and operation.hunks):
        return operation
    first, *others = operation.hunks
    lines = tuple(attrs.evolve(line, text=line.text.removeprefix(_BOM)) for line in first.lines)
    return attrs.evolve(operation, hunks=(attrs.evolve(first, lines=lines), *others))


def _outcome(results: Sequence[_Result]) -> ToolOutcome:
    """Report the patch: a line for each file to the model, the whole texts to the user."""
    notes = (other_names_note(each.planned.edit) for each in results if each.change.new is not None)
    return ToolOutcome(
        f"The patch is applied: {', '.join(result.text for result in results)}.{''.join(notes)}",
        content=diff_content(result.change for result in results),
        locations=tuple(Location(result.change.path, result.line) for result in results),
    )
