"""The directives of the offline model as values, and how each is written (spec section 2)."""

from __future__ import annotations

import attrs


@attrs.frozen
class Read:
    """Read a file."""

    path: str


@attrs.frozen
class Grep:
    """Search the workspace."""

    pattern: str


@attrs.frozen
class Create:
    """Create a file whose content is `text` and a final newline."""

    path: str
    text: str


@attrs.frozen
class Replace:
    """Replace the one occurrence of `old` in a file."""

    path: str
    old: str
    new: str


@attrs.frozen
class Shell:
    """Run a command in the sandbox."""

    command: str


@attrs.frozen
class Code:
    """Run Python in the sandbox."""

    python: str


@attrs.frozen
class Plan:
    """Show a plan."""

    entries: tuple[str, ...]


@attrs.frozen
class Think:
    """Stream a thought."""

    text: str


@attrs.frozen
class Say:
    """Stream a piece of the answer."""

    text: str


@attrs.frozen
class Sleep:
    """Do nothing for a while."""

    seconds: float


@attrs.frozen
class Fail:
    """Fail as a provider does."""


@attrs.frozen
class Unknown:
    """A line that has the shape of a directive, but no known name."""

    name: str


@attrs.frozen
class Malformed:
    """A known directive whose argument is wrong; `reason` says what."""

    name: str
    reason: str


Directive = (
    Read
    | Grep
    | Create
    | Replace
    | Shell
    | Code
    | Plan
    | Think
    | Say
    | Sleep
    | Fail
    | Unknown
    | Malformed
)

USAGES = {
    "read": "/read PATH",
    "grep": "/grep PATTERN",
    "create": "/create PATH <<TEXT (or <<END, the lines of the file, and a line END)",
    "replace": "/replace PATH OLD => NEW",
    "shell": "/shell COMMAND",
    "code": "/code PYTHON (or <<END, the lines of the program, and a line END)",
    "plan": "/plan A; B",
    "think": "/think TEXT",
    "say": "/say TEXT",
    "sleep": "/sleep SECONDS",
    "fail": "/fail",
}
"""How each directive is written, by name, in the order of the specification."""
