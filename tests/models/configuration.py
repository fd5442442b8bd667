"""The configuration with which the program asks a scripted service."""

from __future__ import annotations

import json
from typing import Any

from tests.harness.home import Home
from tests.models.chat import ChatServer
from tests.models.messages import MessagesServer
from tests.models.responses import ResponsesServer

MODEL = "test-model"
KEY_VARIABLE = "LOCAL_API_KEY"
KINDS = {
    "openai-compatible": ChatServer,
    "openai": ResponsesServer,
    "anthropic": MessagesServer,
}


def configure(home: Home, kind: str, server: Any, window: int = 100_000, **settings: Any) -> None:
    """Make a scripted service the provider of a home; `settings` are of the file's top level."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    home.configure(
        "\n".join(
            [
                'provider = "local"',
                f'model = "{MODEL}"',
                *lines,
                "[providers.local]",
                f'kind = "{kind}"',
                f'base_url = "{server.base_url}"',
                f'api_key_env = "{KEY_VARIABLE}"',
                f'models = [{{ id = "{MODEL}", context_window = {window} }}]',
            ]
        )
    )
