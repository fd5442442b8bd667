"""The parameters of tools: what a model is told, and what is accepted from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from term2_acp.agent.ports import ToolError
from term2_acp.tools.parameters import parse_arguments
from term2_acp.tools.registry import builtin_tools, tool_specs
from term2_acp.tools.search_replace import Replacement, SearchReplaceParams
from term2_acp.tools.shell import SandboxChoice
from tests.tools.bench import TOOLS

SCHEMAS = {spec.name: spec.parameters for spec in tool_specs(builtin_tools())}

GOOD: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": "a"}),
    ("read_file", {"path": "a", "start_line": 1, "end_line": 2}),
    ("glob", {"pattern": "*", "max_results": 1000}),
    ("grep", {"pattern": "x", "ignore_case": True, "include": "*.py"}),
    ("create_file", {"path": "a", "content": "", "overwrite": True}),
    (
        "search_replace",
        {"path": "a", "replacements": [{"search_content": "x", "replace_content": "y"}]},
    ),
    ("shell", {"command": "true", "timeout_s": 600, "sandbox": "unsandboxed"}),
]

# The tool, the arguments, and what the error must name.
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("read_file", {}, "path is missing"),
    ("read_file", {"path": 1}, "path must be a string, not 1"),
    ("read_file", {"path": None}, "path must be a string, not null"),
    ("read_file", {"path": "a", "start_line": "5"}, "start_line must be an integer, not the str"),
    ("read_file", {"path": "a", "start_line": True}, "start_line must be an integer, not true"),
    ("read_file", {"path": "a", "line": 5}, "line is not a parameter, the parameters are path, "),
    ("glob", {"pattern": ["*"]}, "pattern must be a string, not a list"),
    ("glob", {"pattern": "*", "max_results": 0}, "max_results must be 1 or more, not 0"),
    ("grep", {"pattern": "x", "ignore_case": 1}, "ignore_case must be true or false, not 1"),
    ("grep", {"pattern": "x", "ignore_case": "yes"}, 'must be true or false, not the string "yes"'),
    ("create_file", {"path": "a", "content": {}}, "content must be a string, not an object"),
    ("search_replace", {"path": "a", "replacements": {}}, "replacements must be a list"),
    ("search_replace", {"path": "a", "replacements": "x"}, "replacements must be a list"),
    ("search_replace", {"path": "a", "replacements": ["x"]}, "replacements[0] must be an object"),
    (
        "search_replace",
        {"path": "a", "replacements": [{"search_content": "x"}]},
        "replacements[0].replace_content is missing",
    ),
    (
        "search_replace",
        {
            "path": "a",
            "replacements": [
                {"search_content": "x", "replace_content": "y"},
                {"search_content": "x", "replace_content": 3, "all": True},
            ],
        },
        "replacements[1].all is not a parameter",
    ),
    ("shell", {"command": "x", "timeout_s": 601}, "timeout_s must be 600 or less, not 601"),
    ("shell", {"command": "x", "sandbox": "none"}, '"default", "unsandboxed", not the string "no'),
]


def parse(tool: str, text: str) -> Any:
    return parse_arguments(TOOLS[tool], text)


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_every_schema_is_a_closed_object_with_described_parameters(name: str) -> None:
    """A model is told each parameter, which ones it must give, and that there are no others."""
    schema = SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"]
    assert all(member["description"] for member in schema["properties"].values())
    json.dumps(schema)


def test_the_parameters_are_those_of_the_specification() -> None:
    """Names and defaults are what section 7 lists, in its order."""
    assert {name: list(schema["properties"]) for name, schema in SCHEMAS.items()} == {
        "read_file": ["path", "start_line", "end_line"],
        "glob": ["pattern", "path", "max_results"],
        "grep": [
            "pattern",
            "path",
            "ignore_case",
            "include",
            "exclude",
            "no_ignore",
            "max_results",
        ],
        "create_file": ["path", "content", "overwrite"],
        "search_replace": ["path", "replacements"],
        "apply_patch": ["operations"],
        "shell": ["command", "timeout_s", "sandbox"],
        "run_code": ["code"],
        "update_plan": ["entries"],
    }
    assert SCHEMAS["glob"]["properties"]["max_results"]["default"] == 50
    assert SCHEMAS["shell"]["properties"]["timeout_s"]["default"] == 120
    assert SCHEMAS["shell"]["properties"]["sandbox"]["enum"] == ["default", "unsandboxed"]
    replacement = SCHEMAS["search_replace"]["properties"]["replacements"]["items"]
    assert list(replacement["properties"]) == ["search_content", "replace_content", "replace_all"]
    assert replacement["required"] == ["search_content", "replace_content"]
    operation = SCHEMAS["apply_patch"]["properties"]["operations"]["items"]
    assert operation["properties"]["type"]["enum"] == ["create_file", "update_file", "delete_file"]
    assert list(operation["properties"]) == ["type", "path", "diff"]
    assert operation["required"] == ["type", "path"]


@pytest.mark.parametrize(("tool", "arguments"), GOOD)
def test_what_the_schema_allows_is_accepted(tool: str, arguments: dict[str, Any]) -> None:
    """The schema and the parser agree on good arguments, each value arrives as it was sent."""
    Draft202012Validator(SCHEMAS[tool]).validate(arguments)
    params = parse(tool, json.dumps(arguments))
    for name, value in arguments.items():
        if name != "replacements":
            assert getattr(params, name) == value


@pytest.mark.parametrize(("tool", "arguments", "told"), BAD)
def test_what_is_wrong_is_named_with_what_would_be_right(
    tool: str, arguments: dict[str, Any], told: str
) -> None:
    """Schema and parser agree on bad arguments; the error names the parameter."""
    assert not Draft202012Validator(SCHEMAS[tool]).is_valid(arguments)
    with pytest.raises(ToolError) as refused:
        parse(tool, json.dumps(arguments))
    assert told in str(refused.value)
    assert tool in str(refused.value)


def test_every_problem_is_told_at_once() -> None:
    """A model can put all of it right with its next call."""
    with pytest.raises(ToolError) as refused:
        parse("grep", '{"path": 1, "max_results": "x", "colour": true}')
    for name in ("pattern", "path", "max_results", "colour"):
        assert name in str(refused.value)


def test_null_stands_for_an_optional_parameter_that_is_not_given() -> None:
    """Models that fill in every parameter send null for those that they leave out."""
    params = parse("grep", '{"pattern": "x", "path": null, "max_results": null}')
    assert params.path is None
    assert params.max_results == 100


def test_a_whole_number_written_as_a_fraction_is_no_integer() -> None:
    """Types are strict: 5.0 is refused, and the error says what is expected."""
    with pytest.raises(ToolError, match=r"start_line must be an integer, not 5\.0"):
        parse("read_file", '{"path": "a", "start_line": 5.0}')


def test_nested_parameters_become_objects() -> None:
    """A tool gets typed values, never loose dicts; defaults are filled in."""
    text = '{"path": "a", "replacements": [{"search_content": "x", "replace_content": "y"}]}'
    assert parse("search_replace", text) == SearchReplaceParams("a", (Replacement("x", "y"),))


def test_a_choice_becomes_its_member() -> None:
    """The value of an enumeration is that enumeration's."""
    assert parse("shell", '{"command": "x"}').sandbox is SandboxChoice.DEFAULT


@pytest.mark.parametrize(
    "text",
    ['{"path": "a"', "nonsense", '{"path": NaN}', '{"path": "a"} {}', "[" * 100_000, "9" * 10_000],
    ids=["cut", "words", "nan", "two", "deep", "digits"],
)
def test_what_is_no_json_is_a_failed_call(text: str) -> None:
    """Malformed arguments are told as such, whatever is wrong with them."""
    with pytest.raises(ToolError, match="not valid JSON"):
        parse("read_file", text)


@pytest.mark.parametrize("text", ["[]", '"a"', "5", "null", "true"])
def test_json_other_than_an_object_is_a_failed_call(text: str) -> None:
    """The error says that an object is expected."""
    with pytest.raises(ToolError, match="must be one JSON object"):
        parse("read_file", text)


def test_blank_arguments_are_those_of_a_call_without_any() -> None:
    """Some models send nothing instead of {}; the error then names what is missing."""
    with pytest.raises(ToolError, match="path is missing"):
        parse("read_file", " ")


def test_a_lone_surrogate_becomes_a_replacement_character() -> None:
    """It is accepted, and gone before a tool sees it; a pair is one character."""
    params = parse("create_file", r'{"path": "a\ud800", "content": "\ud99c \ud83d\ude00"}')
    assert params.path == "a\ufffd"
    assert params.content == "\ufffd 😀"


def test_a_huge_integer_is_not_repeated() -> None:
    """Neither where it is out of bounds nor where another type is wanted."""
    for arguments in ({"pattern": "x", "max_results": 10**4000}, {"pattern": 10**4000}):
        with pytest.raises(ToolError, match="an integer of 13288 bits") as refused:
            parse_arguments(TOOLS["grep"], json.dumps(arguments))
        assert len(str(refused.value)) < 200


def test_a_value_is_not_repeated_in_part() -> None:
    """Half of a credential would not be recognised as one."""
    with pytest.raises(ToolError) as refused:
        parse_arguments(TOOLS["read_file"], json.dumps({"path": "a", "start_line": "sk-" * 40}))
    assert "sk-" not in str(refused.value)
