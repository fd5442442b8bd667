"""Which provider, model and effort a process uses; no questions, no network (spec section 1)."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Iterable, Mapping

import attrs

from term2_acp.catalog import Provider, known_providers, packaged
from term2_acp.config import EFFORTS, OFFLINE, Config, ConfigError, is_model_id, show

logger = logging.getLogger(__name__)

_MAX_CANDIDATES = 20
_MAX_SIMILAR = 5


@attrs.frozen
class Selection:
    """
    What the sessions of this process are answered by.

    Args:
        effort: one of `config.EFFORTS`; None is the model's own default.
        base_url: None is the address that the vendor's SDK knows.
        api_key_env: the name of the environment variable that `api_key` comes from.
        context_window: in tokens, as the configuration or the catalog says it.
        max_output_tokens: likewise.
        asks_window: the window is not known, and the service itself is to be asked for it.
    """

    provider: str
    kind: str
    model: str
    effort: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    api_key: str | None = attrs.field(default=None, repr=False)
    context_window: int | None = None
    max_output_tokens: int | None = None
    asks_window: bool = False


@attrs.frozen
class _Asked:
    """What the user asked for, and by which flag or setting."""

    text: str
    by: str

    def __str__(self) -> str:
        return f"{self.by} {show(self.text)}"


def select(
    config: Config,
    *,
    provider: str | None = None,
    model: str | None = None,
    effort: str | None = None,
    environment: Mapping[str, str] | None = None,
    catalog: Mapping[str, Provider] | None = None,
) -> Selection:
    """
    Resolve the flags, which come before the settings.

    `environment` has the keys (that of the process if left out); `catalog` is the packaged
    one if left out. Without any flag and with an empty configuration nothing is refused.

    Raises:
        ConfigError: something is unknown, found in several providers or lacks its key.
    """
    keys = os.environ if environment is None else environment
    known = known_providers(config, packaged() if catalog is None else catalog)
    by_name = _asked(provider, config.provider, "provider")
    by_model = _asked(model, config.model, "model")
    by_effort = _asked(effort, config.effort, "effort")
    if by_effort and by_effort.text not in EFFORTS:
        raise ConfigError(f"{by_effort} must be one of {', '.join(EFFORTS)}")
    if by_model and not is_model_id(by_model.text):
        raise ConfigError(f"{by_model} must be printable and have no spaces around it")
    if by_name:
        chosen = known.get(by_name.text)
        if chosen is None:
            raise _refusal(f"{by_name} is not known; the providers are", sorted(known))
        if model is None and not _concerns(config, chosen):
            by_model = None
        model_id = _of_provider(chosen, by_model, by_name)
    elif by_model:
        chosen, model_id = _of_any(known, config, keys, by_model)
    else:
        chosen = _ready_provider(known, config, keys)
        model_id = _of_provider(chosen, None, None)
    return _selection(chosen, model_id, by_effort, _key(chosen, keys))


def _asked(flag: str | None, setting: str | None, name: str) -> _Asked | None:
    if flag is not None:
        return _Asked(flag, f"--{name}")
    return None if setting is None else _Asked(setting, f"the setting {name} =")


def _concerns(config: Config, chosen: Provider) -> bool:
    """Whether the setting for the model was made for that provider."""
    if config.provider is not None:
        return config.provider == chosen.name
    return config.model is not None and chosen.named_by(config.model) is not None


def _of_provider(chosen: Provider, wanted: _Asked | None, by_name: _Asked | None) -> str:
    if wanted is None:
        if chosen.default is None:
            raise ConfigError(
                f"provider {show(chosen.name)} lists no models; name one with --model or with"
                " model = in the configuration"
            )
        return chosen.default
    model_id = chosen.meant_by(wanted.text)
    if model_id is not None:
        return model_id
    how = f" ({by_name})" if by_name else ""
    unlisted = "" if chosen.closed else f", or write {chosen.name}/ID for one that is not listed"
    raise _refusal(
        f"{wanted} is not the exact id of a model of provider {show(chosen.name)}{how};"
        f" take one of these{unlisted}",
        _close(_ids([chosen]), wanted.text) or _ids([chosen]),
    )


def _of_any(
    known: Mapping[str, Provider], config: Config, keys: Mapping[str, str], wanted: _Asked
) -> tuple[Provider, str]:
    configured = [
        provider
        for provider in known.values()
        if provider.name in config.providers
        or provider.kind == OFFLINE
        or (provider.api_key_env and keys.get(provider.api_key_env, "").strip())
    ]
    owners = [provider for provider in configured if provider.model(wanted.text)]
    if len(owners) > 1:
        raise _refusal(
            f"{wanted} is found in several providers; take one of these",
            [f"{owner.name}/{wanted.text}" for owner in owners],
        )
    if owners:
        return owners[0], wanted.text
    name, _, rest = wanted.text.partition("/")
    if name in known and rest:
        return known[name], _of_provider(known[name], wanted, None)
    # What a service of many vendors may well have, though the catalog does not list it.
    possible = [f"{p.name}/{wanted.text}" for p in configured if p.meant_by(wanted.text)]
    raise _refusal(
        f"{wanted} is not the exact id of a model of a configured provider; take one of these",
        [*possible, *(_close(_ids(known.values()), wanted.text) or _ids(configured))],
    )


def _ready_provider(
    known: Mapping[str, Provider], config: Config, keys: Mapping[str, str]
) -> Provider:
    """The first of the file that can be used, else by the keys that are set, else offline."""
    built_in = [p for name, p in known.items() if name not in config.providers and p.api_key_env]
    problems = []
    for provider in [*(known[name] for name in config.providers), *built_in]:
        try:
            _of_provider(provider, None, None)
            _key(provider, keys)
        except ConfigError as error:
            if provider.name in config.providers or keys.get(provider.api_key_env or ""):
                problems.append(str(error))
        else:
            return provider
    if problems:
        logger.warning("the offline model answers: %s", "; ".join(problems))
    return known[OFFLINE]


def _key(provider: Provider, keys: Mapping[str, str]) -> str | None:
    """The key of a provider; it is never shown."""
    variable = provider.api_key_env
    if variable is None or provider.kind == OFFLINE:
        return None
    key = keys.get(variable, "").strip()
    if not key:
        raise ConfigError(
            f"provider {show(provider.name)} needs a key: set the environment variable {variable}"
        )
    # It goes into a header, where anything else fails in ways that nobody understands.
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError(
            f"{variable}, the key of provider {show(provider.name)}, must be printable ASCII"
            " without spaces"
        )
    return key


def _selection(
    provider: Provider, model_id: str, effort: _Asked | None, key: str | None
) -> Selection:
    model = provider.model(model_id)
    if effort and model and model.efforts is not None and effort.text not in model.efforts:
        right = f"one of {', '.join(model.efforts)}" if model.efforts else "left out"
        raise ConfigError(f"{effort} must be {right} for model {provider.name}/{model_id}")
    window = model.context_window if model else None
    selection = Selection(
        provider=provider.name,
        kind=provider.kind,
        model=model_id,
        effort=effort.text if effort else None,
        base_url=provider.base_url,
        api_key_env=provider.api_key_env,
        api_key=key,
        context_window=window,
        max_output_tokens=model.max_output_tokens if model else None,
        asks_window=window is None and not provider.closed and provider.kind != OFFLINE,
    )
    logger.info(
        "model %s of provider %s (%s), effort %s",
        selection.model,
        selection.provider,
        selection.kind,
        selection.effort or "by default",
    )
    return selection


def _ids(providers: Iterable[Provider]) -> list[str]:
    return [f"{provider.name}/{model.id}" for provider in providers for model in provider.models]


def _close(candidates: list[str], wanted: str) -> list[str]:
    """Those that contain what was asked for, or else those that are written like it."""
    text = wanted.lower()
    containing = [candidate for candidate in candidates if text in candidate.lower()]
    if containing:
        return containing
    by_end = {candidate.partition("/")[2].lower(): candidate for candidate in candidates}
    whole = {candidate.lower(): candidate for candidate in candidates}
    similar = [
        *difflib.get_close_matches(text, by_end, n=_MAX_SIMILAR),
        *difflib.get_close_matches(text, whole, n=_MAX_SIMILAR),
    ]
    return list(dict.fromkeys({**whole, **by_end}[match] for match in similar))


def _refusal(text: str, candidates: list[str]) -> ConfigError:
    """One diagnostic: what is wrong, then the candidates on lines of their own."""
    if not candidates:
        return ConfigError(text)
    lines = [f"{text}:", *candidates[:_MAX_CANDIDATES]]
    if len(candidates) > _MAX_CANDIDATES:
        lines.append(f"and {len(candidates) - _MAX_CANDIDATES} more")
    return ConfigError("\n".join(lines))
