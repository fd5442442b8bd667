"""The client's side of session/request_permission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import attrs

from tests.harness.messages import JsonId, Message


@attrs.define(eq=False)
class PermissionRequest:
    """A question that the agent asked; open until answered or taken back."""

    id: JsonId
    params: Message
    seq: int
    answered: bool = False
    cancelled: bool = False

    @property
    def session(self) -> str:
        """The session that asks."""
        return str(self.params["sessionId"])

    @property
    def tool_call(self) -> Message:
        """The tool call that it is about, as version 2 (or 1) tells it."""
        subject: Message = self.params.get("subject") or self.params
        call: Message = subject.get("toolCall") or {}
        return call

    @property
    def options(self) -> dict[str, str]:
        """The offered choices: optionId -> kind."""
        return {option["optionId"]: option["kind"] for option in self.params["options"]}


class Wire(Protocol):
    """What the permissions need of the client."""

    def send(self, message: Any) -> None:
        """Send one message."""
        ...

    def wait_for(self, probe: Callable[[], Any], what: str, timeout: float) -> Any:
        """Wait until `probe` gives something true."""
        ...


Policy = Callable[[PermissionRequest], str | None]


class Permissions:
    """
    All questions of a connection, and the ways to answer them.

    Without a `policy` a question is recorded and stays open. A policy runs on the
    reading thread and gives the optionId to select, or None to leave it open.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._taken = 0
        self.requests: list[PermissionRequest] = []
        self.policy: Policy | None = None

    def allow_all(self) -> None:
        """Approve every question from now on, once each."""
        self.policy = lambda _request: "approve"

    def next(self, timeout: float = 15.0) -> PermissionRequest:
        """
        Wait for the next question that no earlier call gave out.

        Raises:
            AssertionError: none came within `timeout` seconds.
        """
        request: PermissionRequest = self._wire.wait_for(
            lambda: self.requests[self._taken] if len(self.requests) > self._taken else None,
            "a session/request_permission",
            timeout,
        )
        self._taken += 1
        return request

    def forget(self) -> None:
        """Take back the policy, and give out no question that has come so far."""
        self.policy = None
        self._taken = len(self.requests)

    def answer(self, request: PermissionRequest, option_id: str) -> None:
        """Select an option, offered or not."""
        self.reply(request, {"outcome": {"outcome": "selected", "optionId": option_id}})

    def reply(self, request: PermissionRequest, result: Any) -> None:
        """Answer with any result."""
        request.answered = True
        self._wire.send({"jsonrpc": "2.0", "id": request.id, "result": result})

    def fail(self, request: PermissionRequest, code: int, message: str = "no") -> None:
        """Answer with an error."""
        request.answered = True
        error = {"code": code, "message": message}
        self._wire.send({"jsonrpc": "2.0", "id": request.id, "error": error})

    def received(self, request: PermissionRequest) -> None:
        """Record a question and apply the policy (reading thread)."""
        self.requests.append(request)
        choice = self.policy(request) if self.policy is not None else None
        if choice is not None:
            self.answer(request, choice)
