"""A permission question: what is asked, which answers are offered, what an answer becomes."""

from __future__ import annotations

from typing import Any

import attrs

from term2_acp.chat.fields import Fields, wrong
from term2_acp.chat.updates import CallUpdated, parse_call

MAX_OPTIONS = 9
"""Each is chosen by a digit."""


@attrs.frozen
class Option:
    """One offered answer."""

    option_id: str
    name: str
    kind: str

    @property
    def allows(self) -> bool:
        """Whether the call is run when it is chosen."""
        return self.kind.startswith("allow")


@attrs.frozen
class Question:
    """
    One request for permission.

    Args:
        request_id: what the answer must carry, with its type.
        call: the call that it is about, if the server said.
    """

    request_id: str | int | None
    title: str
    description: str | None
    options: tuple[Option, ...]
    call: CallUpdated | None

    def option(self, key: str) -> Option | None:
        """The option that a digit stands for, counted from 1; None for anything else."""
        if not (len(key) == 1 and key in "123456789"):
            return None
        index = int(key) - 1
        return self.options[index] if index < len(self.options) else None

    def rejection(self) -> Option | None:
        """The option that says no for this once, or any that says no."""
        refusing = [option for option in self.options if not option.allows]
        once = [option for option in refusing if option.kind == "reject_once"]
        return next(iter(once or refusing), None)


def parse_question(request_id: str | int | None, fields: Fields) -> Question:
    """
    The question in the params of session/request_permission.

    Raises:
        ServerFaultError: a member is not what the protocol says.
    """
    options = tuple(
        Option(option.text("optionId"), option.text("name"), option.text("kind"))
        for option in fields.children("options")
    )
    if not 0 < len(options) <= MAX_OPTIONS:
        raise wrong("the options of a permission request", f"1 to {MAX_OPTIONS}")
    subject = fields.optional_child("subject")
    is_call = subject is not None and subject.text("type") == "tool_call"
    return Question(
        request_id,
        title=fields.text("title"),
        description=fields.optional_text("description"),
        options=options,
        call=parse_call(subject.child("toolCall")) if is_call and subject is not None else None,
    )


def outcome(option: Option | None) -> dict[str, Any]:
    """The result of the request: an option was chosen, or none was."""
    if option is None:
        return {"outcome": {"outcome": "cancelled"}}
    return {"outcome": {"outcome": "selected", "optionId": option.option_id}}
