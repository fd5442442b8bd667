"""What the handlers of both versions do alike: list, cancel, close, replay."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from term2_acp.agent.cancel import Cancelled
from term2_acp.errors import (
    InvalidParamsError,
    RequestCancelledError,
    SessionNotFoundError,
)
from term2_acp.replay import items
from term2_acp.rpc.calls import Call, Deferred
from term2_acp.wire import shared
from term2_acp.wire.base import structure_params

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cattrs import Converter

    from term2_acp.agent.cancel import CancelToken
    from term2_acp.agent.turns import TurnRunner
    from term2_acp.eventlog import SessionState
    from term2_acp.registry import SessionRegistry
    from term2_acp.replay import Item
    from term2_acp.sessions import Session
    from term2_acp.store import SessionRecord

CLOSE_TIMEOUT_S = 10.0
"""How long a close waits for the turn that it cancelled (spec section 5)."""

T = TypeVar("T")
Params = dict[str, Any]


class Updates(Protocol):
    """The projection of a version, as far as a replay needs it."""

    def wait_for_room(self, session_id: str, cancel: CancelToken) -> None:
        """Wait while too much of the session is queued."""
        ...

    def replay(self, session_id: str, history: Iterable[Item]) -> Iterable[None]:
        """Queue the history's items, one at each step."""
        ...

    def show_state(self, session_id: str, state: SessionState) -> None:
        """Queue the state that a turn is in."""
        ...


class SessionHandlers:
    """
    Turns requests into calls of the core; what they return is the result on the wire.

    Args:
        warm_up: called when the opening of a session was answered, so that the answer
            does not wait for what only a prompt needs.
    """

    def __init__(
        self,
        registry: SessionRegistry,
        runner: TurnRunner,
        updates: Updates,
        converter: Converter,
        warm_up: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._runner = runner
        self._updates = updates
        self._converter = converter
        self._warm_up = warm_up

    def _open_new(self, params: Params) -> Deferred:
        request = self._structure(params, shared.NewSessionRequest)

        def run() -> Any:
            session = self._registry.new(request.cwd)
            return self._converter.unstructure(shared.NewSessionResponse(session.session_id))

        return Deferred(run, after=self._warm_up)

    def _list(self, call: Call, params: Params) -> Deferred:
        request = self._structure(params, shared.ListSessionsRequest)

        def run() -> Any:
            _check(call)
            page = self._registry.list_page(request.cwd, request.cursor)
            _check(call)
            response = shared.ListSessionsResponse(
                tuple(_info(record) for record in page.sessions), page.next_cursor
            )
            return self._converter.unstructure(response)

        return Deferred(run)

    def _open_stored(self, call: Call, session_id: str, cwd: str, *, replay: bool) -> Deferred:
        def run() -> Any:
            try:
                session = self._registry.resume(session_id, cwd, call.cancel)
            except Cancelled:
                raise RequestCancelledError from None
            try:
                if replay:
                    self._replay(call, session)
            except Cancelled:
                if session.closing.cancelled:
                    raise SessionNotFoundError(session_id) from None
                raise RequestCancelledError from None
            return {}

        return Deferred(run, after=self._warm_up)

    def _replay(self, call: Call, session: Session) -> None:
        """Show the whole conversation, then answer, then go on with what is live."""
        with session.closing.on_cancel(call.cancel.cancel), session.hold(call.cancel) as position:
            history = items(session.history(position))
            for _ in self._updates.replay(session.session_id, history):
                self._updates.wait_for_room(session.session_id, call.cancel)
                call.cancel.raise_if_cancelled()
            call.respond({})
            if position.state is not None:
                self._updates.show_state(session.session_id, position.state)

    def _cancel(self, _call: Call, params: Params) -> Any:
        request = self._structure(params, shared.SessionParams)
        self._registry.cancel(request.session_id)
        return {}

    def _close(self, _call: Call, params: Params) -> Deferred:
        request = self._structure(params, shared.SessionParams)
        finish = self._registry.start_closing(request.session_id)

        def run() -> Any:
            finish(CLOSE_TIMEOUT_S)
            return {}

        return Deferred(run, foreground=True, abandon=lambda: finish(0))

    def _structure(self, params: Params, cls: type[T]) -> T:
        return structure_params(self._converter, params, cls)


def refuse_empty(prompt: Iterable[Any]) -> None:
    """
    Only white space is no prompt; a link or a resource is one.

    Raises:
        InvalidParamsError: nothing was said.
    """
    if not any(
        block.text.strip() if isinstance(block, shared.TextContent) else True for block in prompt
    ):
        raise InvalidParamsError("prompt is empty; it needs text, a resource_link or a resource")


def _info(record: SessionRecord) -> shared.SessionInfo:
    seconds, rest = divmod(record.updated_at, 1_000_000)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return shared.SessionInfo(record.session_id, record.cwd, record.title, f"{stamp}.{rest:06d}Z")


def _check(call: Call) -> None:
    if call.cancel.cancelled:
        raise RequestCancelledError
