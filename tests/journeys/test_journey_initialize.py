"""Spec section 5: version negotiation."""

from __future__ import annotations

import pytest

import term2_acp
from tests.harness.client import CLIENT_INFO

ANSWER = {
    "protocolVersion": 2,
    "info": {"name": "term2", "title": "term2", "version": term2_acp.__version__},
    "capabilities": {"session": {}},
}


@pytest.mark.parametrize("version", [2, 0, 3, 99, 65535, 65536, -1])
def test_version_2_is_answered_and_offered(start, project, version):
    """2 and every unknown integer are answered by version 2 and exactly its capabilities."""
    client = start()
    assert client.initialize(version) == ANSWER
    client.still_works(client.new_session(project))


@pytest.mark.parametrize(
    "params",
    [
        {"protocolVersion": "2024-11-05", "info": CLIENT_INFO},
        {"protocolVersion": "2", "info": CLIENT_INFO},
        {"protocolVersion": None, "info": CLIENT_INFO},
        {"protocolVersion": True, "info": CLIENT_INFO},
        {"protocolVersion": 1.5, "info": CLIENT_INFO},
        {"protocolVersion": [2], "info": CLIENT_INFO},
        {"info": CLIENT_INFO},
        {},
        None,
    ],
    ids=str,
)
def test_a_version_that_is_no_integer_is_named_and_survived(start, project, params):
    """-32602 names protocolVersion, in words of its own; a right initialize works afterwards."""
    client = start()
    error = client.request("initialize", params).error()
    assert error["code"] == -32602
    assert "protocolVersion" in f"{error['message']} {error.get('data', '')}"
    assert client.initialize() == ANSWER
    client.still_works(client.new_session(project))


@pytest.mark.parametrize(
    "params",
    [{}, {"info": None}, {"info": "x"}, {"info": {"name": "x"}}, {"info": {"name": 1}}],
    ids=str,
)
def test_a_client_of_version_2_says_who_it_is(start, params):
    """`info` with name and version is required of a client that asks for 2; others may leave it."""
    client = start()
    error = client.request("initialize", {"protocolVersion": 2, **params}).error()
    assert error["code"] == -32602
    assert "info" in f"{error['message']} {error.get('data', '')}"
    assert client.request("initialize", {"protocolVersion": 99}).result() == ANSWER
