"""
The known providers and models: the packaged catalog joined with the configuration (spec section 2).

`catalog.json` lists what a person can choose without describing it, with the addresses that
the figures come from; `scripts/check_catalog.py` checks its form.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from enum import StrEnum

import attrs

from term2_acp.config import Config, ConfigError, ModelSettings, ProviderSettings

_PATH = os.path.join(os.path.dirname(__file__), "catalog.json")


class IdForm(StrEnum):
    """Which ids a provider takes besides the listed ones, without its name before them."""

    LISTED = "listed"
    # The service names models of many vendors, so that a word without one is a part of an id.
    VENDOR = "vendor/model"
    ANY = "any"


@attrs.frozen
class Model:
    """A model; sizes are in tokens, and None is what is not known."""

    id: str
    context_window: int | None = None
    max_output_tokens: int | None = None
    efforts: tuple[str, ...] | None = None


@attrs.frozen
class Provider:
    """
    A provider that can be chosen.

    Args:
        base_url: None is the address that the vendor's SDK knows.
        api_key_env: the environment variable with the key; None if there is no key.
        default: the model when none is asked for.
        closed: the configuration lists its models, so that no other is taken.
    """

    name: str
    kind: str
    base_url: str | None = None
    api_key_env: str | None = None
    ids: IdForm = IdForm.ANY
    default: str | None = None
    models: tuple[Model, ...] = ()
    closed: bool = False

    def model(self, model_id: str) -> Model | None:
        """The listed model of exactly that id."""
        return next((model for model in self.models if model.id == model_id), None)

    def named_by(self, text: str) -> str | None:
        """
        The id that a text names for certain: a listed one, or `provider/model`.

        An id may have slashes of its own, also one that looks like this provider's name.
        """
        if self.model(text):
            return text
        own, _, rest = text.partition("/")
        if own != self.name or not rest:
            return None
        if self.model(rest) or (not self.closed and (self.ids != IdForm.VENDOR or "/" in rest)):
            return rest
        return None

    def meant_by(self, text: str) -> str | None:
        """The id that a text names once this provider is chosen; None if it is none."""
        named = self.named_by(text)
        if named is not None or self.closed or self.ids == IdForm.LISTED:
            return named
        return text if self.ids == IdForm.ANY or "/" in text else None


def packaged() -> dict[str, Provider]:
    """The built-in providers as `catalog.json` describes them, in its order."""
    with open(_PATH, encoding="utf-8") as file:
        providers = json.load(file)["providers"]
    return {
        name: Provider(
            name=name,
            kind=entry["kind"],
            base_url=entry["base_url"],
            api_key_env=entry["api_key_env"],
            ids=IdForm(entry["ids"]),
            default=entry["default"],
            models=tuple(
                Model(
                    id=model["id"],
                    context_window=model["context_window"],
                    max_output_tokens=model["max_output_tokens"],
                    efforts=None if model["efforts"] is None else tuple(model["efforts"]),
                )
                for model in entry["models"]
            ),
        )
        for name, entry in providers.items()
    }


def known_providers(config: Config, catalog: Mapping[str, Provider]) -> dict[str, Provider]:
    """
    The built-in providers and those of the configuration.

    Raises:
        ConfigError: a provider that is not built in has no kind.
    """
    known = dict(catalog)
    for name, settings in config.providers.items():
        known[name] = _joined(name, settings, catalog)
    return known


def _joined(name: str, settings: ProviderSettings, catalog: Mapping[str, Provider]) -> Provider:
    """A table of the configuration over what is known of that provider or its vendor."""
    base = catalog.get(name)
    if base is None and settings.kind is not None:
        # Another account at the vendor itself, unless it has an address of its own.
        vendor = catalog.get(settings.kind) if settings.base_url is None else None
        base = vendor or Provider(name, settings.kind)
    if base is None:
        raise ConfigError(f"providers.{name}.kind is missing")
    kind = settings.kind or base.kind
    base_url = settings.base_url or base.base_url
    # At another address the catalog's figures still hold, but its list of ids does not.
    elsewhere = (kind, base_url) != (base.kind, base.base_url)
    models, ids, default = base.models, base.ids, base.default
    if settings.models:
        own = tuple(_described(model, base.model(model.id)) for model in settings.models)
        others = () if elsewhere else base.models
        models = (*own, *(m for m in others if not any(m.id == mine.id for mine in own)))
        ids = IdForm.LISTED
        default = own[0].id if elsewhere or default is None else default
    elif elsewhere:
        ids = IdForm.ANY
    return Provider(
        name=name,
        kind=kind,
        base_url=base_url,
        api_key_env=settings.api_key_env or base.api_key_env,
        ids=ids,
        default=default,
        models=models,
        closed=bool(settings.models),
    )


def _described(settings: ModelSettings, model: Model | None) -> Model:
    """A model of the configuration; what it leaves open is taken from the catalog."""
    known = model or Model(settings.id)
    return Model(
        id=settings.id,
        context_window=settings.context_window or known.context_window,
        max_output_tokens=settings.max_output_tokens or known.max_output_tokens,
        efforts=known.efforts if settings.efforts is None else settings.efforts,
    )
