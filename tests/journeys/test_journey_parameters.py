"""Spec section 7: wrong arguments of any tool are a failed call that names what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from term2_acp.tools.parameters import json_schema
from term2_acp.tools.registry import builtin_tools
from tests.models.chat import ChatServer
from tests.models.steps import Call, ScriptedStep

SCHEMAS = {tool.name: json_schema(tool.params) for tool in builtin_tools()}
SAMPLES = {
    "string": "proof",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": ["proof"],
    "object": {"proof": "proof"},
    "null": None,
}
A_STEP = 40


@attrs.frozen
class Case:
    """A call with something wrong, and the name that the answer must have."""

    tool: str
    arguments: str
    named: str


def good(schema: dict[str, Any]) -> Any:
    """A value that a schema allows, with all that is optional."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema["type"]:
        case "object":
            return {name: good(inner) for name, inner in schema["properties"].items()}
        case "array":
            return [good(schema["items"])]
        case "integer":
            return schema.get("minimum", 1)
        case "boolean":
            return False
    return "proof"


def wrongs(schema: dict[str, Any], where: str, *, optional: bool) -> Iterator[tuple[Any, str]]:
    """Values that a schema does not allow, each with the name of what is wrong."""
    kind = schema["type"]
    for name, sample in SAMPLES.items():
        if name != kind and not (name == "null" and optional):
            yield sample, where
    if "enum" in schema:
        yield "no-such-choice", where
    if "minimum" in schema:
        yield schema["minimum"] - 1, where
    if "maximum" in schema:
        yield schema["maximum"] + 1, where
    if kind == "array":
        for wrong, name in wrongs(schema["items"], f"{where}[1]", optional=False):
            yield [good(schema["items"]), wrong], name
    if kind == "object":
        yield from wrong_members(schema, where)


def wrong_members(schema: dict[str, Any], where: str) -> Iterator[tuple[Any, str]]:
    """Objects of which one member is missing, not known or wrong."""
    whole = good(schema)
    prefix = f"{where}." if where else ""
    for name, inner in schema["properties"].items():
        optional = name not in schema["required"]
        if not optional:
            yield {key: value for key, value in whole.items() if key != name}, f"{prefix}{name}"
        for wrong, named in wrongs(inner, f"{prefix}{name}", optional=optional):
            yield {**whole, name: wrong}, named
    yield {**whole, "no_such_parameter": "proof"}, f"{prefix}no_such_parameter"


def cases(tool: str) -> Iterator[Case]:
    """Every way in which the arguments of a tool can be wrong."""
    schema = SCHEMAS[tool]
    for wrong, named in wrong_members(schema, ""):
        yield Case(tool, json.dumps(wrong), named)
    for name, sample in SAMPLES.items():
        if name != "object":
            yield Case(tool, json.dumps(sample), "JSON object")
    text = json.dumps(good(schema))
    for malformed in (text[:-1], text + "}", text.replace('"', "'"), "{,}", "\u00e9"):
        yield Case(tool, malformed, "not valid JSON")


@pytest.fixture(name="model")
def _model(home):
    server = ChatServer()
    home.configure(
        f'provider = "local"\nmodel = "m"\n[providers.local]\nkind = "openai-compatible"\n'
        f'base_url = "{server.base_url}"\nmodels = [{{ id = "m", context_window = 10000000 }}]\n'
    )
    yield server
    server.close()
    assert server.faults == []


def test_every_wrong_argument_of_every_tool_is_named_and_the_turn_goes_on(model, client, project):
    """Nothing is asked, nothing runs; the model is told which parameter was wrong."""
    before = sorted(project.rglob("*"))
    session = client.new_session(project)
    model.step(ScriptedStep(text="Hello."))
    client.run(session, "hello")
    told = {tool["function"]["name"] for tool in model.requests[0].body["tools"]}
    assert told == set(SCHEMAS), "the cases are for all tools that a model is told"
    wrong = [case for tool in SCHEMAS for case in cases(tool)]
    for start in range(0, len(wrong), A_STEP):
        calls = tuple(Call(case.tool, case.arguments) for case in wrong[start : start + A_STEP])
        model.step(ScriptedStep(calls=calls))
    model.step(ScriptedStep(text="All failed."))
    turn = client.run(session, "try", timeout=90)
    assert (turn.stop_reason, turn.text) == ("end_turn", "All failed.")
    assert client.permissions.requests == []
    assert sorted(project.rglob("*")) == before
    results = [m["content"] for m in model.requests[-1].body["messages"] if m["role"] == "tool"]
    assert len(turn.calls) == len(results) == len(wrong)
    for case, result in zip(wrong, results, strict=True):
        assert case.named in result, (case, result)
    # Those of a step that only reads run side by side, so they are shown in any order.
    assert {call["status"] for call in turn.calls} == {"failed"}
    shown = [(call["name"], call["content"][0]["content"]["text"]) for call in turn.calls]
    assert sorted(shown) == sorted(
        (case.tool, result) for case, result in zip(wrong, results, strict=True)
    )


def test_what_fits_the_schemas_is_no_wrong_argument(model, client, project):
    """The cases above are wrong in one thing only: what they are made from is accepted."""
    session = client.new_session(project)
    client.permissions.policy = lambda _request: "reject"
    for tool, schema in SCHEMAS.items():
        model.step(ScriptedStep(calls=(Call.of(tool, **good(schema)),)))
    model.step(ScriptedStep(text="Done."))
    turn = client.run(session, "try")
    assert turn.stop_reason == "end_turn"
    for call in turn.calls:
        text = json.dumps(call["content"])
        assert "wrong arguments" not in text, call
