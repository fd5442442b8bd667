"""Strict structuring of JSON values into parameter classes, with errors that name the member."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, get_args, get_origin

import attrs
from cattrs import BaseValidationError, ClassValidationError, Converter, IterableValidationError
from cattrs.errors import ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn

from term2_acp.tools.bounds import clipped, integer_text

_LONGEST_SHOWN = 60
_NOUNS = {str: "a string", bool: "true or false", int: "an integer"}


class ParameterProblems(Exception):
    """Every problem of one value; the text names each member and what would be right."""


class _WrongValueError(ValueError):
    """One member has a wrong value; the text is what follows the member's name."""


class _WrongMemberError(_WrongValueError):
    """The member `name` of an object is out of bounds."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def structure(value: dict[str, Any], params: type[Any]) -> Any:
    """
    Make an object of the attrs class `params` from a JSON object.

    Raises:
        ParameterProblems: a member is missing, unknown, of a wrong type or out of bounds.
    """
    try:
        return _CONVERTER.structure(value, params)
    except (BaseValidationError, _WrongValueError) as error:
        raise ParameterProblems("; ".join(_problems(error, ""))) from error


def kind_of(value: Any) -> str:
    """Say what a JSON value is, for "must be X, not Y"."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    if type(value) is int:
        return integer_text(value)
    shown = clipped(json.dumps(value, ensure_ascii=False), _LONGEST_SHOWN)
    return f"the string {shown}" if isinstance(value, str) else shown


def _problems(error: BaseException, path: str) -> Iterator[str]:
    if isinstance(error, ClassValidationError):
        members, own = error.group_exceptions()
        for problem, note in members:
            yield from _problems(problem, _join(path, note.name))
        for problem in own:
            yield from _problems(problem, path)
    elif isinstance(error, IterableValidationError):
        items, _ = error.group_exceptions()
        for problem, item in items:
            yield from _problems(problem, f"{path}[{item.index}]")
    elif isinstance(error, ForbiddenExtraKeysError):
        known = ", ".join(field.name for field in attrs.fields(error.cl))
        for name in sorted(error.extra_fields):
            where = _join(path, clipped(name, _LONGEST_SHOWN))
            yield f"{where} is not a parameter, the parameters are {known}"
    elif isinstance(error, _WrongMemberError):
        yield f"{_join(path, error.name)} {error}"
    elif isinstance(error, KeyError):
        yield f"{path} is missing"
    else:
        yield f"{path} {error}"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _scalar(expected: type[Any]) -> Callable[[Any, Any], Any]:
    def take(value: Any, _: Any) -> Any:
        # Not isinstance: true is an int to Python, not to JSON.
        if type(value) is not expected:
            raise _WrongValueError(f"must be {_NOUNS[expected]}, not {kind_of(value)}")
        return value

    return take


def _choice(value: Any, expected: type[StrEnum]) -> StrEnum:
    for member in expected:
        if value == member.value:
            return member
    names = ", ".join(f'"{member.value}"' for member in expected)
    raise _WrongValueError(f"must be one of {names}, not {kind_of(value)}")


def _items(value: Any, declared: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _WrongValueError(f"must be a list, not {kind_of(value)}")
    declared_list: Any = list[get_args(declared)[0]]  # type: ignore[misc]
    return tuple(_CONVERTER.structure(value, declared_list))


def _object(cls: type[Any]) -> Callable[[Any, Any], Any]:
    fields = attrs.fields(attrs.resolve_types(cls))
    optional = {field.name for field in fields if field.default is not attrs.NOTHING}
    build = make_dict_structure_fn(cls, _CONVERTER, _cattrs_forbid_extra_keys=True)

    def take(value: Any, declared: Any) -> Any:
        if not isinstance(value, dict):
            raise _WrongValueError(f"must be an object, not {kind_of(value)}")
        given = {
            name: item for name, item in value.items() if item is not None or name not in optional
        }
        built = build(given, declared)
        for field in fields:
            _check_bounds(field.name, getattr(built, field.name), **field.metadata["bounds"])
        return built

    return take


def _check_bounds(
    name: str, value: Any, *, minimum: int | None = None, maximum: int | None = None
) -> None:
    if minimum is not None and value is not None and value < minimum:
        raise _WrongMemberError(name, f"must be {minimum} or more, not {kind_of(value)}")
    if maximum is not None and value is not None and value > maximum:
        raise _WrongMemberError(name, f"must be {maximum} or less, not {kind_of(value)}")


def _is_tuple(declared: Any) -> bool:
    return get_origin(declared) is tuple


def _converter() -> Converter:
    converter = Converter(detailed_validation=True)
    for expected in _NOUNS:
        converter.register_structure_hook(expected, _scalar(expected))
    converter.register_structure_hook(StrEnum, _choice)
    converter.register_structure_hook_func(_is_tuple, _items)
    converter.register_structure_hook_factory(attrs.has, _object)
    return converter


_CONVERTER = _converter()
