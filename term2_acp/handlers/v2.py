"""The methods of protocol version 2 (spec section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from term2_acp.errors import InvalidParamsError
from term2_acp.handlers.blocks import from_blocks
from term2_acp.handlers.common import Params, SessionHandlers, refuse_empty
from term2_acp.rpc.calls import Call, Deferred
from term2_acp.wire import v2

if TYPE_CHECKING:
    from term2_acp.rpc.engine import Handler


class HandlersV2(SessionHandlers):
    """The method table of version 2."""

    def table(self) -> Mapping[str, Handler]:
        """The methods by name; every other one is -32601."""
        return {
            "session/new": self._new,
            "session/list": self._list,
            "session/resume": self._resume,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
            "session/close": self._close,
        }

    def _new(self, _call: Call, params: Params) -> Deferred:
        _refuse_extras(params)
        return self._open_new(params)

    def _resume(self, call: Call, params: Params) -> Deferred:
        _refuse_extras(params)
        replay = _wants_replay(params)
        request = self._structure(params, v2.ResumeSessionRequest)
        return self._open_stored(call, request.session_id, request.cwd, replay=replay)

    def _prompt(self, call: Call, params: Params) -> Deferred:
        request = self._structure(params, v2.PromptRequest)
        refuse_empty(request.prompt)
        turn = self._registry.get(request.session_id).admit(from_blocks(request.prompt))

        def run() -> Any:
            self._runner.run(turn, accepted=lambda: call.respond({}))
            return {}

        return Deferred(run, foreground=True, abandon=lambda: turn.session.refuse(turn))


def _refuse_extras(params: Params) -> None:
    """Judged raw, whatever is in the arrays: none of it could be honoured."""
    for member in ("mcpServers", "additionalDirectories"):
        value = params.get(member)
        if isinstance(value, list) and value:
            raise InvalidParamsError(f"{member} is not supported; leave it out or send []")


def _wants_replay(params: Params) -> bool:
    replay = params.get("replayFrom")
    if replay is None:
        return False
    if isinstance(replay, dict) and replay.get("type") == "start":
        return True
    raise InvalidParamsError('replayFrom must be {"type": "start"}, null or left out')
