"""The minimal exchange, typed by hand into a terminal."""

from __future__ import annotations


def read_until(terminal, predicate):
    """Read messages until one is as `predicate` says; all of them."""
    messages = []
    while not (messages and predicate(messages[-1])):
        messages.append(terminal.read_message())
    return messages


def test_the_minimal_exchange_can_be_typed_into_a_terminal(spawn, project):
    """initialize, session/new and session/prompt, line by line; Ctrl-D ends the server."""
    terminal = spawn("acp")
    terminal.type(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": 2,
                "info": {"name": "example-client", "version": "1.0.0"},
            },
        }
    )
    assert terminal.read_message()["result"]["protocolVersion"] == 2
    new = {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": str(project)}}
    terminal.type(new)
    session = terminal.read_message()["result"]["sessionId"]
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "Hello"}]}
    terminal.type({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt})
    messages = read_until(
        terminal, lambda m: m.get("params", {}).get("update", {}).get("state") == "idle"
    )
    assert messages[0]["params"]["update"]["state"] == "running"
    assert messages[1] == {"jsonrpc": "2.0", "id": 3, "result": {}}
    assert messages[2]["params"]["update"]["sessionUpdate"] == "user_message"
    assert messages[-1]["params"]["update"]["stopReason"] == "end_turn"
    assert terminal.type_eof() == 0
    assert "Traceback" not in terminal.stderr


def test_ctrl_c_ends_a_server_in_a_terminal(spawn):
    """The terminal's interrupt is a SIGINT: an orderly end with status 0."""
    terminal = spawn("acp")
    terminal.type({"jsonrpc": "2.0", "id": 1, "method": "session/list"})
    assert terminal.read_message()["error"]["code"] == -32600
    terminal.child.sendintr()
    assert terminal.wait_end() == 0
