"""The strict wire schemas (see `scripts/make_strict_schemas.py`) as validators."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, ValidationError, validators
from jsonschema.exceptions import best_match

SCHEMAS = Path(__file__).resolve().parents[1] / "schema"

# RFC 3339, section 5.6; the calendar is checked by `datetime`.
DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
# RFC 3986: a scheme, then nothing that has to be escaped.
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[!#$&-;=?-Z\[\]_a-z~]|%[0-9A-Fa-f]{2})*")


def is_date_time(value: object) -> bool:
    """Whether a string is an RFC 3339 time (what is not a string passes)."""
    if not isinstance(value, str):
        return True
    if DATE_TIME.fullmatch(value) is None:
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def is_uri(value: object) -> bool:
    """Whether a string is an absolute URI (what is not a string passes)."""
    return not isinstance(value, str) or URI.fullmatch(value) is not None


def is_regex(value: object) -> bool:
    """Whether a string is a regular expression (what is not a string passes)."""
    try:
        re.compile(value if isinstance(value, str) else "")
    except re.error:
        return False
    return True


_formats = FormatChecker(formats=())
_formats.checks("date-time")(is_date_time)
_formats.checks("uri")(is_uri)
_formats.checks("regex")(is_regex)


def _check_encoding(
    _validator: Any, encoding: str, instance: object, _schema: object
) -> Iterator[ValidationError]:
    if encoding != "base64" or not isinstance(instance, str):
        return
    try:
        base64.b64decode(instance, validate=True)
    except (binascii.Error, ValueError):
        yield ValidationError(f"{instance[:40]!r} is not base64")


def _is_integer(_checker: object, instance: object) -> bool:
    # 1.0 is an integer to JSON Schema, but not to a client that reads integers.
    return isinstance(instance, int) and not isinstance(instance, bool)


StrictValidator = validators.extend(
    Draft202012Validator,
    {"contentEncoding": _check_encoding},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


class WireSchema:
    """The strict schema of one protocol version."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._validators: dict[str, Any] = {}

    def definition(self, method: str, role: str) -> str | None:
        """The definition of a method's `request`, `response` or `notification`, if it has one."""
        name: str | None = self._schema["x-methods"].get(method, {}).get(role)
        return name

    def fault(self, definition: str, instance: object) -> str | None:
        """What is wrong with `instance` as an instance of a definition; None if it is right."""
        validator = self._validators.get(definition)
        if validator is None:
            root = {"$ref": f"#/$defs/{definition}", "$defs": self._schema["$defs"]}
            validator = StrictValidator(root, format_checker=_formats)
            self._validators[definition] = validator
        error = best_match(validator.iter_errors(instance))
        if error is None:
            return None
        return f"{definition} {error.json_path}: {error.message[:500]}"


@cache
def wire_schema(version: int) -> WireSchema:
    """The strict schema of protocol version 1 or 2."""
    text = (SCHEMAS / f"v{version}.json").read_text(encoding="utf-8")
    return WireSchema(json.loads(text))
