"""
The parameters of a tool: told to the model as a JSON schema, and judged when they come back.

Both are made from the tool's attrs class, whose fields are built with `parameter`, so that
what the model is told and what is accepted cannot differ.
"""

from __future__ import annotations

from enum import StrEnum
from types import NoneType
from typing import Any, get_args, get_origin

import attrs

from term2_acp import strictjson
from term2_acp.agent.ports import Tool, ToolError
from term2_acp.surrogates import replace_in_value
from term2_acp.tools.structuring import ParameterProblems, kind_of, structure

_SCALARS = {str: "string", bool: "boolean", int: "integer"}


def parameter(
    description: str,
    *,
    default: Any = attrs.NOTHING,
    minimum: int | None = None,
    maximum: int | None = None,
) -> Any:
    """
    Make an attrs field that is a parameter of a tool.

    Args:
        description: what the model is told of it.
        default: makes it optional; a model may also send null for it.
        minimum: the least integer that is accepted.
        maximum: the greatest integer that is accepted.
    """
    bounds = {"minimum": minimum, "maximum": maximum}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    return attrs.field(default=default, metadata={"description": description, "bounds": given})


def json_schema(params: type[Any]) -> dict[str, Any]:
    """Return the JSON schema of a parameters class, as a model is given it."""
    fields = attrs.fields(attrs.resolve_types(params))
    return {
        "type": "object",
        "properties": {field.name: _field_schema(field) for field in fields},
        "required": [field.name for field in fields if field.default is attrs.NOTHING],
        "additionalProperties": False,
    }


def parse_arguments(tool: Tool, arguments_json: str) -> Any:
    """
    Return the parameters that a model sent as JSON text, as an object of `tool.params`.

    Types are taken strictly: neither 5.0, "5" nor true is an integer. Lone surrogates become
    U+FFFD. Blank text counts as no arguments.

    Raises:
        ToolError: not JSON, not an object, or a parameter is missing, unknown or wrong; the
            message names it and what would be right.
    """
    try:
        value = replace_in_value(strictjson.loads(arguments_json.strip() or "{}"))
    except ValueError as error:
        raise ToolError(
            f"the arguments of {tool.name} are not valid JSON ({error}); "
            "send one JSON object that holds the parameters."
        ) from error
    if not isinstance(value, dict):
        raise ToolError(
            f"the arguments of {tool.name} must be one JSON object that holds the parameters, "
            f"not {kind_of(value)}."
        )
    try:
        return structure(value, tool.params)
    except ParameterProblems as problems:
        raise ToolError(f"wrong arguments for {tool.name}: {problems}.") from problems


def _field_schema(field: attrs.Attribute[Any]) -> dict[str, Any]:
    schema = _type_schema(field.type)
    schema |= field.metadata["bounds"]
    schema["description"] = field.metadata["description"]
    if field.default is not attrs.NOTHING and field.default is not None:
        schema["default"] = field.default
    return schema


def _type_schema(declared: Any) -> dict[str, Any]:
    if declared in _SCALARS:
        return {"type": _SCALARS[declared]}
    if attrs.has(declared):
        return json_schema(declared)
    if isinstance(declared, type) and issubclass(declared, StrEnum):
        return {"type": "string", "enum": [member.value for member in declared]}
    if get_origin(declared) is tuple:
        return {"type": "array", "items": _type_schema(get_args(declared)[0])}
    alternatives = [item for item in get_args(declared) if item is not NoneType]
    if len(alternatives) == 1:
        return _type_schema(alternatives[0])
    raise TypeError(f"no JSON schema for a parameter of type {declared!r}")
