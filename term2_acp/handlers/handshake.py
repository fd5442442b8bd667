"""
`initialize`: the versions that are served, and the answer (spec sections 5 and 6).

It is the path that an editor waits for at start-up, so its few members are judged
here by hand, and the handlers (cattrs, jsonrpcserver, the store) are loaded after
the answer is out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from term2_acp import __version__
from term2_acp.errors import InternalError, InvalidParamsError

if TYPE_CHECKING:
    from term2_acp.rpc.engine import Engine

LATEST = 2
_INFO = {"name": "term2", "title": "term2", "version": __version__}


class Handshake:
    """
    Negotiates once and then gives the engine of the negotiated version.

    Args:
        load: loads the engine of a version.
        negotiated: called after an answer was made; warms up what comes next.
    """

    def __init__(self, load: Callable[[int], Engine], negotiated: Callable[[], None]) -> None:
        self._load = load
        self._negotiated = negotiated
        self._version: int | None = None

    def answer(self, params: dict[str, Any]) -> dict[str, Any]:
        """
        The result of `initialize`.

        Raises:
            InvalidParamsError: a member is missing or wrong; nothing was negotiated.
        """
        wanted = _version(params)
        if wanted == LATEST:
            _check_info(params)
        self._version = 1 if wanted == 1 else LATEST
        self._negotiated()
        return _answer_v1() if self._version == 1 else _answer_v2()

    def engine(self) -> Engine:
        """The engine of the negotiated version; loads it, which takes a while the first time."""
        if self._version is None:
            raise InternalError("the engine was asked for before a version was negotiated")
        return self._load(self._version)


def _answer_v1() -> dict[str, Any]:
    return {
        "protocolVersion": 1,
        "agentInfo": dict(_INFO),
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"embeddedContext": True},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
        },
        "authMethods": [],
    }


def _answer_v2() -> dict[str, Any]:
    return {
        "protocolVersion": LATEST,
        "info": dict(_INFO),
        "capabilities": {"session": {}},
    }


def _version(params: dict[str, Any]) -> int:
    if "protocolVersion" not in params:
        raise InvalidParamsError(f"protocolVersion is missing; it is an integer such as {LATEST}")
    version = params["protocolVersion"]
    if type(version) is not int:
        raise InvalidParamsError(f"protocolVersion must be an integer such as {LATEST}")
    return version


def _check_info(params: dict[str, Any]) -> None:
    info = params.get("info")
    if not isinstance(info, dict):
        raise InvalidParamsError("info must be an object with the client's name and version")
    for member in ("name", "version"):
        if not isinstance(info.get(member), str):
            raise InvalidParamsError(f"info.{member} must be a string")
