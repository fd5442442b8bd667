"""What the wire types of both versions share: names, strictness, leniency, error texts; no I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_origin

import attrs
from cattrs import ClassValidationError, Converter, IterableValidationError, transform_error
from cattrs.cols import homogenous_tuple_structure_factory
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from term2_acp.errors import InvalidParamsError

T = TypeVar("T")

_LENIENT = "default_on_error"


class WrongTypeError(TypeError):
    """A member has the wrong JSON type; the message says which is right."""


def lenient(default: Any = None) -> Any:
    """
    A member that falls back to its default when it cannot be read.

    The schema marks such members with `x-deserialize-default-on-error`.
    """
    return attrs.field(default=default, metadata={_LENIENT: True})


def camel_case(name: str) -> str:
    """The wire's name of a field."""
    if name.startswith("_"):
        return name
    head, *tail = name.rstrip("_").split("_")
    return head + "".join(part.capitalize() for part in tail)


def make_converter() -> Converter:
    """
    A converter for attrs wire types.

    Primitives are strict (no coercion), unknown members are ignored, members at
    their default are left out, and a class with a `tag` (name, value) carries it.
    """
    converter = Converter(omit_if_default=True)
    for cls, article in ((str, "a string"), (bool, "a boolean"), (int, "an integer")):
        converter.register_structure_hook(cls, _strict(cls, article))
    converter.register_structure_hook_factory(_is_tuple, lambda cls: _array_factory(cls, converter))
    converter.register_structure_hook_factory(
        attrs.has, lambda cls: _structure_factory(cls, converter)
    )
    converter.register_unstructure_hook_factory(
        attrs.has, lambda cls: _unstructure_factory(cls, converter)
    )
    return converter


def _strict(cls: type, article: str) -> Callable[[Any, Any], Any]:
    def structure(value: Any, _type: Any) -> Any:
        if type(value) is not cls:
            raise WrongTypeError(f"must be {article}")
        return value

    return structure


def _is_tuple(cls: Any) -> bool:
    origin: Any = get_origin(cls)
    return origin is tuple


def _array_factory(cls: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    structure = homogenous_tuple_structure_factory(cls, converter)

    def checked(value: Any, type_: Any) -> Any:
        if not isinstance(value, list):
            raise WrongTypeError("must be an array")
        return structure(value, type_)

    return checked


def _structure_factory(cls: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    overrides: Any = {}
    for field in attrs.fields(attrs.resolve_types(cls)):
        hook = None
        if field.metadata.get(_LENIENT):
            hook = _default_on_error(field, converter)
        overrides[field.name] = override(rename=camel_case(field.name), struct_hook=hook)
    structure = make_dict_structure_fn(cls, converter, **overrides)

    def checked(value: Any, type_: Any) -> Any:
        if not isinstance(value, dict):
            raise WrongTypeError("must be an object")
        return structure(value, type_)

    return checked


def _default_on_error(field: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    def structure(value: Any, _type: Any) -> Any:
        try:
            return converter.structure(value, field.type)
        except Exception:  # noqa: BLE001  whatever is wrong with it, the schema says: default
            return field.default

    return structure


def _unstructure_factory(cls: Any, converter: Converter) -> Callable[[Any], dict[str, Any]]:
    overrides: Any = {
        field.name: override(rename=camel_case(field.name))
        for field in attrs.fields(attrs.resolve_types(cls))
    }
    unstructure = make_dict_unstructure_fn(
        cls, converter, _cattrs_omit_if_default=True, **overrides
    )
    tag: tuple[str, str] | None = getattr(cls, "tag", None)
    if tag is None:
        return unstructure
    name, word = tag
    return lambda value: {name: word, **unstructure(value)}


def structure_params(converter: Converter, params: dict[str, Any], cls: type[T]) -> T:
    """
    Read the params of a request.

    Raises:
        InvalidParamsError: the message names each offending member.
    """
    try:
        return converter.structure(params, cls)
    except (ClassValidationError, IterableValidationError) as error:
        texts = transform_error(error, path="", format_exception=_describe)
    except WrongTypeError as error:
        texts = [f"params {error}"]
    raise InvalidParamsError("; ".join(_put_path_first(text) for text in texts))


def _describe(error: BaseException, _type: type | None) -> str:
    if isinstance(error, KeyError):
        return "is missing"
    if isinstance(error, WrongTypeError):
        return str(error)
    return "has a wrong value"


def _put_path_first(text: str) -> str:
    """Turn cattrs' `text @ .some_path` into `somePath text`."""
    description, _, path = text.rpartition(" @ ")
    member = ".".join(camel_case(part) for part in path.removeprefix(".").split("."))
    return f"{member} {description}"
