"""Which provider, model and effort a process uses; no questions, no network (spec section 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from term2_acp.config import EFFORTS, Config, ConfigError

OFFLINE = "offline"
_AVAILABLE_KINDS = frozenset({OFFLINE})


@attrs.frozen
class Selection:
    """What the sessions of this process are answered by."""

    provider: str
    kind: str
    model: str
    effort: str | None = None


@attrs.frozen
class _Provider:
    name: str
    kind: str
    # None: the file lists none, so any id is taken as given.
    models: tuple[str, ...] | None


def select(
    config: Config, *, provider: str | None, model: str | None, effort: str | None
) -> Selection:
    """
    Resolve the flags, which come before the settings.

    Raises:
        ConfigError: something is unknown, found in several providers or not available;
            candidates follow on lines of their own.
    """
    effort = effort if effort is not None else config.effort
    if effort is not None and effort not in EFFORTS:
        raise ConfigError(f"--effort must be one of {', '.join(EFFORTS)}, not {effort!r}")
    known = _known(config)
    name = provider if provider is not None else config.provider
    # A model flag without a provider flag is looked for everywhere only if the
    # settings choose no provider either.
    wanted = model if model is not None else config.model
    if provider is not None and model is None and provider != config.provider:
        wanted = None
    if name is not None:
        chosen = _provider(known, name)
        chosen_model = _model_of(chosen, wanted)
    elif wanted is not None:
        chosen, chosen_model = _search(known, wanted)
    else:
        chosen = known[OFFLINE]
        chosen_model = _model_of(chosen, None)
    if chosen.kind not in _AVAILABLE_KINDS:
        raise ConfigError(
            f"provider {chosen.name!r} is of kind {chosen.kind!r}, which this version cannot"
            f" serve yet; the one that works is {OFFLINE!r}"
        )
    return Selection(chosen.name, chosen.kind, chosen_model, effort)


def _known(config: Config) -> Mapping[str, _Provider]:
    known = {OFFLINE: _Provider(OFFLINE, OFFLINE, (OFFLINE,))}
    for name, settings in config.providers.items():
        models = settings.models
        ids = None if models is None else tuple(model.id for model in models)
        known[name] = _Provider(name, settings.kind, ids)
    return known


def _provider(known: Mapping[str, _Provider], name: str) -> _Provider:
    if name not in known:
        raise ConfigError(
            _with_candidates(f"there is no provider {name!r}; the known ones are", sorted(known))
        )
    return known[name]


def _model_of(provider: _Provider, wanted: str | None) -> str:
    """An exact id of a chosen provider, also when written `provider/model`."""
    if wanted is None:
        if not provider.models:
            raise ConfigError(
                f"provider {provider.name!r} lists no models; name one with --model or model ="
            )
        return provider.models[0]
    short = wanted.removeprefix(f"{provider.name}/")
    if not short:
        raise ConfigError("--model must not be empty")
    if provider.models is None or wanted in provider.models:
        return wanted if provider.models else short
    if short in provider.models:
        return short
    raise ConfigError(
        _with_candidates(
            f"provider {provider.name!r} has no model {wanted!r}; exact ids are",
            _close(provider.models, wanted),
        )
    )


def _search(known: Mapping[str, _Provider], wanted: str) -> tuple[_Provider, str]:
    owners = [provider for provider in known.values() if wanted in (provider.models or ())]
    if len(owners) > 1:
        raise ConfigError(
            _with_candidates(
                f"model {wanted!r} is served by several providers; choose one",
                [f"{provider.name}/{wanted}" for provider in owners],
            )
        )
    if owners:
        return owners[0], wanted
    name, slash, rest = wanted.partition("/")
    if slash and rest and name in known:
        return known[name], _model_of(known[name], rest)
    every = [f"{p.name}/{model}" for p in known.values() for model in p.models or ()]
    raise ConfigError(
        _with_candidates(f"there is no model {wanted!r}; exact ids are", _close(every, wanted))
    )


def _close(candidates: Sequence[str], wanted: str) -> list[str]:
    """Those that contain what was asked for, or else all."""
    close = [candidate for candidate in candidates if wanted.lower() in candidate.lower()]
    return sorted(close or candidates)


def _with_candidates(text: str, candidates: Sequence[str]) -> str:
    return "\n".join([f"{text}:", *(f"  {candidate}" for candidate in candidates)])
