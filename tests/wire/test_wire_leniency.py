"""Spec section 4: bad optional members are ignored, save those that ask for what we do not do."""

from __future__ import annotations

import pytest

from tests.harness.client import CLIENT_INFO


@pytest.mark.parametrize(
    "more",
    [
        {"capabilities": 5},
        {"capabilities": None},
        {"capabilities": {"auth": "x", "elicitation": [], "positionEncodings": "utf-8"}},
        {"capabilities": {"fs": {"readTextFile": True}, "_own": 1}},
        {"info": {**CLIENT_INFO, "title": 7}},
        {"info": {**CLIENT_INFO, "_meta": "x", "more": 1}},
        {"_meta": 5, "clientInfo": 3, "unknown": {}},
    ],
    ids=str,
)
def test_bad_optional_members_of_initialize_are_ignored(start, more):
    """What the schema defaults on error is defaulted; unknown members are passed over."""
    assert start().initialize(**more)["protocolVersion"] == 2


@pytest.mark.parametrize(
    "more",
    [
        {"additionalDirectories": None},
        {"additionalDirectories": []},
        {"additionalDirectories": "/tmp"},
        {"mcpServers": None},
        {"mcpServers": []},
        {"mcpServers": {"name": "x"}},
        {"mcpServers": 5},
        {"_meta": "x"},
        {"unknown": [1]},
    ],
    ids=str,
)
def test_bad_or_empty_optional_members_of_new_and_resume_are_ignored(
    shared, shared_session, pool, more
):
    """Empty arrays are fine, and what is no array at all counts as absent."""
    params = {"cwd": str(pool.project), **more}
    session = shared.request("session/new", params).result()["sessionId"]
    assert shared.request("session/resume", {"sessionId": session, **params}).result() == {}
    shared.close_session(session)
    shared.still_works(shared_session)


@pytest.mark.parametrize("member", ["mcpServers", "additionalDirectories"])
@pytest.mark.parametrize(
    "items",
    [[None], [5], ["relative"], ["/tmp"], [{}], [[]], [{"type": "stdio", "name": "x"}]],
    ids=str,
)
def test_servers_and_directories_are_refused_whatever_the_items_are(
    shared, shared_session, pool, member, items
):
    """A non-empty array is -32602 on new and resume, also if each item is invalid."""
    params = {"cwd": str(pool.project), member: items}
    for method, more in (("session/new", {}), ("session/resume", {"sessionId": shared_session})):
        error = shared.request(method, {**params, **more}).error()
        assert error["code"] == -32602
        assert member in f"{error['message']} {error.get('data', '')}"
    shared.still_works(shared_session)


@pytest.mark.parametrize(
    "replay_from",
    [
        {"type": "end"},
        {"type": "_own"},
        {"type": "Start"},
        {"type": None},
        {},
        {"messageId": "x"},
        [],
        [{"type": "start"}],
        5,
        0,
        False,
        "",
        "start",
    ],
    ids=str,
)
def test_any_other_replay_is_refused(shared, shared_session, pool, replay_from):
    """A replayFrom that is neither null nor of type start is -32602, and nothing is replayed."""
    shared.still_works(shared_session)
    before = len(shared.updates(shared_session))
    params = {"sessionId": shared_session, "cwd": str(pool.project), "replayFrom": replay_from}
    error = shared.request("session/resume", params).error()
    assert error["code"] == -32602
    assert "replayFrom" in f"{error['message']} {error.get('data', '')}"
    shared.sync()
    assert len(shared.updates(shared_session)) == before
    shared.still_works(shared_session)


def test_null_asks_for_no_replay_and_unknown_members_of_start_are_ignored(
    shared, shared_session, pool
):
    """`replayFrom: null` is the same as none; a start with more members is a start."""
    shared.still_works(shared_session)
    params = {"sessionId": shared_session, "cwd": str(pool.project)}
    before = len(shared.updates(shared_session))
    assert shared.request("session/resume", {**params, "replayFrom": None}).result() == {}
    shared.sync()
    assert len(shared.updates(shared_session)) == before
    start = {"type": "start", "_meta": 5, "more": {}}
    assert shared.request("session/resume", {**params, "replayFrom": start}).result() == {}
    assert len(shared.updates(shared_session)) > before
    shared.still_works(shared_session)


def test_bad_optional_members_of_content_blocks_are_ignored(shared, shared_session):
    """Annotations, sizes, types and titles that are wrong do not make a prompt wrong."""
    turn = shared.run(
        shared_session,
        [
            {"type": "text", "text": "/say fine", "annotations": 5, "_meta": "x", "more": 1},
            {
                "type": "resource_link",
                "name": "x",
                "uri": "file:///x",
                "size": "big",
                "title": 1,
                "description": [],
                "mimeType": 3,
                "icons": "x",
                "annotations": {"audience": "user", "priority": 7, "lastModified": "now"},
            },
            {
                "type": "resource",
                "resource": {"uri": "file:///y", "text": "y", "mimeType": 5, "_meta": 1},
                "annotations": [],
            },
        ],
    )
    assert turn.stop_reason == "end_turn"
    assert "fine" in turn.text
    shared.still_works(shared_session)
