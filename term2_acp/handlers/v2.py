"""The methods of protocol version 2 (spec section 5)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from term2_acp.agent.cancel import Cancelled
from term2_acp.errors import InvalidParamsError, RequestCancelledError
from term2_acp.handlers.updates_v2 import UpdatesV2, from_blocks
from term2_acp.replay import items
from term2_acp.rpc.calls import Call, Deferred
from term2_acp.wire import v2
from term2_acp.wire.base import structure_params

if TYPE_CHECKING:
    from cattrs import Converter

    from term2_acp.agent.turns import TurnRunner
    from term2_acp.registry import SessionRegistry
    from term2_acp.rpc.engine import Handler
    from term2_acp.sessions import Session
    from term2_acp.store import SessionRecord

T = TypeVar("T")
Params = dict[str, Any]


class HandlersV2:
    """Turns requests into calls of the core; what they return is the result on the wire."""

    def __init__(
        self,
        registry: SessionRegistry,
        runner: TurnRunner,
        updates: UpdatesV2,
        converter: Converter,
    ) -> None:
        self._registry = registry
        self._runner = runner
        self._updates = updates
        self._converter = converter

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
        request = self._structure(params, v2.NewSessionRequest)

        def run() -> Any:
            session = self._registry.new(request.cwd)
            return self._converter.unstructure(v2.NewSessionResponse(session.session_id))

        return Deferred(run)

    def _list(self, call: Call, params: Params) -> Deferred:
        request = self._structure(params, v2.ListSessionsRequest)

        def run() -> Any:
            _check(call)
            page = self._registry.list_page(request.cwd, request.cursor)
            _check(call)
            response = v2.ListSessionsResponse(
                tuple(_info(record) for record in page.sessions), page.next_cursor
            )
            return self._converter.unstructure(response)

        return Deferred(run)

    def _resume(self, call: Call, params: Params) -> Deferred:
        _refuse_extras(params)
        replay = _wants_replay(params)
        request = self._structure(params, v2.ResumeSessionRequest)

        def run() -> Any:
            try:
                session = self._registry.resume(request.session_id, request.cwd, call.cancel)
                if replay:
                    self._replay(call, session)
            except Cancelled:
                raise RequestCancelledError from None
            return {}

        return Deferred(run)

    def _replay(self, call: Call, session: Session) -> None:
        """Show the whole conversation, then answer, then go on with what is live."""
        with session.closing.on_cancel(call.cancel.cancel), session.hold(call.cancel) as position:
            for item in items(session.history(position.seq)):
                self._updates.wait_for_room(session.session_id, call.cancel)
                call.cancel.raise_if_cancelled()
                self._updates.replay(session.session_id, item)
            call.respond({})
            if position.state is not None:
                self._updates.show_state(session.session_id, position.state)

    def _prompt(self, call: Call, params: Params) -> Deferred:
        request = self._structure(params, v2.PromptRequest)
        prompt = from_blocks(request.prompt)
        _refuse_empty(request)
        session = self._registry.get(request.session_id)
        turn = session.admit(prompt)

        def run() -> Any:
            self._runner.run(turn, accepted=lambda: call.respond({}))
            return {}

        return Deferred(run, foreground=True)

    def _cancel(self, _call: Call, params: Params) -> Any:
        request = self._structure(params, v2.SessionParams)
        self._registry.cancel(request.session_id)
        return {}

    def _close(self, _call: Call, params: Params) -> Deferred:
        request = self._structure(params, v2.SessionParams)
        finish = self._registry.start_closing(request.session_id)

        def run() -> Any:
            finish()
            return {}

        return Deferred(run, foreground=True)

    def _structure(self, params: Params, cls: type[T]) -> T:
        return structure_params(self._converter, params, cls)


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


def _refuse_empty(request: v2.PromptRequest) -> None:
    """Only white space is no prompt; a link or a resource is one."""
    if not any(
        block.text.strip() if isinstance(block, v2.TextContent) else True
        for block in request.prompt
    ):
        raise InvalidParamsError("prompt is empty; it needs text, a resource_link or a resource")


def _info(record: SessionRecord) -> v2.SessionInfo:
    seconds, rest = divmod(record.updated_at, 1_000_000)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return v2.SessionInfo(record.session_id, record.cwd, record.title, f"{stamp}.{rest:06d}Z")


def _check(call: Call) -> None:
    if call.cancel.cancelled:
        raise RequestCancelledError
