"""
What the offline model says: short, true, bounded, and Markdown as editors show it.

Everything about the workspace comes from tool results; nothing is assumed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from term2_acp.agent.model import ToolResult
from term2_acp.providers.offline_directives import USAGES, Malformed, Unknown

_MAX_RESULTS = 20
_MAX_LINES = 5
_MAX_LINE_CHARACTERS = 160
_MAX_ENTRIES = 12
_NOTHING_FOUND = "Nothing in "
_README = re.compile(r"(?:\./)?(readme(?:\.(?:md|rst|txt))?)", re.IGNORECASE)


def directive_list() -> str:
    """Every directive and how it is written, a line each."""
    return _as_code(list(USAGES.values()))


def unknown_answer(directive: Unknown) -> str:
    """Answer a line whose name is not known."""
    return f"/{directive.name} is not a directive. These are:\n\n{directive_list()}\n"


def malformed_answer(directive: Malformed) -> str:
    """Answer a line that could not be obeyed."""
    return (
        f"/{directive.name}: {directive.reason}. Usage:\n\n{_as_code([USAGES[directive.name]])}\n"
    )


def missing_tool_answer(tool: str) -> str:
    """Answer a directive whose tool was not offered."""
    return f"This build has no tool {tool}; nothing was done.\n"


def report_results(results: Sequence[ToolResult]) -> str:
    """Say how each of the last calls ended, with the first lines of its result."""
    if not results:
        return "No call was made.\n"
    shown = results[-_MAX_RESULTS:]
    paragraphs: list[str] = []
    if len(results) > len(shown):
        paragraphs.append(f"({len(results) - len(shown)} earlier calls left out)")
    for result in shown:
        paragraphs.append(f"{result.name}: {'failed' if result.failed else 'ok'}")
        paragraphs.append(_as_code(_first_lines(result.text)))
    return "\n\n".join(paragraphs) + "\n"


def find_readme(listing: ToolResult) -> str | None:
    """The README at the top of a listing, if it has one."""
    if listing.failed:
        return None
    for line in listing.text.split("\n"):
        match = _README.fullmatch(line.strip())
        if match is not None:
            return match[1]
    return None


def introduction(results: Sequence[ToolResult], *, missing_tools: Sequence[str]) -> str:
    """Say what this model is, what the workspace holds and what it can be told to do."""
    paragraphs = [
        "I am term2's offline model: I follow rules, without a network and without a key."
    ]
    for result in results:
        if result.name == "glob":
            paragraphs.append(_describe_listing(result))
        elif result.name == "read_file":
            paragraphs.append(_describe_readme(result))
    paragraphs.extend(
        f"This build has no tool {tool}, so I cannot look at the workspace."
        for tool in missing_tools
    )
    paragraphs.append(
        f"I obey lines of these forms, one step each:\n\n{directive_list()}\n\n"
        "For answers to anything else, configure a provider in config.toml."
    )
    return "\n\n".join(paragraphs) + "\n"


def _describe_listing(listing: ToolResult) -> str:
    lines = [line.strip() for line in listing.text.split("\n") if line.strip()]
    if listing.failed:
        return f"I could not list the workspace: {_clip(lines[0]) if lines else 'no reason'}."
    entries = [line for line in lines if not _is_note(line)]
    if not entries or entries[0].startswith(_NOTHING_FOUND):
        return "The workspace is empty, apart from what .gitignore leaves out."
    shown = ", ".join(_clip(entry) for entry in entries[:_MAX_ENTRIES])
    hidden = len(entries) - _MAX_ENTRIES
    if hidden <= 0:
        return f"At the top of the workspace: {shown}."
    # A note says that the listing itself was cut.
    at_least = "at least " if len(lines) > len(entries) else ""
    return f"At the top of the workspace: {shown} and {at_least}{hidden} more."


def _is_note(line: str) -> bool:
    return line.startswith("[") and line.endswith("]")


def _describe_readme(readme: ToolResult) -> str:
    if readme.failed:
        return f"I could not read its README: {' '.join(_first_lines(readme.text)[:1])}"
    return f"Its README begins:\n\n{_as_code(_first_lines(readme.text))}"


def _as_code(lines: Sequence[str]) -> str:
    """An indented block, which Markdown shows as it is, whatever the lines hold."""
    return "\n".join(f"    {line}" for line in lines)


def _first_lines(text: str) -> list[str]:
    lines = [line for line in text.split("\n") if line.strip()]
    shown = [_clip(line.rstrip()) for line in lines[:_MAX_LINES]]
    if len(lines) > len(shown):
        shown.append(f"({len(lines) - len(shown)} more lines)")
    return shown


def _clip(line: str) -> str:
    if len(line) <= _MAX_LINE_CHARACTERS:
        return line
    return line[: _MAX_LINE_CHARACTERS - 1] + "…"
