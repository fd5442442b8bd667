"""
Derive the strict wire schemas of the tests from the published ACP schemas.

The published schemas are made for readers of the future: unknown members pass, and
every open union has an arm for values that are not defined yet. A test wants the
opposite, so that a misspelt name fails. The derived schemas

- drop all prose;
- close every object (only `_meta` stays free);
- take the open arms out, except for values that begin with `_`, which the protocol
  reserves for implementations (`_term2_error`);
- keep only what the methods that term2 speaks need;
- turn integer formats into bounds, and the absolute paths of version 2 into a pattern.

Error codes stay open: JSON-RPC leaves a range to implementations.

    python scripts/make_strict_schemas.py schema-v1.json schema-v2-draft.json

writes `v1.json` and `v2.json` into `tests/schema/` (or `--out DIR`).
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import attrs

Schema = dict[str, Any]

OUT = Path(__file__).resolve().parents[1] / "tests" / "schema"

INTEGER_BOUNDS = {
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
CHECKED_FORMATS = {"uri", "date-time", "regex"}
COPIED = {
    "const",
    "contentEncoding",
    "enum",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "pattern",
    "type",
}
OWN_VALUE: Schema = {"type": "string", "pattern": "^_"}
# The prefixes of the methods that term2 speaks, and what every method may answer.
METHODS = ("initialize", "session/", "$/cancel_request")
ALWAYS = ("Error", "RequestId")
ABSOLUTE_PATH = r"^(/|[A-Za-z]:[\\/]|\\\\)"


class UnsupportedSchemaError(Exception):
    """The published schema uses a construct that this script does not know."""


@attrs.frozen
class Shape:
    """One flat object: what remains of an object schema after its composition is resolved."""

    properties: dict[str, Schema]
    required: frozenset[str] = frozenset()
    is_open: bool = False

    def merged(self, other: Shape) -> Shape:
        """Both at once, as `allOf` means it."""
        return Shape(
            properties={**self.properties, **other.properties},
            required=self.required | other.required,
            is_open=self.is_open or other.is_open,
        )

    def tag(self, name: str) -> str | None:
        """
        The value that the member `name` must have, `_` for the reserved values.

        None if the member does not tell this shape from others.
        """
        schema = self.properties.get(name)
        if schema is None or name not in self.required:
            return None
        if schema == OWN_VALUE:
            return "_"
        const = schema.get("const")
        return const if isinstance(const, str) else None


class Strict:
    """Transforms the definitions of one published schema."""

    def __init__(self, definitions: dict[str, Schema]) -> None:
        self._definitions = definitions

    def definition(self, name: str) -> Schema:
        """
        The strict form of a named definition.

        Raises:
            UnsupportedSchemaError: it uses an unknown construct.
        """
        strict = self.value(self._definitions[name])
        if name == "AbsolutePath":
            # Only the prose of the published schema says that it is absolute.
            strict["pattern"] = ABSOLUTE_PATH
        return strict

    def value(self, schema: Schema) -> Schema:
        """The strict form of a schema that a whole value (not a part of one) has to meet."""
        target = _sole_reference(schema)
        if target is not None:
            return {"$ref": target}
        if self._is_object(schema):
            return self._render(self._shapes(schema), used=frozenset())
        arms = schema.get("anyOf") or schema.get("oneOf")
        if arms is not None:
            return self._union(arms)
        return self._plain(schema)

    def _is_object(self, schema: Schema) -> bool:
        if schema.get("type") == "object" and "properties" in schema:
            return True
        arms = schema.get("anyOf") or schema.get("oneOf") or []
        return any("properties" in arm for arm in arms)

    def _shapes(self, schema: Schema) -> list[Shape]:
        """Resolve references, `allOf` and unions into flat alternatives."""
        if "$ref" in schema:
            return self._shapes(self._definitions[schema["$ref"].rpartition("/")[2]])
        if "not" in schema:
            return [self._own_variant(schema)]
        own = Shape(
            properties={k: self.value(v) for k, v in schema.get("properties", {}).items()},
            required=frozenset(schema.get("required", ())),
        )
        parts = [[own]]
        parts += [self._shapes(part) for part in schema.get("allOf", ())]
        for word in ("anyOf", "oneOf"):
            if word in schema:
                parts.append([shape for arm in schema[word] for shape in self._shapes(arm)])
        shapes = []
        for combination in product(*parts):
            shape = combination[0]
            for part in combination[1:]:
                shape = shape.merged(part)
            shapes.append(shape)
        return shapes

    def _own_variant(self, schema: Schema) -> Shape:
        """The open arm of a union, narrowed to the values that begin with `_`."""
        (tag,) = {name for arm in schema["not"]["anyOf"] for name in arm["properties"]}
        properties = {k: self.value(v) for k, v in schema.get("properties", {}).items()}
        return Shape(
            properties={**properties, tag: OWN_VALUE},
            required=frozenset(schema["required"]),
            is_open=True,
        )

    def _render(self, shapes: list[Shape], used: frozenset[str]) -> Schema:
        """
        Write flat alternatives as a schema.

        Where a member tells them apart the choice is made by that member alone, so
        that an error names what is wrong with the chosen variant.
        """
        if len(shapes) == 1:
            return _object(shapes[0])
        for name in shapes[0].properties:
            tags = [shape.tag(name) for shape in shapes]
            if name in used or None in tags or len(set(tags)) == 1:
                continue
            return self._render_tagged(shapes, name, used)
        return {"anyOf": [_object(shape) for shape in shapes]}

    def _render_tagged(self, shapes: list[Shape], name: str, used: frozenset[str]) -> Schema:
        groups: dict[str, list[Shape]] = {}
        for shape in shapes:
            groups.setdefault(shape.tag(name) or "", []).append(shape)
        choices = []
        for tag, group in groups.items():
            condition = OWN_VALUE if tag == "_" else {"const": tag}
            choices.append(
                {
                    "if": {"properties": {name: condition}, "required": [name]},
                    "then": self._render(group, used | {name}),
                }
            )
        known = [tag for tag in groups if tag != "_"]
        return {
            "type": "object",
            "required": [name],
            "properties": {name: _names(known, own="_" in groups)},
            "allOf": choices,
        }

    def _union(self, arms: list[Schema]) -> Schema:
        constants = [arm["const"] for arm in arms if arm.get("type") == "string" and "const" in arm]
        rest = [arm for arm in arms if "const" not in arm]
        if constants and len(rest) <= 1 and all(_is_any_string(arm) for arm in rest):
            return _names(constants, own=bool(rest))
        return {"anyOf": [self.value(arm) for arm in arms]}

    def _plain(self, schema: Schema) -> Schema:
        strict: Schema = {}
        for word, value in schema.items():
            if word in COPIED:
                strict[word] = value
            elif word == "format":
                _apply_format(strict, schema, value)
            elif word == "items":
                strict["items"] = self.value(value)
            elif word == "additionalProperties":
                strict[word] = value if isinstance(value, bool) else self.value(value)
            elif word not in ("title", "description", "default", "$comment", "discriminator") and (
                not word.startswith("x-")
            ):
                raise UnsupportedSchemaError(f"do not know what to do with {word!r} in {schema}")
        return strict


def _sole_reference(schema: Schema) -> str | None:
    """The target of a schema that says nothing but `$ref` (plain, or alone in an `allOf`)."""
    if "$ref" in schema:
        return str(schema["$ref"])
    parts = schema.get("allOf", ())
    others = {"properties", "anyOf", "oneOf", "not", "type"} & schema.keys()
    if len(parts) == 1 and not others:
        return _sole_reference(parts[0])
    return None


def _is_any_string(arm: Schema) -> bool:
    return arm.get("type") == "string" and not {"const", "enum", "pattern", "format"} & arm.keys()


def _names(known: list[str], *, own: bool) -> Schema:
    """A string out of `known`, or (with `own`) any that begins with `_`."""
    return {"anyOf": [{"enum": known}, OWN_VALUE]} if own else {"enum": known}


def _object(shape: Shape) -> Schema:
    rendered: Schema = {"type": "object", "properties": shape.properties}
    if shape.required:
        rendered["required"] = sorted(shape.required)
    if not shape.is_open:
        rendered["additionalProperties"] = False
    return rendered


def _apply_format(strict: Schema, schema: Schema, name: str) -> None:
    if name in INTEGER_BOUNDS:
        low, high = INTEGER_BOUNDS[name]
        strict["minimum"] = max(low, schema.get("minimum", low))
        strict["maximum"] = min(high, schema.get("maximum", high))
    elif name in CHECKED_FORMATS:
        strict["format"] = name
    elif name != "double":
        raise UnsupportedSchemaError(f"unknown format {name!r}")


def _methods(definitions: dict[str, Schema]) -> dict[str, dict[str, str]]:
    """The definitions that belong to each method: request, response, notification."""
    methods: dict[str, dict[str, str]] = {}
    for name, schema in definitions.items():
        method = schema.get("x-method")
        if method is None or not method.startswith(METHODS):
            continue
        for role in ("Request", "Response", "Notification"):
            if name.endswith(role):
                methods.setdefault(method, {})[role.lower()] = name
    return methods


def _all_methods(definitions: dict[str, Schema]) -> dict[str, list[str]]:
    """
    Every method of the published schema with who gets it and how.

    `agent`, `client`, `both` or `protocol` first, then `notification`, `request` or both.
    """
    methods: dict[str, set[str]] = {}
    sides: dict[str, str] = {}
    for name, schema in definitions.items():
        method = schema.get("x-method")
        if method is None:
            continue
        sides[method] = schema["x-side"]
        methods.setdefault(method, set()).update(
            role.lower() for role in ("Request", "Notification") if name.endswith(role)
        )
    return {method: [sides[method], *sorted(methods[method])] for method in sorted(methods)}


def _references(schema: Any) -> set[str]:
    """The names of the definitions that a strict schema refers to."""
    if isinstance(schema, list):
        return {name for item in schema for name in _references(item)}
    if not isinstance(schema, dict):
        return set()
    names = {name for value in schema.values() for name in _references(value)}
    if isinstance(schema.get("$ref"), str):
        names.add(schema["$ref"].rpartition("/")[2])
    return names


def strict_schema(published: Schema) -> Schema:
    """
    The strict form of a published schema.

    The envelope definitions are left out: the test client judges the envelope
    itself and picks the definition by the method, under `x-methods`.

    Raises:
        UnsupportedSchemaError: the schema uses an unknown construct.
    """
    definitions = published["$defs"]
    strict = Strict(definitions)
    methods = _methods(definitions)
    wanted = {name for roles in methods.values() for name in roles.values()}
    wanted |= {name for name in ALWAYS if name in definitions}
    kept: dict[str, Schema] = {}
    while wanted:
        name = wanted.pop()
        kept[name] = strict.definition(name)
        wanted |= _references(kept[name]) - kept.keys()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "x-methods": methods,
        "x-all-methods": _all_methods(definitions),
        "$defs": kept,
    }


def main(argv: list[str]) -> int:
    """Read the two published schemas and write the two strict ones."""
    parser = argparse.ArgumentParser(description="Derive the strict wire schemas of the tests.")
    parser.add_argument("v1", type=Path, help="the published schema of version 1")
    parser.add_argument("v2", type=Path, help="the published schema of version 2")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder to write to")
    options = parser.parse_args(argv)
    for source, name in ((options.v1, "v1.json"), (options.v2, "v2.json")):
        strict = strict_schema(json.loads(source.read_text(encoding="utf-8")))
        text = json.dumps(strict, indent=1, sort_keys=True) + "\n"
        (options.out / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
