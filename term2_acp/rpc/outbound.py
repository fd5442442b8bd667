"""Our own requests to the client: ids, answers, and what happens when none comes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from term2_acp.agent.cancel import Cancelled, CancelToken

if TYPE_CHECKING:
    from term2_acp.rpc.writer import Writer


class Reply:
    """
    What came back for one request of ours.

    `result` is the raw result, None when the client answered with an error, with
    something malformed, or is gone.
    """

    __slots__ = ("result",)

    def __init__(self, result: Any = None) -> None:
        self.result = result


class PendingRequest:
    """A request that waits for its answer; made by `OutboundRequests.send`."""

    def __init__(self, request_id: int, withdraw: Callable[[int], None]) -> None:
        self.request_id = request_id
        self._withdraw = withdraw
        self._reply: Reply | None = None
        self._settled = threading.Event()

    def settle(self, reply: Reply) -> None:
        """Hand in the answer; the first one counts."""
        if not self._settled.is_set():
            self._reply = reply
            self._settled.set()

    def wait(self, cancel: CancelToken) -> Reply:
        """
        Wait for the answer, however long it takes.

        Raises:
            Cancelled: the token was set first; the request is withdrawn with
                `$/cancel_request` and a late answer is ignored.
        """
        with cancel.on_cancel(self._settled.set):
            self._settled.wait()
        reply = self._reply
        # An answer that raced with the cancel does not count: when in doubt, denied.
        if cancel.cancelled or reply is None:
            self._withdraw(self.request_id)
            raise Cancelled
        return reply


class OutboundRequests:
    """Matches answers to requests by ids of our own; late, double and unknown ones are ignored."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._pending: dict[int, PendingRequest] = {}
        self._closed = False

    def send(self, method: str, params: Any) -> PendingRequest:
        """Send a request; it is registered before it is written."""
        with self._lock:
            pending = PendingRequest(next(self._ids), self._withdraw)
            closed = self._closed
            # What is never sent is never withdrawn either.
            if not closed:
                self._pending[pending.request_id] = pending
        if closed:
            pending.settle(Reply())
        else:
            message = {"jsonrpc": "2.0", "id": pending.request_id, "method": method}
            self._writer.send({**message, "params": params})
        return pending

    def receive(self, message: dict[str, Any]) -> None:
        """Take an answer from the client; called by the dispatcher."""
        request_id = message.get("id")
        # `True == 1` and `1.0 == 1` in a dict look-up: only a real integer is ours.
        if type(request_id) is not int:
            return
        with self._lock:
            pending = self._pending.pop(request_id, None)
        if pending is None:
            return
        well_formed = message.get("jsonrpc") == "2.0" and message.get("error") is None
        pending.settle(Reply(message.get("result") if well_formed else None))

    def close(self) -> None:
        """
        The client is gone: settle everything that waits as unanswered.

        It stays registered: a turn that was cancelled still withdraws its question.
        """
        with self._lock:
            self._closed = True
            waiting = list(self._pending.values())
        for pending in waiting:
            pending.settle(Reply())

    def _withdraw(self, request_id: int) -> None:
        with self._lock:
            known = self._pending.pop(request_id, None) is not None
        if known:
            params = {"requestId": request_id}
            self._writer.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params})
