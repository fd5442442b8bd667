"""The configuration file: `config.toml`, read once at start-up (spec section 2)."""

from __future__ import annotations

import tomllib
from typing import Any

import attrs
from cattrs import BaseValidationError, Converter, transform_error

KINDS = ("openai-compatible", "openai", "anthropic", "offline")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


class ConfigError(Exception):
    """The configuration or a flag cannot be used; the message says what would be right."""


def _above_zero(_instance: object, _attribute: attrs.Attribute[Any], value: float) -> None:
    if value <= 0:
        raise ValueError(f"must be above 0, not {value}")


def _one_of(*words: str) -> Any:
    def check(_instance: object, _attribute: attrs.Attribute[Any], value: str | None) -> None:
        if value is not None and value not in words:
            raise ValueError(f"must be one of {', '.join(words)}, not {value!r}")

    return check


@attrs.frozen
class ModelSettings:
    """One model of a configured provider; the window is in tokens."""

    id: str
    context_window: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(_above_zero)
    )


@attrs.frozen
class ProviderSettings:
    """A provider named in the file."""

    kind: str = attrs.field(validator=_one_of(*KINDS))
    base_url: str | None = None
    api_key_env: str | None = None
    models: tuple[ModelSettings, ...] | None = None


@attrs.frozen
class Config:
    """Every setting, with its default."""

    provider: str | None = None
    model: str | None = None
    effort: str | None = attrs.field(default=None, validator=_one_of(*EFFORTS))
    max_turn_requests: int = attrs.field(default=100, validator=_above_zero)
    max_sessions: int = attrs.field(default=128, validator=_above_zero)
    stream_idle_timeout_s: float = attrs.field(default=120.0, validator=_above_zero)
    providers: dict[str, ProviderSettings] = attrs.Factory(dict)


def load(path: str) -> tuple[Config, list[str]]:
    """
    Read a configuration file.

    Returns the settings and a warning for each key that is not known.

    Raises:
        ConfigError: it is not TOML, or a key has a wrong value; the key is named.
    """
    try:
        with open(path, "rb") as file:
            data = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    try:
        config = _converter().structure(data, Config)
    except BaseValidationError as error:
        texts = transform_error(error, path="", format_exception=_describe)
        reasons = "; ".join(_key_first(text) for text in texts)
        raise ConfigError(f"{path}: {reasons}") from None
    return config, [f"{path}: unknown key {key}" for key in _unknown(data, Config, "")]


def _converter() -> Converter:
    converter = Converter()
    for cls, article in ((str, "a string"), (int, "a whole number"), (float, "a number")):
        converter.register_structure_hook(cls, _strict(cls, article))
    return converter


def _strict(cls: type, article: str) -> Any:
    def structure(value: Any, _type: Any) -> Any:
        if type(value) is not cls and not (cls is float and type(value) is int):
            raise ValueError(f"must be {article}, not {value!r}")
        return value

    return structure


def _describe(error: BaseException, _type: type | None) -> str:
    if isinstance(error, KeyError):
        return "is missing"
    if isinstance(error, ValueError):
        return str(error)
    return "has a value of the wrong kind"


def _key_first(text: str) -> str:
    description, _, path = text.rpartition(" @ ")
    return f"{path.removeprefix('.')} {description}"


def _unknown(data: dict[str, Any], cls: type, prefix: str) -> list[str]:
    known = {field.name for field in attrs.fields(cls)}
    unknown = [f"{prefix}{key}" for key in data if key not in known]
    if cls is Config:
        for name, provider in data.get("providers", {}).items():
            unknown += _unknown(provider, ProviderSettings, f"{prefix}providers.{name}.")
    elif cls is ProviderSettings:
        for index, model in enumerate(data.get("models", ())):
            unknown += _unknown(model, ModelSettings, f"{prefix}models[{index}].")
    return unknown
