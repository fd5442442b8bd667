"""A request on its way to its one answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from term2_acp.agent.cancel import CancelToken
from term2_acp.errors import AcpError

RequestId = str | int | None


def success(request_id: RequestId, result: Any) -> dict[str, Any]:
    """A JSON-RPC response object."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def failure(request_id: RequestId, error: AcpError) -> dict[str, Any]:
    """A JSON-RPC error response object."""
    return {
        "jsonrpc": "2.0",
        "id": request_id,
        "error": {"code": error.code, "message": error.message},
    }


class Call:
    """
    One request: it is answered once, by whoever comes first.

    `cancel` is set by `$/cancel_request`. `respond` and `fail` may be called from
    any thread.
    """

    def __init__(
        self,
        request_id: RequestId,
        method: str,
        answer: Callable[[dict[str, Any]], None],
        *,
        in_batch: bool = False,
    ) -> None:
        self.request_id = request_id
        self.method = method
        self.in_batch = in_batch
        self.cancel = CancelToken()
        self._answer = answer
        self._lock = threading.Lock()
        self._answered = False

    def respond(self, result: Any) -> None:
        """Answer with a result, unless answered."""
        if self._claim():
            self._answer(success(self.request_id, result))

    def fail(self, error: AcpError) -> None:
        """Answer with an error, unless answered."""
        if self._claim():
            self._answer(failure(self.request_id, error))

    def _claim(self) -> bool:
        with self._lock:
            first = not self._answered
            self._answered = True
        return first


class Deferred:
    """
    A handler's word that it goes on off the dispatcher.

    `run` is called on a worker; what it returns answers the request unless it was
    answered already. `foreground` work belongs to a live session (one prompt, one
    close) and never queues behind other requests. `abandon` is called instead of
    `run` when no worker can be had, `after` on the same worker once a result was sent.
    """

    __slots__ = ("abandon", "after", "foreground", "run")

    def __init__(
        self,
        run: Callable[[], Any],
        *,
        foreground: bool = False,
        abandon: Callable[[], None] | None = None,
        after: Callable[[], None] | None = None,
    ) -> None:
        self.run = run
        self.after = after
        self.foreground = foreground
        self.abandon = abandon


class BatchAnswer:
    """Collects the responses of a batch and sends them together when the last one is in."""

    def __init__(self, send: Callable[[list[dict[str, Any]]], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._slots: list[dict[str, Any] | None] = []
        self._open = 1

    def slot(self) -> Callable[[dict[str, Any]], None]:
        """Reserve the next place; the function returned fills it."""
        with self._lock:
            index = len(self._slots)
            self._slots.append(None)
            self._open += 1

        def fill(response: dict[str, Any]) -> None:
            with self._lock:
                self._slots[index] = response
            self.done()

        return fill

    def done(self) -> None:
        """One place, or the reading of the batch, is finished."""
        with self._lock:
            self._open -= 1
            if self._open or not self._slots:
                return
            responses = [response for response in self._slots if response is not None]
        self._send(responses)
