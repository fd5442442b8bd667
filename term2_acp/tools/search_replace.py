"""The search_replace tool."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import islice

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
from term2_acp.files.scope import FileEdit
from term2_acp.files.text import TextFile, decode_text
from term2_acp.redaction import MARKER
from term2_acp.surrogates import replace_lone_surrogates
from term2_acp.tools.bounds import LARGEST_FILE
from term2_acp.tools.edits import edit_outcome, marker_note, refuse_redacted, refuse_stale
from term2_acp.tools.near_misses import near_misses
from term2_acp.tools.parameters import parameter
from term2_acp.tools.replacing import (
    LineText,
    Match,
    first_difference,
)
from term2_acp.workspace import Workspace

_MOST_LINES_NAMED = 10
_BOM = "\ufeff"


@attrs.frozen
class Replacement:
    """One piece of text to replace."""

    search_content: str = parameter(
        "The exact text to replace, indentation included, without the rest of the file."
    )
    replace_content: str = parameter("The text to put in its place; may be empty.")
    replace_all: bool = parameter(
        "Replace every occurrence; otherwise the text must be there exactly once.", default=False
    )


@attrs.frozen
class SearchReplaceParams:
    """What a model tells search_replace."""

    path: str = parameter("The file, relative to the workspace or absolute.")
    replacements: tuple[Replacement, ...] = parameter(
        "Replacements, done in order; if one of them fails none is done."
    )


class SearchReplace:
    """Replaces pieces of a text file and leaves all else as it is."""

    name = "search_replace"
    description = (
        "Edit a text file by replacing exact pieces of its text. Each search text must occur "
        "exactly once (or set replace_all). Line endings and encoding of the file are kept; "
        "write line breaks as a plain newline."
    )
    kind = ToolKind.EDIT
    params = SearchReplaceParams

    def plan(self, params: SearchReplaceParams, workspace: Workspace) -> CallPlan:
        """Say which file would be edited; see `Tool.plan`."""
        _check(params)
        path = workspace.resolve_file(params.path)
        return CallPlan(
            title=f"Edit {workspace.display(path)}",
            accesses=(Access(path, AccessMode.EDIT),),
            locations=(Location(path),),
        )

    def run(self, params: SearchReplaceParams, context: ToolContext) -> ToolOutcome:
        """Edit; see `Tool.run`."""
        _check(params)
        path = context.workspace.resolve_file(params.path)
        shown = context.workspace.display(path)
        with context.files.edit(path, limit=LARGEST_FILE, cancel=context.cancel) as edit:
            old = _read(edit, shown)
            text, count = old.text, 0
            check = context.cancel.raise_if_cancelled
            for index, replacement in enumerate(params.replacements):
                check()
                wanted = _for_file(replacement, old)
                where = f"replacements[{index}]"
                replaced = _replace(text, wanted, where, shown, check)
                if replaced is None:
                    told = context.redact_file(path, text)
                    raise ToolError(_missing(told, wanted.search_content, where, shown))
                text = replaced[0]
                count += replaced[1]
            if text == old.text:
                raise ToolError(f"the replacements leave {shown} as it is; nothing was changed.")
            with file_errors("edit", shown):
                data = old.format.encode(text)
            check()
            edit.write(data)
        line = first_difference(old.text, text)
        places_text = "1 place" if count == 1 else f"{count} places"
        report = f"Edited {shown}: {places_text} replaced, the first change is in line {line}."
        return edit_outcome(edit, old, text, report, context)


def _check(params: SearchReplaceParams) -> None:
    if not params.replacements:
        raise ToolError("replacements is empty; give at least one.")
    for index, replacement in enumerate(params.replacements):
        where = f"replacements[{index}]"
        if not replacement.search_content:
            raise ToolError(f"{where}.search_content is empty; give the text to replace.")
        if replacement.search_content == replacement.replace_content:
            raise ToolError(
                f"{where}.replace_content is the same as its search_content; "
                "give the text that is to be there instead."
            )
        refuse_redacted(
            replacement.search_content, replacement.replace_content, f"{where}.replace_content"
        )


def _read(edit: FileEdit, shown: str) -> TextFile:
    if edit.state is None:
        raise ToolError(f"cannot edit {shown}: there is no such file. Use create_file to make it.")
    refuse_stale(edit, shown)
    with file_errors("edit", shown):
        return decode_text(edit.state.data)


def _for_file(replacement: Replacement, file: TextFile) -> Replacement:
    """Leave out a byte order mark that the model wrote, since the file keeps its own."""
    if not (file.format.bom and replacement.search_content.startswith(_BOM)):
        return replacement
    return attrs.evolve(
        replacement,
        search_content=replacement.search_content.removeprefix(_BOM),
        replace_content=replacement.replace_content.removeprefix(_BOM),
    )


def _replace(
    text: str, replacement: Replacement, where: str, shown: str, check: Callable[[], None]
) -> tuple[str, int] | None:
    """Return the text after one replacement, and how many places it had; None if there is none."""
    lines = LineText.of(text)
    search, new = replacement.search_content, replacement.replace_content
    if replacement.replace_all:
        done = lines.replaced_everywhere(search, new)
        if done is None:
            starts = array("L", (match.start for match in lines.find(search, overlapping=False)))
            size = len(lines.tokens_of(search))
            matches = (Match(start, start + size) for start in starts)
            done = lines.replaced(matches, new, check), len(starts)
        return done if done[1] else None
    found = list(islice(lines.find(search), _MOST_LINES_NAMED + 1))
    if not found:
        return None
    if len(found) > 1:
        raise ToolError(_not_unique(lines, found, where, shown))
    return lines.replaced(found, new, check), 1


def _missing(text: str, search: str, where: str, shown: str) -> str:
    """Say what comes near; `text` is that of the file as the model may see it."""
    message = f"{where}.search_content is not in {shown}; nothing was changed."
    if MARKER in search:
        return f"{message} {marker_note()}"
    lines = LineText.of(text)
    notes = near_misses(lines.tokens, lines.tokens_of(search))
    if not notes:
        return f"{message} Nothing like it was found; read the file and copy the text exactly."
    return replace_lone_surrogates(f"{message} Near misses: {'; '.join(notes)}.")


def _not_unique(lines: LineText, matches: list[Match], where: str, shown: str) -> str:
    numbers = [str(lines.line_of(match.start)) for match in matches[:_MOST_LINES_NAMED]]
    named = ", ".join(dict.fromkeys(numbers))
    more = " and more" if len(matches) > _MOST_LINES_NAMED else ""
    return (
        f"{where}.search_content is not unique in {shown}: it is in lines {named}{more}; nothing "
        "was changed. Give more of the text around it, or set replace_all."
    )
