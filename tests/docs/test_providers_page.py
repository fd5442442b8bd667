"""Each configuration of README.md and docs/providers.md answers; only the address is another."""

from __future__ import annotations

import json
import re

import pytest

from term2_acp import config_file
from term2_acp.selection import select
from tests.docs.blocks import blocks
from tests.models.chat import ChatServer
from tests.models.messages import MessagesServer
from tests.models.responses import ResponsesServer
from tests.models.steps import Call, ScriptedStep

SERVERS = {
    "openai-compatible": ChatServer,
    "openai": ResponsesServer,
    "anthropic": MessagesServer,
}
ADDRESS = re.compile(r'^base_url = ".*"$', re.MULTILINE)
VARIABLES = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
KEY = "sk-local-not-shown"
PAGES = ("README.md", "docs/providers.md")
EXAMPLES = [b for b in blocks() if b.document in PAGES and b.kind == "toml"]


def test_the_kinds_that_people_have_are_there():
    """Hosted services of each format, Ollama, llama.cpp, vLLM and none."""
    assert len(EXAMPLES) == 8


@pytest.mark.parametrize("block", EXAMPLES, ids=str)
def test_an_example_answers(block, home, project, start):
    """The real program reads the file, asks the model, runs its call and shows its words."""
    home.configure(block.text)
    path = home.config / "term2" / "config.toml"
    settings, _ = config_file.load(str(path))
    names = [provider.api_key_env for provider in settings.providers.values()]
    keys = {name: KEY for name in (*names, "OPENAI_API_KEY", "ANTHROPIC_API_KEY") if name}
    chosen = select(settings, environment=keys)
    if chosen.kind == "offline":
        client = start()
        client.initialize()
        assert client.run(client.new_session(project), "hello").stop_reason == "end_turn"
        return
    server = SERVERS[chosen.kind]()
    try:
        if ADDRESS.search(block.text):
            home.configure(ADDRESS.sub(f"base_url = {json.dumps(server.base_url)}", block.text))
        else:
            keys[VARIABLES[chosen.kind]] = server.base_url
        server.step(ScriptedStep(calls=(Call.of("read_file", path="README.md"),)))
        server.step(ScriptedStep(text="A teapot."))
        client = start(**keys)
        client.initialize()
        turn = client.run(client.new_session(project), "what is this?")
        assert (turn.stop_reason, turn.text) == ("end_turn", "A teapot."), client.stderr
        assert [call["status"] for call in turn.calls] == ["completed"]
        asked = [request for request in server.requests if request.method == "POST"]
        assert {request.body["model"] for request in asked} == {chosen.model}
        assert any(KEY in value for value in asked[0].headers.values()) == bool(chosen.api_key)
    finally:
        server.close()
    assert server.faults == []
