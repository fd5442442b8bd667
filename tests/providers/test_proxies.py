"""Proxies of the environment: for other machines only, and never a surprise."""

from __future__ import annotations

import socket

import pytest

from term2_acp.agent.model import ProviderError, UserTurn
from term2_acp.providers.chat_completions import ChatCompletionsProvider
from term2_acp.providers.proxies import is_loopback, proxy_for
from tests.models.chat import chat_stream
from tests.models.http import HttpServer, Reply
from tests.models.steps import ScriptedStep
from tests.providers.conftest import ask

_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    """An environment without proxies."""
    for variable in _VARIABLES:
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.upper(), raising=False)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "a.localhost", "127.1.2.3", "::1"])
def test_this_machine_is_never_behind_a_proxy(monkeypatch, host):
    """Loopback is reached directly, whatever the environment says."""
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.example:1080")
    assert is_loopback(host)
    assert proxy_for("http", host) is None


@pytest.mark.parametrize(
    ("variables", "scheme", "expected"),
    [
        ({}, "https", None),
        ({"HTTPS_PROXY": "http://p.example:1"}, "https", "http://p.example:1"),
        ({"HTTPS_PROXY": "http://p.example:1"}, "http", None),
        ({"https_proxy": "p.example:1"}, "https", "http://p.example:1"),
        ({"ALL_PROXY": "http://p.example:1"}, "https", "http://p.example:1"),
        ({"HTTPS_PROXY": "http://p.example:1", "NO_PROXY": "other.example"}, "https", None),
        ({"HTTPS_PROXY": "http://p.example:1", "NO_PROXY": ".example"}, "https", None),
    ],
)
def test_other_machines_are_reached_as_the_environment_says(
    monkeypatch, variables, scheme, expected
):
    """HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY mean what they mean elsewhere."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert expected == proxy_for(scheme, "other.example")


def _provider(base_url: str) -> ChatCompletionsProvider:
    return ChatCompletionsProvider("scripted", base_url=base_url, api_key=None, idle_timeout_s=10)


def test_a_request_goes_through_the_proxy(monkeypatch):
    """The proxy is asked for the whole address."""
    proxy = HttpServer()
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    proxy.reply(Reply((b"".join(chat_stream(ScriptedStep(text="Hi"))),)))
    ask(_provider("http://models.example/v1"), UserTurn("Hello"))
    proxy.close()
    assert "http://models.example/v1/chat/completions" == proxy.requests[0].path


@pytest.mark.parametrize("proxy", ["socks5://p.example:1", "https://p.example:1", "ftp://p"])
def test_a_proxy_that_cannot_be_used_is_named(monkeypatch, proxy):
    """Another kind of proxy is a clear fault, not a silent detour."""
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(ProviderError) as caught:
        ask(_provider("http://models.example/v1"), UserTurn("Hello"))
    assert "HTTP_PROXY" in caught.value.message
    assert not caught.value.retryable


def test_a_proxy_that_is_not_there_is_told_apart(monkeypatch):
    """Where the proxy cannot be reached, the user is not sent to look at the service."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{listener.getsockname()[1]}")
    with pytest.raises(ProviderError) as caught:
        ask(_provider("http://models.example/v1"), UserTurn("Hello"))
    assert "through the proxy" in caught.value.message
    assert caught.value.retryable
