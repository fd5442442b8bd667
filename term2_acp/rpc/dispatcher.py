"""The dispatcher: judges each message, answers what is quick, hands on what is not."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from term2_acp.errors import (
    AcpError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
)
from term2_acp.rpc.calls import BatchAnswer, Call, Deferred, failure
from term2_acp.rpc.inbox import Ended, Inbox, Received, Rejected
from term2_acp.rpc.workers import PoolFullError, WorkerPool

if TYPE_CHECKING:
    from term2_acp.rpc.engine import Engine
    from term2_acp.rpc.outbound import OutboundRequests
    from term2_acp.rpc.writer import Writer

logger = logging.getLogger(__name__)

CANCEL_REQUEST = "$/cancel_request"
MAX_BATCH = 1000
"""More elements in one batch are refused as a whole; each could cost an answer."""

_NOTIFICATIONS = frozenset({"session/cancel", CANCEL_REQUEST})
_NOT_IN_BATCH = frozenset({"session/prompt"})


Answer = Callable[[dict[str, Any]], None]
Slot = Callable[[], Answer]
# An array is well-formed JSON-RPC; each method then says that it wants an object.
Params = dict[str, Any] | list[Any]


class Handshake(Protocol):
    """Answers `initialize`, before anything else is loaded."""

    def answer(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result; raises `InvalidParamsError`."""
        ...

    def engine(self) -> Engine:
        """Load the handlers of the version that was negotiated."""
        ...


class Dispatcher:
    """
    Runs on the main thread and never blocks on anything but the inbox.

    A handler that returns `Deferred` goes on on a worker: of the turn pool for what
    belongs to a live session, of the request pool for the rest. Prompts, cancels
    and closes are admitted here, in the order they arrive (spec section 3).
    """

    def __init__(
        self,
        inbox: Inbox,
        writer: Writer,
        outbound: OutboundRequests,
        handshake: Handshake,
        pools: tuple[WorkerPool, WorkerPool],
    ) -> None:
        self._inbox = inbox
        self._writer = writer
        self._outbound = outbound
        self._handshake = handshake
        self._turns, self._requests = pools
        self._initialized = False
        self._engine: Engine | None = None
        self._in_flight: dict[tuple[type, Any], list[Call]] = {}
        self._in_flight_lock = threading.Lock()

    def run(self) -> str:
        """Dispatch until the end; returns why it ended."""
        while True:
            item = self._inbox.get()
            if isinstance(item, Ended):
                return item.reason
            try:
                self._take(item)
            except Exception:
                # Whatever one message does, the next one is served.
                logger.exception("a message could not be handled")

    def _take(self, item: Received | Rejected) -> None:
        if isinstance(item, Rejected):
            self._writer.send(failure(None, item.error))
        elif isinstance(item.value, list):
            self._accept_batch(item.value)
        else:
            self._accept(item.value, lambda: self._writer.send)

    def cancel_in_flight(self) -> None:
        """Cancel what is still being answered; the process is about to end."""
        with self._in_flight_lock:
            calls = [call for calls in self._in_flight.values() for call in calls]
        for call in calls:
            call.cancel.cancel()

    def _accept_batch(self, elements: list[Any]) -> None:
        if not elements or len(elements) > MAX_BATCH:
            error = InvalidRequestError(f"a batch has 1 to {MAX_BATCH} elements")
            self._writer.send(failure(None, error))
            return
        answer = BatchAnswer(self._writer.send)
        for element in elements:
            self._accept(element, answer.slot, in_batch=True)
        answer.done()

    def _accept(self, message: Any, slot: Slot, *, in_batch: bool = False) -> None:
        """Judge one message; `slot` is called only for what gets an answer."""
        if not isinstance(message, dict):
            slot()(
                failure(
                    None, InvalidRequestError("a message is a JSON object, or an array of them")
                )
            )
        elif "method" in message:
            if "id" in message:
                self._accept_request(message, slot, in_batch=in_batch)
            elif isinstance(message["method"], str):
                self._notify(message, message["method"])
            else:
                error = InvalidRequestError("the member method must be a string")
                slot()(failure(None, error))
        elif "result" in message or "error" in message:
            self._outbound.receive(message)
        else:
            error = InvalidRequestError("a request needs the member method")
            slot()(failure(_readable_id(message), error))

    def _accept_request(self, message: dict[str, Any], slot: Slot, *, in_batch: bool) -> None:
        answer = slot()
        try:
            params = _check_request(message)
        except AcpError as error:
            answer(failure(_readable_id(message), error))
            return
        call = Call(message["id"], message["method"], answer, in_batch=in_batch)
        self._register(call)
        try:
            result = self._dispatch(call, params)
        except AcpError as error:
            call.fail(error)
            self._unregister(call)
            return
        if isinstance(result, Deferred):
            self._defer(call, result)
        else:
            call.respond(result)
            self._unregister(call)

    def _notify(self, message: dict[str, Any], method: str) -> None:
        """Act on a notification; whatever is wrong with it, it gets no answer."""
        params = message.get("params")
        well_formed = message.get("jsonrpc") == "2.0" and isinstance(params, dict | None)
        if not well_formed or method not in _NOTIFICATIONS or not self._initialized:
            logger.debug("ignored the notification %r", method)
            return
        try:
            self._dispatch(Call(None, method, _no_answer), params or {})
        except AcpError as error:
            logger.debug("ignored the notification %r: %s", method, error.message)

    def _dispatch(self, call: Call, params: Params) -> Any:
        if call.method == "initialize":
            return self._initialize(_named(params))
        if not self._initialized:
            raise InvalidRequestError("send initialize first")
        if call.in_batch and call.method in _NOT_IN_BATCH:
            raise InvalidRequestError(f"{call.method} may not come in a batch")
        if call.method == CANCEL_REQUEST:
            return self._cancel_request(_named(params))
        return self._load_engine().dispatch(call, params)

    def _load_engine(self) -> Engine:
        if self._engine is None:
            try:
                self._engine = self._handshake.engine()
            except Exception:
                logger.exception("the handlers cannot be loaded")
                raise InternalError("the agent cannot be loaded; see its stderr") from None
        return self._engine

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._initialized:
            raise InvalidRequestError("initialize was answered already")
        try:
            result = self._handshake.answer(params)
        except AcpError:
            raise
        except Exception:
            logger.exception("initialize failed")
            raise InternalError("initialize failed inside the agent; see its stderr") from None
        self._initialized = True
        return result

    def _cancel_request(self, params: dict[str, Any]) -> dict[str, Any]:
        if "requestId" not in params:
            raise InvalidParamsError("requestId is missing; it names the request to cancel")
        request_id = params["requestId"]
        if not _is_id(request_id):
            raise InvalidParamsError("requestId must be a string, an integer or null")
        with self._in_flight_lock:
            calls = list(self._in_flight.get((type(request_id), request_id), ()))
        for call in calls:
            call.cancel.cancel()
        return {}

    def _defer(self, call: Call, deferred: Deferred) -> None:
        def task() -> None:
            try:
                call.respond(deferred.run())
                if deferred.after is not None:
                    deferred.after()
            except AcpError as error:
                call.fail(error)
            except Exception:
                logger.exception("%s failed", call.method)
                call.fail(InternalError(f"{call.method} failed inside the agent; see its stderr"))
            finally:
                self._unregister(call)

        pool = self._turns if deferred.foreground else self._requests
        try:
            pool.submit(task)
        except PoolFullError:
            call.fail(InternalError("too many requests are waiting; try again later"))
            self._unregister(call)
            if deferred.abandon is not None:
                deferred.abandon()

    def _register(self, call: Call) -> None:
        key = (type(call.request_id), call.request_id)
        with self._in_flight_lock:
            self._in_flight.setdefault(key, []).append(call)

    def _unregister(self, call: Call) -> None:
        key = (type(call.request_id), call.request_id)
        with self._in_flight_lock:
            calls = self._in_flight.get(key, [])
            if call in calls:
                calls.remove(call)
            if not calls:
                self._in_flight.pop(key, None)


def _check_request(message: dict[str, Any]) -> Params:
    """Return the params of a well-formed request; raises what is wrong with it."""
    if not _is_id(message["id"]):
        raise InvalidRequestError("the member id must be a string, an integer or null")
    if message.get("jsonrpc") != "2.0":
        raise InvalidRequestError('the member jsonrpc must be "2.0"')
    method = message["method"]
    if not isinstance(method, str):
        raise InvalidRequestError("the member method must be a string")
    params = message.get("params")
    if params is None:
        return {}
    if not isinstance(params, dict | list):
        raise InvalidRequestError("the member params must be an object")
    return params


def _named(params: Params) -> dict[str, Any]:
    if isinstance(params, list):
        raise InvalidParamsError("params must be an object: parameters are named here")
    return params


def _is_id(value: Any) -> bool:
    return value is None or isinstance(value, str) or type(value) is int


def _readable_id(message: dict[str, Any]) -> Any:
    request_id = message.get("id")
    return request_id if _is_id(request_id) else None


def _no_answer(_response: dict[str, Any]) -> None:
    """Notifications get no answer."""
