"""The methods of protocol version 1, which today's editors speak (spec section 6)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from term2_acp.errors import AcpError, InternalError, InvalidParamsError, SessionBusyError
from term2_acp.eventlog import StopReason
from term2_acp.handlers.blocks import from_blocks
from term2_acp.handlers.common import Params, SessionHandlers, refuse_empty
from term2_acp.rpc.calls import Call, Deferred
from term2_acp.wire import v1

if TYPE_CHECKING:
    from term2_acp.rpc.engine import Handler

logger = logging.getLogger(__name__)

_NOT_STOPPED = frozenset({StopReason.ERROR, StopReason.INTERRUPTED})


class BusyError(AcpError):
    """Busy: -32000 means "authentication required" to the editors of version 1."""

    code = -32010


class HandlersV1(SessionHandlers):
    """The method table of version 1."""

    def table(self) -> Mapping[str, Handler]:
        """The methods by name; every other one is -32601."""
        return {
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
            "session/close": self._close,
        }

    def _new(self, _call: Call, params: Params) -> Deferred:
        _require_mcp_servers(params)
        _note_extras(params)
        return self._open_new(params)

    def _load(self, call: Call, params: Params) -> Deferred:
        _require_mcp_servers(params)
        _note_extras(params)
        request = self._structure(params, v1.LoadSessionRequest)
        return self._open_stored(call, request.session_id, request.cwd, replay=True)

    def _resume(self, call: Call, params: Params) -> Deferred:
        _note_extras(params)
        request = self._structure(params, v1.LoadSessionRequest)
        return self._open_stored(call, request.session_id, request.cwd, replay=False)

    def _prompt(self, call: Call, params: Params) -> Deferred:
        request = self._structure(params, v1.PromptRequest)
        refuse_empty(request.prompt)
        session = self._registry.get(request.session_id)
        try:
            turn = session.admit(from_blocks(request.prompt))
        except SessionBusyError as error:
            raise BusyError(error.message) from None

        def run() -> Any:
            # `$/cancel_request` for the prompt is a cancel of its turn.
            with call.cancel.on_cancel(turn.cancel.cancel):
                outcome = self._runner.run(turn, accepted=_nothing)
            if outcome.reason in _NOT_STOPPED:
                raise InternalError(outcome.message or "the turn failed; see the agent's stderr")
            return self._converter.unstructure(v1.PromptResponse(str(outcome.reason)))

        return Deferred(run, foreground=True, abandon=lambda: turn.session.refuse(turn))


def _nothing() -> None:
    """A prompt is answered at its end."""


def _require_mcp_servers(params: Params) -> None:
    if not isinstance(params.get("mcpServers"), list):
        raise InvalidParamsError("mcpServers must be an array; it may be empty")


def _note_extras(params: Params) -> None:
    for member in ("mcpServers", "additionalDirectories"):
        value = params.get(member)
        if isinstance(value, list) and value:
            logger.warning("%s is accepted but not used: term2 does not mount them", member)
