"""
The dispatch of a checked request by jsonrpcserver.

The library's parser and validator answer otherwise than spec section 4 in several
places, so it is entered by `dispatch_to_response` with both replaced: it gets one
request that `Dispatcher` has judged already, finds the method, calls it and wraps
what it returns. Methods never raise into it, since it puts exception texts on the
wire.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from jsonrpcserver import Error, Result, Success, dispatch_to_response
from oslash.either import Left  # type: ignore[import-untyped]

from term2_acp.errors import AcpError, InternalError, InvalidParamsError, MethodNotFoundError
from term2_acp.rpc.calls import Call

logger = logging.getLogger(__name__)


Handler = Callable[[Call, dict[str, Any]], Any]
"""Handles one method: returns its result or a `Deferred`, or raises `AcpError`."""


class Engine:
    """Calls handlers by name through jsonrpcserver."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._methods = {name: _as_method(handler) for name, handler in handlers.items()}

    def dispatch(self, call: Call, params: dict[str, Any] | list[Any]) -> Any:
        """
        Call the handler of `call.method`; returns what it returned.

        Raises:
            AcpError: the handler's error, or `MethodNotFoundError`.
        """
        # Positional parameters bind to no method of ours; an empty array would.
        given = [params] if isinstance(params, list) else params
        request = {"jsonrpc": "2.0", "id": 0, "method": call.method, "params": given}
        response = dispatch_to_response(
            "",
            methods=self._methods,
            context=call,
            deserializer=lambda _line: request,
            validator=lambda checked: checked,
        )
        if isinstance(response, Left):
            raise _to_error(call.method, response._error)  # noqa: SLF001 (its only accessor)
        return response._value.result  # type: ignore[union-attr]  # noqa: SLF001


def _as_method(handler: Handler) -> Callable[..., Result]:
    # `context` is positional-only, so that a parameter of any name can come.
    def method(context: Call, /, **params: Any) -> Result:
        try:
            return Success(handler(context, params))
        except AcpError as error:
            return Error(error.code, error.message, error)
        except Exception:
            logger.exception("the handler of %s failed", context.method)
            failed = InternalError(f"{context.method} failed inside the agent; see its stderr")
            return Error(failed.code, failed.message, failed)

    return method


def _to_error(method: str, response: Any) -> AcpError:
    if isinstance(response.data, AcpError):
        return response.data
    if response.code == MethodNotFoundError.code:
        return MethodNotFoundError(
            f"method not found: {method} is not in the negotiated version of this agent"
        )
    if response.code == InvalidParamsError.code:
        # The library could not bind them: they came by position.
        return InvalidParamsError("params must be an object: parameters are named here")
    logger.error("jsonrpcserver answered %s to %s", response, method)
    return InternalError(f"{method} failed inside the agent; see its stderr")
