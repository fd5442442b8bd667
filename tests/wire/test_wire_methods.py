"""Spec sections 4 and 5: which methods there are, and what comes before and after initialize."""

from __future__ import annotations

import pytest

from tests.harness.client import CLIENT_INFO
from tests.harness.messages import encode, notification

HELLO = {"protocolVersion": 2, "info": CLIENT_INFO}
# Version 1, the rest of the version 2 schema, what only an agent sends, and plain nonsense.
UNKNOWN = [
    "authenticate",
    "logout",
    "session/load",
    "session/set_mode",
    "session/set_model",
    "session/set_config_option",
    "auth/login",
    "auth/logout",
    "session/delete",
    "session/fork",
    "providers/list",
    "providers/set",
    "providers/disable",
    "mcp/message",
    "nes/start",
    "nes/suggest",
    "nes/close",
    "session/request_permission",
    "session/update",
    "fs/read_text_file",
    "terminal/create",
    "elicitation/create",
    "_term2/own",
    "",
    "Initialize",
    "session/New",
    "session/new ",
    "rpc.discover",
    "__class__",
    "\u2028",
]


def test_every_other_method_is_unknown(shared, shared_session, pool):
    """-32601 for all that is not among the methods of version 2, whatever the parameters are."""
    for method in UNKNOWN:
        for params in (None, {}, {"sessionId": shared_session, "cwd": str(pool.project)}, [1]):
            assert shared.request(method, params).code() == -32601, (method, params)
    shared.still_works(shared_session)


def test_a_lone_surrogate_in_a_method_name_is_survived(shared, shared_session):
    """A method that UTF-8 cannot carry is unknown like any other."""
    reply = shared.expect(7, "")
    shared.send_raw(rb'{"jsonrpc":"2.0","id":7,"method":"\udc80","params":{"\ud800":1}}' + b"\n")
    assert reply.code() == -32601
    shared.still_works(shared_session)


def test_nothing_but_initialize_is_answered_before_initialize(start, project):
    """Every request is -32600, notifications are passed over, and initialize still works then."""
    client = start()
    for method in ("session/new", "session/list", "session/prompt", "session/close", "no/such"):
        assert client.request(method, {"cwd": str(project)}).code() == -32600
    batched, message = client.prepare("session/new", {"cwd": str(project)}, in_batch=True)
    client.send([message])
    assert batched.code() == -32600
    client.send(notification("session/cancel", {"sessionId": "x"}))
    client.send(notification("initialize", HELLO))
    broken = client.expect(None)
    client.send_raw(b"{\n")
    assert broken.code() == -32700
    assert client.request("session/list", {}).code() == -32600
    client.initialize()
    client.still_works(client.new_session(project))


def test_a_second_initialize_is_refused_and_changes_nothing(shared, shared_session):
    """Whatever version it names: -32600, and the connection stays in version 2."""
    for version in (1, 2, 99):
        assert shared.request("initialize", {**HELLO, "protocolVersion": version}).code() == -32600
    assert shared.request("session/load", {}).code() == -32601
    shared.still_works(shared_session)


def test_a_failed_initialize_may_be_repeated(start, project):
    """An initialize with wrong parameters negotiates nothing, the next one does."""
    client = start()
    assert client.request("initialize", {"protocolVersion": "2"}).code() == -32602
    assert client.request("session/list", {}).code() == -32600
    assert client.initialize()["protocolVersion"] == 2
    client.still_works(client.new_session(project))


def test_the_first_requests_may_follow_initialize_in_one_write(start, project):
    """A client need not wait for the answer of initialize."""
    client = start()
    hello, first = client.prepare("initialize", HELLO)
    opened, second = client.prepare("session/new", {"cwd": str(project)})
    listed, third = client.prepare("session/list")
    client.send_raw(encode(first) + encode(second) + encode(third))
    assert hello.result()["protocolVersion"] == 2
    assert listed.result() == {"sessions": []}
    client.still_works(opened.result()["sessionId"])


@pytest.mark.parametrize(
    ("method", "params", "member"),
    [
        ("session/new", {}, "cwd"),
        ("session/new", {"cwd": 5}, "cwd"),
        ("session/new", {"cwd": None}, "cwd"),
        ("session/list", {"cwd": 5}, "cwd"),
        ("session/list", {"cursor": {}}, "cursor"),
        ("session/resume", {"cwd": "/"}, "sessionId"),
        ("session/resume", {"sessionId": "s"}, "cwd"),
        ("session/resume", {"sessionId": ["s"], "cwd": "/"}, "sessionId"),
        ("session/close", {}, "sessionId"),
        ("session/close", {"sessionId": 1}, "sessionId"),
        ("session/prompt", {"prompt": [{"type": "text", "text": "x"}]}, "sessionId"),
        ("session/prompt", {"sessionId": None, "prompt": []}, "sessionId"),
    ],
    ids=str,
)
def test_wrong_parameters_are_named(shared, shared_session, method, params, member):
    """-32602 says which member is wrong."""
    error = shared.request(method, params).error()
    assert error["code"] == -32602
    assert member in f"{error['message']} {error.get('data', '')}"
    shared.still_works(shared_session)


@pytest.mark.parametrize(
    ("prompt", "member"),
    [
        (None, "prompt"),
        ("/say x", "prompt"),
        ({"type": "text", "text": "x"}, "prompt"),
        ([5], "prompt"),
        ([{}], "prompt[0]"),
        ([{"type": "text"}], "text"),
        ([{"type": "text", "text": 5}], "text"),
        ([{"type": "resource_link", "name": "x"}], "uri"),
        ([{"type": "resource", "resource": {"uri": "file:///x"}}], "resource"),
        ([{"type": "text", "text": "x"}, {"type": "nonsense"}], "prompt[1]"),
    ],
    ids=str,
)
def test_a_wrong_prompt_is_named_and_starts_no_turn(shared, shared_session, prompt, member):
    """-32602 for blocks that are none, with the member's name; no update is sent."""
    params = {"sessionId": shared_session, "prompt": prompt}
    error = shared.request("session/prompt", params).error()
    assert error["code"] == -32602
    assert member in f"{error['message']} {error.get('data', '')}"
    assert shared.updates(shared_session) == []
    shared.still_works(shared_session)


@pytest.mark.parametrize(
    "name",
    ["", "no-such-session", "../../x", "a" * 100_000, "\u0000", "ü"],
    ids=["empty", "unknown", "path", "long", "nul", "non-ascii"],
)
def test_an_unknown_session_is_not_found(shared, shared_session, pool, name):
    """-32002 for prompt, close and resume of a session that never was; nothing is made."""
    block = {"type": "text", "text": "/say x"}
    for method, more in (
        ("session/prompt", {"prompt": [block]}),
        ("session/close", {}),
        ("session/resume", {"cwd": str(pool.project)}),
    ):
        assert shared.request(method, {"sessionId": name, **more}).code() == -32002
    shared.still_works(shared_session)
