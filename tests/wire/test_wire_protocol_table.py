"""`docs/protocol.md` says what is served; the schemas, the program and the tests agree with it."""

from __future__ import annotations

import ast
import json
import re
from functools import cache

import pytest

from term2_acp.wire import shared, v1, v2
from tests.harness.client import CLIENT_INFO
from tests.harness.home import SOURCE
from tests.harness.messages import notification

VERSIONS = (1, 2)
TO_AGENT = "Methods that a client calls"
TO_CLIENT = "Methods that a client is called with"
OWN_STOP_REASON = "_term2_error"


@cache
def tables():
    """Heading -> first cell -> the other cells, of each heading's first table."""
    found = {}
    heading = ""
    for line in (SOURCE / "docs" / "protocol.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
            found[heading] = {}
        elif line.startswith("| `"):
            name, *cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            assert name not in found[heading], f"{name} is twice in the table {heading!r}"
            found[heading][name.strip("`")] = cells
    return found


def cell(heading, name, version):
    """What the table says of a name in a version."""
    return tables()[heading][name][version - 1]


@cache
def schema(version):
    """The strict schema, with the list of all methods of the published one."""
    path = SOURCE / "tests" / "schema" / f"v{version}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def values(version, definition, tag=None):
    """The values of an enumeration, or of the member that tells the variants apart."""
    found = schema(version)["$defs"][definition]
    if tag is not None:
        found = found["properties"][tag]
    while "anyOf" in found:
        found = found["anyOf"][0]
    return set(found["enum"])


def methods(version, *sides):
    """The methods of a version that these sides get."""
    everything = schema(version)["x-all-methods"]
    return {name for name, (side, *_) in everything.items() if side in sides}


@pytest.mark.parametrize(
    ("heading", "known"),
    [
        (TO_AGENT, lambda version: methods(version, "agent", "both", "protocol")),
        (TO_CLIENT, lambda version: methods(version, "client", "both", "protocol")),
        ("Updates", lambda version: values(version, "SessionUpdate", "sessionUpdate")),
        ("Content of a prompt", lambda version: values(version, "ContentBlock", "type")),
        ("Content of a tool call", lambda version: values(version, "ToolCallContent", "type")),
        ("Stop reasons", lambda version: values(version, "StopReason")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_tables_have_all_that_the_schemas_have_and_nothing_else(heading, known):
    """Each name of either schema is a row; `none` is said of exactly what a version lacks."""
    rows = set(tables()[heading]) - {OWN_STOP_REASON}
    assert rows == known(1) | known(2)
    for version in VERSIONS:
        without = {name for name in rows if cell(heading, name, version).startswith("none")}
        assert without == rows - known(version), version


def test_the_updates_that_are_sent_are_those_that_the_wire_types_can_say():
    """No shape is missing in the table, and none is promised that there is not."""
    for version, module in ((1, v1), (2, v2)):
        shapes = [*vars(module).values(), *vars(shared).values()]
        tags = [getattr(shape, "tag", ()) for shape in shapes if isinstance(shape, type)]
        possible = {tag[1] for tag in tags if tag and tag[0] == "sessionUpdate"}
        updates = tables()["Updates"]
        sent = {name for name in updates if cell("Updates", name, version).startswith("sent")}
        assert sent == possible, version


def test_every_test_that_the_tables_name_exists():
    """And whatever is served, sent or accepted names one."""
    trees = [ast.parse(path.read_bytes()) for path in (SOURCE / "tests").rglob("test_*.py")]
    existing = {
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
    }
    text = (SOURCE / "docs" / "protocol.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", text))
    assert named <= existing, named - existing
    for heading, rows in tables().items():
        for name, (*said, tests) in rows.items():
            if any(what.startswith(("served", "sent", "accepted")) for what in said):
                assert tests, f"{name} in {heading!r} names no test"


@pytest.fixture(name="connections")
def _connections(start):
    """A connection of each version, by its number."""
    both = {version: start() for version in VERSIONS}
    for version, client in both.items():
        hello = {"protocolVersion": version, "info": CLIENT_INFO}
        client.request("initialize", hello).result()
    return both


def test_what_the_table_refuses_is_refused(connections):
    """-32601 for each, with and without parameters; what is served is judged by its parameters."""
    for version, client in connections.items():
        for method in tables()[TO_AGENT]:
            said = cell(TO_AGENT, method, version)
            if said == "ignored" or method.startswith("$/"):
                continue
            for params in (None, {}, {"sessionId": "unknown"}):
                error = client.request(method, params).response().get("error", {})
                refused = said in ("-32601", "none: -32601")
                assert (error.get("code") == -32601) is refused, (version, method, params)
                assert refused or said == "served", said


def test_what_the_table_ignores_is_ignored(connections):
    """A notification gets no answer, and the connection works on."""
    for version, client in connections.items():
        ignored = [
            name for name in tables()[TO_AGENT] if cell(TO_AGENT, name, version) == "ignored"
        ]
        assert ignored
        for method in ignored:
            client.send(notification(method, {"sessionId": "unknown"}))
        client.sync()
