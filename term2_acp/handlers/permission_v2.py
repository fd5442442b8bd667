"""Asking the client for permission in version 2 (spec section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cattrs import BaseValidationError

from term2_acp.handlers.updates_v2 import call_update
from term2_acp.permissions import Choice, PermissionQuestion
from term2_acp.wire import v2
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


class PermissionClientV2:
    """Sends `session/request_permission`; a `permissions.PermissionClient`."""

    def __init__(self, outbound: OutboundRequests, converter: Converter) -> None:
        self._outbound = outbound
        self._converter = converter

    def ask(self, question: PermissionQuestion, cancel: CancelToken) -> str | None:
        """Ask and wait; the selected option id, or None for any other answer."""
        options = tuple(
            v2.PermissionOption(option.choice, option.label, _KINDS[option.choice])
            for option in question.options
        )
        params = v2.RequestPermissionRequest(
            question.session_id,
            f"Allow: {question.title}",
            options,
            v2.ToolCallPermissionSubject(call_update(question)),
        )
        pending = self._outbound.send(
            "session/request_permission", self._converter.unstructure(params)
        )
        return self._selected(pending.wait(cancel).result)

    def _selected(self, result: Any) -> str | None:
        try:
            answer = self._converter.structure(result, v2.RequestPermissionResponse)
        except (BaseValidationError, WrongTypeError):
            return None
        return answer.outcome.option_id if answer.outcome.outcome == "selected" else None
