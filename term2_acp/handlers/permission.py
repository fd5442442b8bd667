"""Asking the client for permission, in the shape of each version (spec section 8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cattrs import BaseValidationError

from term2_acp.handlers.updates_v1 import call_fields
from term2_acp.handlers.updates_v2 import call_update
from term2_acp.permissions import Choice, PermissionQuestion
from term2_acp.wire import shared, v1, v2
from term2_acp.wire.base import WrongTypeError

if TYPE_CHECKING:
    from cattrs import Converter

    from term2_acp.agent.cancel import CancelToken
    from term2_acp.rpc.outbound import OutboundRequests

_KINDS = {
    Choice.APPROVE: "allow_once",
    Choice.ALLOW_FOLDER: "allow_always",
    Choice.ALLOW_EDIT_FILE: "allow_always",
    Choice.ALLOW_EDIT_FOLDER: "allow_always",
    Choice.REJECT: "reject_once",
}


class WirePermissionClient:
    """
    Sends `session/request_permission`; a `permissions.PermissionClient`.

    Args:
        shape: makes the params of the negotiated version.
    """

    def __init__(
        self,
        outbound: OutboundRequests,
        converter: Converter,
        shape: Callable[[PermissionQuestion], Any],
    ) -> None:
        self._outbound = outbound
        self._converter = converter
        self._shape = shape

    def ask(self, question: PermissionQuestion, cancel: CancelToken) -> str | None:
        """Ask and wait; the selected option id, or None for any other answer."""
        params = self._converter.unstructure(self._shape(question))
        pending = self._outbound.send("session/request_permission", params)
        return self._selected(pending.wait(cancel).result)

    def _selected(self, result: Any) -> str | None:
        try:
            answer = self._converter.structure(result, shared.RequestPermissionResponse)
        except (BaseValidationError, WrongTypeError):
            return None
        return answer.outcome.option_id if answer.outcome.outcome == "selected" else None


def shape_v1(question: PermissionQuestion) -> v1.RequestPermissionRequest:
    """The params of version 1."""
    return v1.RequestPermissionRequest(
        question.session_id, call_fields(question), _options(question)
    )


def shape_v2(question: PermissionQuestion) -> v2.RequestPermissionRequest:
    """The params of version 2."""
    return v2.RequestPermissionRequest(
        question.session_id,
        f"Allow: {question.title}",
        _options(question),
        v2.ToolCallPermissionSubject(call_update(question)),
    )


def _options(question: PermissionQuestion) -> tuple[shared.PermissionOption, ...]:
    return tuple(
        shared.PermissionOption(option.choice, option.label, _KINDS[option.choice])
        for option in question.options
    )
