"""Responses to the client's requests, and whole turns, as tests ask them."""

from __future__ import annotations

from typing import Any

import attrs

from tests.harness.messages import Message, Update, agent_text, tool_calls
from tests.harness.permissions import Wire
from tests.harness.record import Expected

TIMEOUT = 20.0


class RequestFailed(AssertionError):
    """A request was answered with an error; `error` is that object."""

    def __init__(self, method: str, error: Message) -> None:
        super().__init__(f"{method} failed: {error}")
        self.error = error


@attrs.frozen(eq=False)
class Reply:
    """The response to a request, to be waited for."""

    wire: Wire
    expected: Expected

    def response(self, timeout: float = TIMEOUT) -> Message:
        """Wait for the whole response object."""
        expected = self.expected
        what = f"the response to {expected.method} with id {expected.id!r}"
        response: Message = self.wire.wait_for(lambda: expected.response, what, timeout)
        return response

    def result(self, timeout: float = TIMEOUT) -> Any:
        """
        Wait for the result.

        Raises:
            RequestFailed: the response is an error.
        """
        response = self.response(timeout)
        if "error" in response:
            raise RequestFailed(self.expected.method, response["error"])
        return response["result"]

    def error(self, timeout: float = TIMEOUT) -> Message:
        """
        Wait for the error object.

        Raises:
            AssertionError: the request succeeded.
        """
        response = self.response(timeout)
        assert "error" in response, f"{self.expected.method} succeeded: {response}"
        error: Message = response["error"]
        return error

    def code(self, timeout: float = TIMEOUT) -> int:
        """Wait for the error's code."""
        return int(self.error(timeout)["code"])

    @property
    def done(self) -> bool:
        """Whether the response came."""
        return self.expected.response is not None

    @property
    def seq(self) -> int:
        """The place of the response among all messages, after it came."""
        assert self.expected.seq is not None
        return self.expected.seq

    @property
    def line(self) -> int:
        """The number of the line that it came in, after it came."""
        assert self.expected.line is not None
        return self.expected.line


@attrs.frozen(eq=False)
class Turn:
    """A prompt from its request to its idle state."""

    reply: Reply
    stop_reason: str
    updates: list[Update]

    @property
    def text(self) -> str:
        """What the agent said."""
        return agent_text(self.updates)

    @property
    def calls(self) -> list[Message]:
        """The tool calls as they ended, in order."""
        return list(tool_calls(self.updates).values())
