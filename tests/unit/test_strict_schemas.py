"""The strict wire schemas refuse every misspelling and accept what the protocol reserves for us."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.schema import WireSchema, wire_schema

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_strict_schemas.py"

CHUNK = {
    "sessionUpdate": "agent_message_chunk",
    "messageId": "m",
    "content": {"type": "text", "text": "hi"},
}
IDLE = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
CALL = {
    "sessionUpdate": "tool_call_update",
    "toolCallId": "c",
    "name": "read_file",
    "title": "Read",
    "kind": "read",
    "status": "completed",
    "rawInput": {"anything": [1, None]},
    "locations": [{"path": "/a", "line": 3}],
    "content": [
        {"type": "content", "content": {"type": "text", "text": "x"}},
        {"type": "terminal", "terminalId": "t"},
        {
            "type": "diff",
            "changes": [{"operation": "modify", "path": "/a"}],
            "patch": {"format": "git_patch", "text": ""},
        },
    ],
}
TERMINAL = {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "aGk="}
TITLE = {"sessionUpdate": "session_info_update", "updatedAt": "2026-01-31T10:00:00.5Z"}
USAGE = {"sessionUpdate": "usage_update", "used": 1, "size": 128000}
PLAN = {
    "sessionUpdate": "plan_update",
    "plan": {
        "type": "items",
        "planId": "p",
        "entries": [{"content": "x", "priority": "high", "status": "pending"}],
    },
}
LINK = {
    "sessionUpdate": "user_message",
    "messageId": "m",
    "content": [{"type": "resource_link", "name": "x", "uri": "file:///a%20b"}],
}
PERMISSION = {
    "sessionId": "s",
    "title": "Run it?",
    "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c"}},
    "options": [{"optionId": "approve", "name": "Approve", "kind": "allow_once"}],
}


def fault_v2(update: dict[str, object]) -> str | None:
    """What is wrong with an update of version 2."""
    notification = {"sessionId": "s", "update": update}
    return wire_schema(2).fault("UpdateSessionNotification", notification)


def changed(value, path, new):
    """A copy with the member at `path` set to `new`."""
    value = copy.deepcopy(value)
    *parents, last = path
    target = value
    for step in parents:
        target = target[step]
    target[last] = new
    return value


@pytest.mark.parametrize("update", [CHUNK, IDLE, CALL, TERMINAL, TITLE, USAGE, PLAN, LINK])
def test_what_the_protocol_defines_is_accepted(update):
    """Right updates pass, also with `_meta`, whatever is in it."""
    assert fault_v2(update) is None
    assert fault_v2({**update, "_meta": {"any": {"thing": 1}}}) is None


@pytest.mark.parametrize(
    ("update", "path", "wrong"),
    [
        (CHUNK, ["sessionUpdate"], "agent_mesage_chunk"),
        (CHUNK, ["content", "type"], "txt"),
        (IDLE, ["state"], "idel"),
        (IDLE, ["stopReason"], "endTurn"),
        (CALL, ["kind"], "reed"),
        (CALL, ["status"], "complete"),
        (CALL, ["content", 0, "type"], "contents"),
        (CALL, ["content", 2, "changes", 0, "operation"], "edit"),
        (CALL, ["content", 2, "patch", "format"], "git-patch"),
        (PLAN, ["plan", "type"], "item"),
        (PLAN, ["plan", "entries", 0, "status"], "done"),
        (PLAN, ["plan", "entries", 0, "priority"], "urgent"),
    ],
)
def test_a_misspelt_value_is_refused_and_an_own_value_accepted(update, path, wrong):
    """Open unions take the defined values and those that begin with `_`, nothing else."""
    fault = fault_v2(changed(update, path, wrong))
    assert fault is not None
    assert wrong in fault
    own = changed(update, path, "_term2_error")
    assert "_term2_error" not in (fault_v2(own) or "")


def test_the_own_stop_reason_is_accepted():
    """`_term2_error` is a stop reason in version 2."""
    assert fault_v2({**IDLE, "stopReason": "_term2_error"}) is None


@pytest.mark.parametrize(
    ("update", "path"),
    [
        (CHUNK, ["mesageId"]),
        (CHUNK, ["content", "txt"]),
        (IDLE, ["stop_reason"]),
        (CALL, ["tittle"]),
        (CALL, ["locations", 0, "column"]),
        (CALL, ["content", 0, "text"]),
        (CALL, ["content", 1, "terminal"]),
        (CALL, ["content", 2, "changes", 0, "oldPath"]),
        (TERMINAL, ["output"]),
        (PLAN, ["plan", "entries", 0, "id"]),
        (USAGE, ["total"]),
    ],
)
def test_an_unknown_member_is_refused(update, path):
    """Every object is closed, at every depth and in every variant."""
    fault = fault_v2(changed(update, path, "x"))
    assert fault is not None
    assert f"'{path[-1]}' was unexpected" in fault


@pytest.mark.parametrize(
    ("update", "path", "wrong"),
    [
        (TERMINAL, ["data"], "aGk"),
        (TERMINAL, ["data"], "a?k="),
        (TITLE, ["updatedAt"], "2026-02-30T10:00:00Z"),
        (TITLE, ["updatedAt"], "2026-01-31 10:00:00"),
        (USAGE, ["used"], -1),
        (USAGE, ["used"], 2**64),
        (USAGE, ["used"], 1.0),
        (CALL, ["locations", 0, "line"], 2**32),
        (CALL, ["locations", 0, "path"], "relative/path"),
        (LINK, ["content", 0, "uri"], "no uri"),
        (LINK, ["content", 0, "uri"], "file:///a b"),
    ],
)
def test_formats_are_checked(update, path, wrong):
    """base64, times, integer bounds, absolute paths and URIs are not just any string or number."""
    assert fault_v2(changed(update, path, wrong)) is not None


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (["options", 0, "kind"], "allow"),
        (["subject", "type"], "toolCall"),
        (["subject", "toolCallId"], "c"),
        (["subject", "toolCall", "state"], "x"),
        (["toolCall"], {"toolCallId": "c"}),
        (["options"], []),
    ],
)
def test_a_permission_request_is_judged_as_strictly(path, wrong):
    """Misspelt kinds, subjects and members of a request are refused too."""
    assert wire_schema(2).fault("RequestPermissionRequest", PERMISSION) is None
    assert wire_schema(2).fault("RequestPermissionRequest", changed(PERMISSION, path, wrong))


def test_error_codes_stay_open():
    """JSON-RPC leaves a range of codes to implementations; only integers of 32 bits are codes."""
    for version in (1, 2):
        schema = wire_schema(version)
        assert schema.fault("Error", {"code": -32010, "message": ""}) is None
        assert schema.fault("Error", {"code": 2**31, "message": ""}) is not None
        assert schema.fault("Error", {"code": -32603, "message": "", "trace": ""}) is not None


def test_version_1_knows_its_own_words_only():
    """A v1 schema takes tool_call and refuses the stop reasons and states of version 2."""
    schema = wire_schema(1)

    def fault(update):
        return schema.fault("SessionNotification", {"sessionId": "s", "update": update})

    assert fault({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t"}) is None
    assert fault({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "cancelled"})
    assert fault({"sessionUpdate": "state_update", "state": "running"}) is not None
    assert schema.fault("PromptResponse", {"stopReason": "cancelled"}) is None
    assert schema.fault("PromptResponse", {"stopReason": "_term2_error"}) is not None


@pytest.mark.parametrize("version", [1, 2])
def test_no_prose_is_left(version):
    """The derived schemas hold names and types, no text of the published ones."""
    text = (SCRIPT.parents[1] / "tests" / "schema" / f"v{version}.json").read_text("utf-8")
    for word in ("x-docs", "x-side", "$comment", "discriminator", "deserialize"):
        assert word not in text
    for definition in json.loads(text)["$defs"].values():
        assert not {"description", "title"} & definition.keys()


PUBLISHED = {
    "$defs": {
        "Base": {
            "description": "prose",
            "type": "object",
            "properties": {"id": {"type": "integer", "format": "uint16", "minimum": 1}},
            "required": ["id"],
        },
        "PingRequest": {
            "x-method": "session/ping",
            "x-side": "agent",
            "x-docs-ignore-this": "x",
            "type": "object",
            "properties": {"title": {"type": "string", "title": "prose"}},
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"type": "string", "const": "a"}},
                    "required": ["kind"],
                    "allOf": [{"$ref": "#/$defs/Base"}],
                },
                {
                    "type": "object",
                    "properties": {"kind": {"type": "string"}},
                    "required": ["kind"],
                    "not": {"anyOf": [{"properties": {"kind": {"const": "a"}}}]},
                    "additionalProperties": True,
                },
            ],
        },
        "UnusedResponse": {
            "x-method": "other/ping",
            "x-side": "client",
            "type": "object",
            "properties": {},
        },
    }
}


def derive(folder: Path, published: object) -> subprocess.CompletedProcess[str]:
    """Run the script on one schema, given as both versions."""
    source = folder / "published.json"
    source.write_text(json.dumps(published), encoding="utf-8")
    argv = [sys.executable, str(SCRIPT), str(source), str(source), "--out", str(folder)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


def test_the_script_flattens_and_closes_any_schema(tmp_path):
    """Composition is resolved, members stay known across it, prose and unused definitions go."""
    assert derive(tmp_path, PUBLISHED).returncode == 0
    derived = json.loads((tmp_path / "v2.json").read_text(encoding="utf-8"))
    assert list(derived["$defs"]) == ["PingRequest"]
    assert derived["x-all-methods"] == {
        "other/ping": ["client"],
        "session/ping": ["agent", "request"],
    }
    schema = WireSchema(derived)
    assert schema.definition("session/ping", "request") == "PingRequest"
    assert schema.fault("PingRequest", {"kind": "a", "id": 1, "title": "t"}) is None
    assert schema.fault("PingRequest", {"kind": "_own", "more": 1}) is None
    for wrong in (
        {"kind": "a"},
        {"kind": "a", "id": 0},
        {"kind": "a", "id": 65536},
        {"kind": "a", "id": 1, "titel": "t"},
        {"kind": "b", "id": 1},
        {"id": 1},
    ):
        assert schema.fault("PingRequest", wrong) is not None, wrong


def test_the_script_refuses_what_it_does_not_know(tmp_path):
    """A new construct in a published schema is an error, not a hole in the strict one."""
    published = copy.deepcopy(PUBLISHED)
    published["$defs"]["Base"]["properties"]["id"]["multipleOf"] = 2
    run = derive(tmp_path, published)
    assert run.returncode != 0
    assert "multipleOf" in run.stderr
