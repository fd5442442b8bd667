"""The three vendors' formats, each with its provider and its scripted service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.model import ModelEvent, ModelMessage, ModelRequest, ToolSpec, UserTurn
from term2_acp.agent.ports import Provider
from term2_acp.providers.chat_completions import ChatCompletionsProvider
from term2_acp.providers.messages import MessagesProvider
from term2_acp.providers.responses import ResponsesProvider
from tests.models.chat import ChatServer, chat_stream
from tests.models.http import HttpServer, Part, Reply
from tests.models.messages import MessagesServer, message_stream
from tests.models.responses import ResponsesServer, reasoning_item, response_stream
from tests.models.steps import ScriptedStep

KEY = "sk-test-0123456789abcdef"
KEY_VARIABLE = "SCRIPTED_API_KEY"
TOOL = ToolSpec("read_file", "Reads.", {"type": "object", "properties": {}})


def _chat(name: str, **options: Any) -> Provider:
    return ChatCompletionsProvider(name, **options)


def _responses(name: str, **options: Any) -> Provider:
    return ResponsesProvider(name, **options)


def _messages(name: str, **options: Any) -> Provider:
    return MessagesProvider(name, max_output_tokens=lambda _model: None, **options)


@attrs.frozen
class Format:
    """A vendor's format."""

    name: str
    make_server: Callable[[], HttpServer]
    make_provider: Callable[..., Provider]
    encode: Callable[[ScriptedStep], list[bytes]]
    path: str


FORMATS = (
    Format("chat", ChatServer, _chat, chat_stream, "/v1"),
    Format(
        "responses",
        ResponsesServer,
        _responses,
        lambda step: response_stream(
            step, reasoning_item(0, step.thought) if step.thought else None
        ),
        "/v1",
    ),
    Format("messages", MessagesServer, _messages, lambda step: message_stream(step, "s"), ""),
)


@attrs.frozen
class Service:
    """A scripted service and providers for it."""

    format: Format
    server: HttpServer

    def provider(self, name: str = "scripted", **options: Any) -> Provider:
        """A provider that asks this service, unless told otherwise."""
        given = {
            "base_url": self.server.url + self.format.path,
            "api_key": KEY,
            "api_key_env": KEY_VARIABLE,
            "idle_timeout_s": 30.0,
            **options,
        }
        return self.format.make_provider(name, **given)

    def step(self, **members: Any) -> None:
        """Script a well-formed step."""
        self.server.step(ScriptedStep(**members))  # type: ignore[attr-defined]

    def stream(self, *parts: Part) -> None:
        """Script an event stream by its bytes."""
        self.server.reply(Reply(parts))

    def ask(self, text: str = "Hello", **options: Any) -> list[ModelEvent]:
        """What a new provider answers."""
        return ask(self.provider(**options), UserTurn(text))


def request(*messages: ModelMessage, **members: Any) -> ModelRequest:
    """A request with one tool."""
    given = {"model": "test-model", "system": "Be brief.", "tools": (TOOL,), **members}
    return ModelRequest(messages=messages, **given)


def ask(provider: Provider, *messages: ModelMessage, **members: Any) -> list[ModelEvent]:
    """Every event of an answer."""
    return list(provider.stream(request(*messages, **members), CancelToken()))


@pytest.fixture(params=FORMATS, ids=[format_.name for format_ in FORMATS])
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """A scripted service of each format; it must not have been misused."""
    server = request.param.make_server()
    yield Service(request.param, server)
    server.close()
    assert [] == server.faults


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    """A scripted Chat Completions service."""
    server = ChatServer()
    yield server
    server.close()
    assert [] == server.faults


@pytest.fixture
def responses() -> Iterator[ResponsesServer]:
    """A scripted Responses service."""
    server = ResponsesServer()
    yield server
    server.close()
    assert [] == server.faults


@pytest.fixture
def messages() -> Iterator[MessagesServer]:
    """A scripted Messages service."""
    server = MessagesServer()
    yield server
    server.close()
    assert [] == server.faults
