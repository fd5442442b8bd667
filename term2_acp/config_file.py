"""The configuration file: `config.toml`, read once at start-up (spec section 2)."""

from __future__ import annotations

import math
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
from cattrs import AttributeValidationNote, BaseValidationError, Converter, IterableValidationNote

from term2_acp.config import (
    BUILTIN_PROVIDERS,
    KINDS,
    MAX_COUNT,
    OFFLINE,
    Config,
    ConfigError,
    InvalidValueError,
    ModelSettings,
    ProviderSettings,
    show,
)

# Built-in providers whose address and kind the file need not repeat.
_WITH_ADDRESS = ("openrouter", "ollama")
_MAX_FILE_BYTES = 1 << 20
_PROVIDER_NAME = re.compile(r"\w[\w.+@-]*")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def load(path: str) -> tuple[Config, list[str]]:
    """
    Read a configuration file.

    Returns the settings and a warning for each key that is not known.

    Raises:
        ConfigError: it cannot be read, is not TOML or has a wrong value; the file and
            the key are named.
    """
    unknown: list[str] = []
    try:
        data = _parse(_read(path))
        unknown = _survey(data)
        config = _converter().structure(data, Config)
        problems = list(_contradictions(config))
    except BaseValidationError as error:
        problems = list(_problems(error, ""))
    except _UnusableFileError as error:
        problems = [str(error)]
    if problems:
        # A key that is missing may be there under a name that is not known.
        raise ConfigError(f"{path}: {'; '.join([*problems, *unknown])}")
    return config, [f"{path}: {warning}" for warning in unknown]


class _UnusableFileError(Exception):
    """Nothing of the file can be used; the message goes after its name."""


def _read(path: str) -> bytes:
    try:
        # A pipe would never end, and opening one would wait.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise _UnusableFileError("is not a file; move it away, or put a file in its place")
        with open(path, "rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _UnusableFileError(
            f"cannot be read: {error.strerror}; make it readable for you, or move it away"
        ) from None
    if len(content) > _MAX_FILE_BYTES:
        raise _UnusableFileError(
            f"is larger than {_MAX_FILE_BYTES} bytes, so it is hardly meant; move it away"
        )
    return content


def _parse(content: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _UnusableFileError(f"is not UTF-8 (at line {line}); save it as UTF-8") from None
    except ValueError as error:  # also a number with too many digits
        raise _UnusableFileError(f"is not TOML: {error}") from None
    except RecursionError:
        raise _UnusableFileError("is not TOML: values are nested too deeply") from None


def _survey(data: Mapping[str, Any]) -> list[str]:
    """Tell the keys that mean nothing; tables and lists are checked to be where they belong."""
    unknown = [*_surplus(data, Config, "")]
    for name, provider in _table(data.get("providers", {}), "providers").items():
        path = f"providers.{_key(name)}"
        unknown += _surplus(_table(provider, path), ProviderSettings, f"{path}.")
        for index, model in enumerate(_list(provider.get("models", []), f"{path}.models")):
            unknown += _surplus(
                _table(model, f"{path}.models[{index}]"), ModelSettings, f"{path}.models[{index}]."
            )
            _list(model.get("efforts", []), f"{path}.models[{index}].efforts")
    return unknown


def _surplus(table: Mapping[str, Any], cls: type, prefix: str) -> Iterator[str]:
    known = [field.name for field in attrs.fields(cls)]
    for key in table:
        if key not in known:
            yield f"unknown key {prefix}{_key(key)}; known here are {', '.join(known)}"


def _table(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _UnusableFileError(f"{path} must be a table, not {show(value)}")
    return value


def _list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise _UnusableFileError(f"{path} must be a list, not {show(value)}")
    return value


def _converter() -> Converter:
    converter = Converter()
    for cls, article in ((str, "a string"), (int, "a whole number"), (float, "a number")):
        converter.register_structure_hook(cls, _strict(cls, article))
    return converter


def _strict(cls: type, article: str) -> Callable[[Any, Any], Any]:
    """A hook without conversions but from whole numbers to others; a boolean is no number."""

    def structure(value: Any, _type: Any) -> Any:
        if cls is float and type(value) is int:
            return float(value) if abs(value) < MAX_COUNT else math.inf
        if type(value) is not cls:
            raise ValueError(f"must be {article}, not {show(value)}")
        return value

    return structure


def _problems(error: BaseValidationError, path: str) -> Iterator[str]:
    """What cattrs and the classes refused, each with the path of its key."""
    for inner in error.exceptions:
        place = path
        for note in getattr(inner, "__notes__", ()):
            if isinstance(note, AttributeValidationNote):
                place = f"{path}.{note.name}".lstrip(".")
            elif isinstance(note, IterableValidationNote):
                index = note.index
                place += f"[{index}]" if isinstance(index, int) else f".{_key(index)}"
        if isinstance(inner, BaseValidationError):
            yield from _problems(inner, place)
        elif isinstance(inner, InvalidValueError):
            yield f"{place}.{inner.key} {inner}".lstrip(".")
        else:
            yield f"{place} {'is missing' if isinstance(inner, KeyError) else inner}"


def _contradictions(config: Config) -> Iterator[str]:
    """What is wrong with providers beyond single values."""
    for name, provider in config.providers.items():
        path = f"providers.{_key(name)}"
        if not _PROVIDER_NAME.fullmatch(name):
            yield (
                f"{path} cannot be named so; a name has letters, digits and any of ._+@-"
                " and begins with a letter or a digit"
            )
        elif provider.kind is None and name not in BUILTIN_PROVIDERS:
            yield f"{path}.kind is missing; it must be one of {', '.join(KINDS)}"
        elif name == OFFLINE and provider.kind not in (None, OFFLINE):
            yield f"{path}.kind must be {OFFLINE!r} or left out, not {show(provider.kind)}"
        elif (provider.kind, provider.base_url) == ("openai-compatible", None) and (
            name not in _WITH_ADDRESS
        ):
            yield f"{path}.base_url is missing; kind 'openai-compatible' needs it"
        seen = set()
        for index, model in enumerate(provider.models or ()):
            if model.id in seen:
                yield f"{path}.models[{index}].id is given twice: {show(model.id)}"
            seen.add(model.id)


def _key(name: str) -> str:
    """A key as it is written in a path."""
    return name if _PLAIN_KEY.fullmatch(name) else show(name)
