"""The settings of `config.toml`: their names, meanings, defaults and rules (spec section 2)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs

OFFLINE = "offline"
KINDS = ("openai-compatible", "openai", "anthropic", OFFLINE)
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
# In the order in which a key in the environment is looked for; the catalog describes them.
BUILTIN_PROVIDERS = ("openai", "anthropic", "openrouter", "ollama", OFFLINE)
MAX_COUNT = 10**9
"""The highest number of anything."""
MEANING = "meaning"
"""The key of a field's metadata that has its text in the reference (docs/configuration.md)."""

_MAX_IDLE_S = 86_400
_MAX_SHOWN = 80
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BASE_URL = re.compile(
    r"https?://([^\s/?#@]+@)?(\[[0-9a-f:.]+\]|[^\s/?#@:\[\]]+)(:(?P<port>\d{1,5}))?(/[^\s?#]*)?",
    re.IGNORECASE,
)


class ConfigError(Exception):
    """
    The configuration or a flag cannot be used.

    The message's first line says what is wrong and what would be right; candidates may
    follow on lines of their own.
    """


class InvalidValueError(ValueError):
    """A value that its own class refused; `key` is the field's name."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


@attrs.frozen
class Rule:
    """
    A validator for values that are given.

    Args:
        right: completes "must be", in messages and in the reference.
        shown: whether a message repeats the value; it may be a secret.
    """

    accepts: Callable[[Any], bool]
    right: str
    shown: bool = True

    def __call__(self, _instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        """
        Judge a value.

        Raises:
            InvalidValueError: it is not right.
        """
        if value is not None and not self.accepts(value):
            got = f", not {show(value)}" if self.shown else ""
            raise InvalidValueError(attribute.name, f"must be {self.right}{got}")


def _one_of(words: tuple[str, ...]) -> Rule:
    return Rule(lambda value: value in words, f"one of {', '.join(words)}")


def _is_address(text: str) -> bool:
    match = _BASE_URL.fullmatch(text)
    return match is not None and int(match["port"] or 0) < 1 << 16


def _are_efforts(words: tuple[str, ...]) -> bool:
    return len(set(words)) == len(words) and set(words) <= set(EFFORTS)


def is_model_id(text: str) -> bool:
    """Whether a text can be a model's id: printable, and no space at its ends."""
    return text != "" and text.isprintable() and text == text.strip()


_COUNT = Rule(lambda value: 0 < value <= MAX_COUNT, f"a whole number from 1 to {MAX_COUNT}")
_NAME = Rule(is_model_id, "a name without line breaks and without spaces around it")


@attrs.frozen
class ModelSettings:
    """One model of a configured provider; window and output limit are in tokens."""

    id: str = attrs.field(
        validator=_NAME, metadata={MEANING: "The model's id, exactly as the service knows it."}
    )
    context_window: int | None = attrs.field(
        default=None,
        validator=_COUNT,
        metadata={
            MEANING: "How many tokens a request may have; the conversation is compacted before it"
            " is full. Left out, the catalog or the service itself is asked."
        },
    )
    max_output_tokens: int | None = attrs.field(
        default=None,
        validator=_COUNT,
        metadata={
            MEANING: "The most tokens that it can write in one answer. Only the kind `anthropic`"
            " must be told; left out, the catalog's figure is taken, else 32000."
        },
    )
    efforts: tuple[str, ...] | None = attrs.field(
        default=None,
        validator=Rule(_are_efforts, f"a list of different words out of {', '.join(EFFORTS)}"),
        metadata={
            MEANING: "The words of `effort` that it takes; any other is refused at the start. Left"
            " out, the catalog's are taken, and any word for a model that is not in it."
        },
    )


@attrs.frozen
class ProviderSettings:
    """
    A provider named in the file.

    `kind` may be left out only for a built-in provider, whose settings the table overrides
    one by one.
    """

    kind: str | None = attrs.field(
        default=None,
        validator=_one_of(KINDS),
        metadata={
            MEANING: "What the service speaks: `openai-compatible` is Chat Completions, as vLLM,"
            " llama.cpp, Ollama and OpenRouter serve it; `openai` is the Responses API,"
            " `anthropic` the Messages API. Required, but for a built-in provider."
        },
    )
    base_url: str | None = attrs.field(
        default=None,
        validator=Rule(
            _is_address,
            "an http or https address with a host, such as http://127.0.0.1:8080/v1,"
            " without a query",
            shown=False,  # it may hold a password
        ),
        metadata={
            MEANING: "Where the service is, up to and with its `/v1` (without it for the kind"
            " `anthropic`). Required for the kind `openai-compatible`; left out for the others,"
            " it is the vendor's own, or what OPENAI_BASE_URL or ANTHROPIC_BASE_URL names."
        },
    )
    api_key_env: str | None = attrs.field(
        default=None,
        validator=Rule(
            lambda text: _VARIABLE.fullmatch(text) is not None,
            "the name of an environment variable, not a key",
            shown=False,  # it may be the key
        ),
        metadata={
            MEANING: "The name of the environment variable that has the key. Left out, it is"
            " the usual one for a built-in provider and at a vendor's own address; any other"
            " service is asked without a key."
        },
    )
    models: tuple[ModelSettings, ...] | None = attrs.field(
        default=None,
        validator=Rule(bool, "left out or name a model", shown=False),
        metadata={
            MEANING: "The models; no others are accepted then. The first is the default, but for a"
            " built-in provider, where they are added to the catalog's. Left out, any"
            " `PROVIDER/MODEL` is taken as given."
        },
    )


@attrs.frozen
class Config:
    """Every setting, with its default; times are in seconds."""

    provider: str | None = attrs.field(
        default=None,
        validator=_NAME,
        metadata={
            MEANING: "The provider that answers; `--provider` comes before it. Left out, the first"
            " of the file that can be used, else the first built-in one whose key is in the"
            " environment, else `offline`."
        },
    )
    model: str | None = attrs.field(
        default=None,
        validator=_NAME,
        metadata={
            MEANING: "An exact model id, or `PROVIDER/MODEL`; `--model` comes before it. Left out,"
            " the provider's first."
        },
    )
    effort: str | None = attrs.field(
        default=None,
        validator=_one_of(EFFORTS),
        metadata={
            MEANING: "How much the model thinks; `--effort` comes before it. Left out, as the"
            " model does by itself."
        },
    )
    max_turn_requests: int = attrs.field(
        default=100,
        validator=_COUNT,
        metadata={MEANING: "How often the model is asked in one turn before the turn is ended."},
    )
    max_sessions: int = attrs.field(
        default=128,
        validator=_COUNT,
        metadata={MEANING: "How many sessions one process has open at a time."},
    )
    stream_idle_timeout_s: float = attrs.field(
        default=120.0,
        validator=Rule(
            lambda value: 0 < value <= _MAX_IDLE_S,
            f"a number of seconds above 0 and at most {_MAX_IDLE_S}",
        ),
        metadata={MEANING: "How many seconds the model may say nothing before the turn is ended."},
    )
    providers: dict[str, ProviderSettings] = attrs.field(
        factory=dict,
        metadata={
            MEANING: "A table `[providers.NAME]` for each provider of yours; one with the name of a"
            " built-in one overrides its settings one by one."
        },
    )


def show(value: object) -> str:
    """A value as a message shows it: on one line, escaped, cut where it is long."""
    if isinstance(value, bool):
        return str(value).lower()
    try:
        text = repr(value)
    except ValueError:
        return "a number with too many digits"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
