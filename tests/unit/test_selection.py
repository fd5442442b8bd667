"""Spec section 1: which provider, model and effort are meant, and how a wish is refused."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.catalog import IdForm, Model, Provider, packaged
from term2_acp.config import EFFORTS, KINDS, Config, ConfigError, ModelSettings, ProviderSettings
from term2_acp.selection import Selection, select

OPENAI = "OPENAI_API_KEY"
ANTHROPIC = "ANTHROPIC_API_KEY"
ROUTER = "OPENROUTER_API_KEY"
CATALOG = {
    provider.name: provider
    for provider in (
        Provider(
            "openai",
            "openai",
            None,
            OPENAI,
            IdForm.LISTED,
            "gpt-x",
            (
                Model("gpt-x", 1000, 100, ("low", "high")),
                Model("gpt-x-mini", 500, None, ()),
                Model("gpt-y"),
            ),
        ),
        Provider(
            "anthropic", "anthropic", None, ANTHROPIC, IdForm.LISTED, "claude", (Model("claude"),)
        ),
        Provider(
            "openrouter",
            "openai-compatible",
            "https://openrouter.example/v1",
            ROUTER,
            IdForm.VENDOR,
            "openai/gpt-x",
            (Model("openai/gpt-x", 900), Model("openrouter/auto")),
        ),
        Provider(
            "ollama",
            "openai-compatible",
            "http://127.0.0.1:11434/v1",
            None,
            IdForm.ANY,
            "llama",
            (Model("llama"),),
        ),
        Provider("offline", "offline", None, None, IdForm.LISTED, "offline", (Model("offline"),)),
    )
}


def settings(*models: str, **others: object) -> ProviderSettings:
    """A configured server of this machine with these models, or with none listed."""
    listed = tuple(ModelSettings(model) for model in models) or None
    values = {"kind": "openai-compatible", "base_url": "http://h/v1", "models": listed, **others}
    return ProviderSettings(**values)


def config(*, provider=None, model=None, effort=None, **providers: ProviderSettings) -> Config:
    return Config(provider=provider, model=model, effort=effort, providers=providers)


def choose(configuration=None, keys=(), **flags: str | None) -> Selection:
    """Select with keys for the variables named in `keys`."""
    environment = keys if isinstance(keys, dict) else {key: f"secret-{key}" for key in keys}
    return select(configuration or Config(), environment=environment, catalog=CATALOG, **flags)


def chosen(*args, **flags: str | None) -> tuple[str, str]:
    selection = choose(*args, **flags)
    return selection.provider, selection.model


def refusal(*args, **flags: str | None) -> list[str]:
    """The lines of the diagnostic: what is wrong, then the candidates."""
    with pytest.raises(ConfigError) as caught:
        choose(*args, **flags)
    return str(caught.value).splitlines()


# Without a choice.


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([], ("offline", "offline")),
        ([OPENAI], ("openai", "gpt-x")),
        ([ANTHROPIC], ("anthropic", "claude")),
        ([ROUTER], ("openrouter", "openai/gpt-x")),
        ([ROUTER, ANTHROPIC], ("anthropic", "claude")),
        ([ROUTER, ANTHROPIC, OPENAI], ("openai", "gpt-x")),
        ({OPENAI: "", ANTHROPIC: " "}, ("offline", "offline")),
        (["OTHER_API_KEY"], ("offline", "offline")),
    ],
    ids=str,
)
def test_with_nothing_configured_the_first_key_decides(keys, expected):
    """In the order of the built-in providers; an empty variable is none."""
    assert chosen(keys=keys) == expected


def test_a_broken_key_refuses_nothing_on_its_own(caplog):
    """With nothing configured a start never fails: the next provider is taken, with a warning."""
    assert chosen(keys={OPENAI: "a\nb"}) == ("offline", "offline")
    assert "OPENAI_API_KEY" in caplog.text
    assert "a\\nb" not in caplog.text
    assert chosen(keys={OPENAI: "a b", ANTHROPIC: "key"}) == ("anthropic", "claude")


def test_a_provider_of_the_file_comes_before_the_keys():
    """The first that can be used, in the order of the file."""
    local, other = settings("m"), settings("n")
    assert chosen(config(local=local, other=other), [OPENAI]) == ("local", "m")
    assert chosen(config(other=other, local=local)) == ("other", "n")
    keyed = settings("k", api_key_env="K")
    assert chosen(config(keyed=keyed, local=local)) == ("local", "m")
    assert chosen(config(keyed=keyed, local=local), ["K"]) == ("keyed", "k")


def test_a_file_whose_providers_cannot_be_used_falls_back_with_a_warning(caplog):
    """To a key that is set, else to the offline model, and it is told why."""
    keyed, bare = settings("k", api_key_env="K"), settings()
    assert chosen(config(keyed=keyed, bare=bare), [ANTHROPIC]) == ("anthropic", "claude")
    assert caplog.text == ""
    assert chosen(config(keyed=keyed, bare=bare)) == ("offline", "offline")
    assert "provider 'keyed' needs a key: set the environment variable K" in caplog.text
    assert "provider 'bare' lists no models" in caplog.text


# A provider is chosen.


@pytest.mark.parametrize("name", CATALOG)
def test_every_built_in_provider_has_a_default_model(name):
    """Its key is all that it needs."""
    keys = [OPENAI, ANTHROPIC, ROUTER]
    assert chosen(keys=keys, provider=name) == (name, CATALOG[name].default)


def test_an_exact_id_of_the_chosen_provider_is_taken():
    """Chosen by the flag or by the setting, with the provider's name before it or without."""
    for model in ("gpt-y", "openai/gpt-y"):
        assert chosen(None, [OPENAI], provider="openai", model=model) == ("openai", "gpt-y")
        assert chosen(config(provider="openai"), [OPENAI], model=model) == ("openai", "gpt-y")
        assert chosen(config(provider="openai", model=model), [OPENAI]) == ("openai", "gpt-y")


def test_flags_come_before_settings():
    """Provider, model and effort alike."""
    configuration = config(provider="anthropic", model="claude", effort="low", local=settings("m"))
    selection = choose(configuration, provider="local", model="m", effort="high")
    assert (selection.provider, selection.model, selection.effort) == ("local", "m", "high")
    assert choose(configuration, [ANTHROPIC]).effort == "low"


def test_the_setting_for_the_model_holds_for_its_own_provider_only():
    """A provider flag takes it if it names one of its models, and else the default."""
    assert chosen(config(provider="anthropic", model="claude"), provider="offline") == (
        "offline",
        "offline",
    )
    for model in ("gpt-y", "openai/gpt-y", "openai/new"):
        _, taken = chosen(config(model=model), [OPENAI], provider="openai")
        assert taken == model.removeprefix("openai/")
    assert chosen(config(model="claude"), [OPENAI], provider="openai") == ("openai", "gpt-x")
    assert chosen(config(model="m", local=settings()), provider="ollama") == ("ollama", "llama")
    assert refusal(config(provider="openai", model="claude"), [OPENAI], provider="openai")


@pytest.mark.parametrize("model", ["gpt", "gpt-", "x-mini", "GPT-X", "gpt-x-min"])
def test_a_part_of_an_id_is_refused_with_the_close_ones(model):
    """What contains it, or is written like it, as lines that can be given to --model."""
    first, *candidates = refusal(keys=[OPENAI], provider="openai", model=model)
    assert first.startswith(
        f"--model '{model}' is not the exact id of a model of provider 'openai'"
    )
    assert candidates
    for candidate in candidates:
        assert chosen(keys=[OPENAI], model=candidate) == ("openai", candidate.partition("/")[2])
    if model != "GPT-X":
        assert all(model in candidate for candidate in candidates)


def test_an_unknown_id_is_refused_with_all_and_with_a_way_out():
    """A model newer than the catalog is named with its provider."""
    first, *candidates = refusal(keys=[OPENAI], provider="openai", model="zzz")
    assert "or write openai/ID for one that is not listed" in first
    assert candidates == ["openai/gpt-x", "openai/gpt-x-mini", "openai/gpt-y"]
    assert chosen(keys=[OPENAI], provider="openai", model="openai/zzz") == ("openai", "zzz")


def test_the_models_of_the_file_are_all_that_a_provider_takes():
    """No other id goes to it, however it is written."""
    configuration = config(provider="local", local=settings("test-model", "b/c"))
    assert chosen(configuration) == ("local", "test-model")
    assert chosen(configuration, model="b/c") == ("local", "b/c")
    assert chosen(configuration, model="local/b/c") == ("local", "b/c")
    for model in ("test", "local/test", "local/other", "c", "other"):
        first, *candidates = refusal(configuration, model=model)
        assert f"--model '{model}'" in first
        assert "(the setting provider = 'local')" in first
        assert "or write" not in first
        assert set(candidates) <= {"local/test-model", "local/b/c"}
        assert candidates


def test_a_provider_without_models_takes_any_id_as_given():
    """Whatever slashes are in it; its own name before the id is taken off."""
    configuration = config(local=settings())
    for model in ("m", "a/b", "a/b/c", "gpt-x"):
        assert chosen(configuration, provider="local", model=model) == ("local", model)
        assert chosen(configuration, provider="local", model=f"local/{model}") == ("local", model)
        assert chosen(configuration, model=f"local/{model}") == ("local", model)
    (line,) = refusal(configuration, provider="local")
    assert line.startswith("provider 'local' lists no models; name one with --model")


def test_ids_of_many_vendors_have_slashes_of_their_own():
    """On such a service a word without a vendor is a part of an id."""
    for model in ("openai/gpt-x", "anthropic/new", "a/b/c", "openrouter/auto", "openrouter/new"):
        assert chosen(keys=[ROUTER], provider="openrouter", model=model) == ("openrouter", model)
        qualified = f"openrouter/{model}"
        assert chosen(keys=[ROUTER], provider="openrouter", model=qualified)[1] == model
        assert chosen(keys=[ROUTER], model=qualified) == ("openrouter", model)
    first, *candidates = refusal(keys=[ROUTER], provider="openrouter", model="gpt-x")
    assert "not the exact id" in first
    assert candidates == ["openrouter/openai/gpt-x"]


def test_an_unknown_provider_is_refused_with_the_known_ones():
    """Those of the file are among them."""
    first, *candidates = refusal(config(local=settings()), provider="locl")
    assert first == "--provider 'locl' is not known; the providers are:"
    assert candidates == sorted([*CATALOG, "local"])
    first, *_ = refusal(config(provider="locl"))
    assert first == "the setting provider = 'locl' is not known; the providers are:"


# Only a model is asked for.


def test_a_unique_id_finds_its_provider():
    """Among those of the file and those whose key is set."""
    assert chosen(keys=[OPENAI, ANTHROPIC], model="claude") == ("anthropic", "claude")
    assert chosen(config(model="gpt-y"), [OPENAI]) == ("openai", "gpt-y")
    assert chosen(config(local=settings("m")), [OPENAI], model="m") == ("local", "m")
    assert chosen(model="offline") == ("offline", "offline")


def test_an_id_of_a_provider_that_is_not_configured_is_not_found():
    """It is a candidate, with the provider's name before it."""
    _, *candidates = refusal(keys=[ANTHROPIC], model="zzz")
    assert candidates == ["anthropic/claude", "offline/offline"]
    first, *candidates = refusal(keys=[ANTHROPIC], model="gpt-y")
    assert first.startswith("--model 'gpt-y' is not the exact id of a model of a configured")
    assert candidates == ["openai/gpt-y"]
    assert refusal(keys=[ANTHROPIC], model="openai/gpt-y") == [
        "provider 'openai' needs a key: set the environment variable OPENAI_API_KEY"
    ]


def test_an_id_found_in_several_providers_is_refused():
    """The candidates are those that it was found in, and each of them works."""
    configuration = config(one=settings("m"), two=settings("m", "n"))
    first, *candidates = refusal(configuration, model="m")
    assert first == "--model 'm' is found in several providers; take one of these:"
    assert candidates == ["one/m", "two/m"]
    assert [chosen(configuration, model=line)[0] for line in candidates] == ["one", "two"]


def test_an_exact_id_comes_before_provider_and_model():
    """`openai/gpt-x` is an id of the service of many vendors if that alone is configured so."""
    assert chosen(keys=[ROUTER], model="openai/gpt-x") == ("openrouter", "openai/gpt-x")
    assert chosen(keys=[ROUTER, OPENAI], model="openai/gpt-x") == ("openrouter", "openai/gpt-x")
    assert chosen(keys=[OPENAI], model="openai/gpt-x") == ("openai", "gpt-x")
    assert chosen(keys=[ROUTER, OPENAI], provider="openai", model="openai/gpt-x")[0] == "openai"


def test_provider_and_model_names_a_model_as_given():
    """Of a built-in provider too, as the catalog grows old."""
    assert chosen(keys=[OPENAI], model="openai/gpt-new") == ("openai", "gpt-new")
    assert chosen(model="ollama/llama3:8b") == ("ollama", "llama3:8b")
    assert chosen(model="ollama/user/llama3:8b") == ("ollama", "user/llama3:8b")


def test_what_a_configured_provider_may_have_is_a_candidate():
    """Neither the catalog nor the file lists it, so it is not taken without a word."""
    assert refusal(keys=[ROUTER], model="deepseek/v9")[1] == "openrouter/deepseek/v9"
    assert refusal(config(local=settings()), model="m")[1] == "local/m"


@pytest.mark.parametrize("model", ["nobody/m", "nobody/", "/m", "/", "openai/", "//"])
def test_a_model_of_nobody_is_refused(model):
    """With candidates, as any other that is not found."""
    first, *candidates = refusal(keys=[OPENAI], model=model)
    assert "not the exact id" in first
    assert candidates


@pytest.mark.parametrize("model", ["", " ", " gpt-x", "gpt-x\n", "a\nb", "\udcff", "\x1b[31m"])
def test_a_text_that_can_be_no_id_is_refused(model):
    """It is shown escaped, so that the diagnostic stays a line."""
    for provider in (None, "ollama", "openai"):
        (line,) = refusal(keys=[OPENAI], provider=provider, model=model)
        assert line.startswith("--model ")
        assert "must be printable" in line


def test_many_candidates_are_cut():
    """A service with hundreds of models does not fill the screen."""
    many = settings(*(f"model-{number}" for number in range(100)))
    _, *candidates = refusal(config(many=many), model="model")
    assert candidates[-1] == "and 80 more"
    assert len(candidates) == 21


# Effort.


@pytest.mark.parametrize("effort", EFFORTS)
def test_an_effort_is_taken_where_nothing_is_known_against_it(effort):
    """Models that nothing is known of, and the offline model, take every word."""
    assert choose(effort=effort).effort == effort
    assert choose(keys=[OPENAI], model="gpt-y", effort=effort).effort == effort
    assert choose(keys=[OPENAI], model="openai/new", effort=effort).effort == effort


def test_an_effort_that_the_model_does_not_take_is_refused_with_those_it_takes():
    """Whether it came as a flag or as a setting."""
    assert choose(keys=[OPENAI], effort="low").effort == "low"
    assert refusal(keys=[OPENAI], effort="medium") == [
        "--effort 'medium' must be one of low, high for model openai/gpt-x"
    ]
    assert refusal(config(effort="none"), [OPENAI]) == [
        "the setting effort = 'none' must be one of low, high for model openai/gpt-x"
    ]
    assert refusal(keys=[OPENAI], model="gpt-x-mini", effort="low") == [
        "--effort 'low' must be left out for model openai/gpt-x-mini"
    ]


@pytest.mark.parametrize("effort", ["extreme", "HIGH", "max", "", "low "])
def test_an_unknown_effort_is_refused_with_the_words(effort):
    """Before anything else is looked at."""
    (line,) = refusal(effort=effort, provider="offline")
    assert line == f"--effort {effort!r} must be one of {', '.join(EFFORTS)}"


# Keys and figures.


def test_a_missing_key_is_named_and_its_variable_too():
    """For a built-in provider and for one of the file, and only for the one that is chosen."""
    assert refusal(provider="anthropic") == [
        "provider 'anthropic' needs a key: set the environment variable ANTHROPIC_API_KEY"
    ]
    keyed = config(local=settings("m", api_key_env="LOCAL_KEY"))
    for flags in ({"provider": "local"}, {"model": "m"}, {"model": "local/m"}):
        assert refusal(keyed, **flags) == [
            "provider 'local' needs a key: set the environment variable LOCAL_KEY"
        ]
    assert chosen(keyed, provider="offline") == ("offline", "offline")


@pytest.mark.parametrize("key", ["a\nb", "a b", "ключ", "\udcff", "a\x00b"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key):
    """Its variable is named, and nothing of it is shown."""
    (line,) = refusal(keys={OPENAI: key}, provider="openai")
    assert line == (
        "OPENAI_API_KEY, the key of provider 'openai', must be printable ASCII without spaces"
    )


def test_a_key_is_taken_without_the_space_around_it_and_never_shown(caplog):
    """Neither in the selection's text form nor in a log."""
    with caplog.at_level(logging.DEBUG):
        selection = choose(keys={OPENAI: " sk-secret\n"}, provider="openai")
    assert (selection.api_key_env, selection.api_key) == (OPENAI, "sk-secret")
    assert "secret" not in f"{selection!r} {selection} {caplog.text}"


def test_without_a_variable_there_is_no_key():
    """Whatever other keys are set."""
    selection = choose(config(local=settings("m")), [OPENAI], provider="local")
    assert (selection.api_key_env, selection.api_key) == (None, None)


def test_a_selection_has_what_a_provider_is_made_of():
    """Kind, address and figures, from the file or the catalog."""
    own = ModelSettings("m", context_window=2000, max_output_tokens=200)
    configuration = config(local=settings(models=(own,)))
    assert choose(configuration, model="m") == Selection(
        provider="local",
        kind="openai-compatible",
        model="m",
        base_url="http://h/v1",
        context_window=2000,
        max_output_tokens=200,
    )
    assert choose(keys=[OPENAI]) == Selection(
        provider="openai",
        kind="openai",
        model="gpt-x",
        api_key_env=OPENAI,
        api_key=f"secret-{OPENAI}",
        context_window=1000,
        max_output_tokens=100,
    )


def test_a_service_is_asked_for_a_window_that_nobody_knows():
    """Unless its models are listed in the file, or it is the offline model."""
    assert choose(keys=[OPENAI], model="openai/new").asks_window
    assert choose(config(local=settings()), model="local/m").asks_window
    assert not choose(keys=[OPENAI]).asks_window
    assert not choose(config(local=settings("m")), model="m").asks_window
    assert not choose().asks_window


def test_the_packaged_catalog_and_the_environment_are_the_defaults(monkeypatch):
    """What the program itself uses."""
    for variable in (OPENAI, ANTHROPIC, ROUTER):
        monkeypatch.delenv(variable, raising=False)
    assert select(Config()).provider == "offline"
    monkeypatch.setenv(ANTHROPIC, "key")
    selection = select(Config())
    assert (selection.provider, selection.model) == ("anthropic", packaged()["anthropic"].default)


# Any configuration whatever.

NAMES = st.sampled_from([*CATALOG, "local", "other"])
IDS = st.sampled_from(["m", "n", "gpt-x", "claude", "openai/gpt-x", "local/m", "local/local/m"])
TEXTS = st.one_of(NAMES, IDS, st.text(max_size=6), st.builds("{}/{}".format, NAMES, IDS))
ASKED = st.none() | TEXTS
PROVIDERS = st.builds(
    ProviderSettings,
    kind=st.none() | st.sampled_from(KINDS),
    base_url=st.none() | st.just("http://h"),
    api_key_env=st.none() | st.sampled_from([OPENAI, "LOCAL_KEY"]),
    models=st.none()
    | st.lists(
        st.builds(ModelSettings, id=IDS, efforts=st.none() | st.just(("low",))),
        min_size=1,
        unique_by=lambda model: model.id,
    ).map(tuple),
)
IDS_OR_NONE = st.none() | NAMES | IDS
CONFIGS = st.builds(
    Config,
    provider=IDS_OR_NONE,
    model=IDS_OR_NONE,
    effort=st.none() | st.sampled_from(EFFORTS),
    providers=st.dictionaries(NAMES.filter(lambda name: name != "offline"), PROVIDERS, max_size=4),
)
KEYS = st.dictionaries(
    st.sampled_from([OPENAI, ANTHROPIC, ROUTER, "LOCAL_KEY"]),
    st.sampled_from(["key", "", "two words", "line\nbreak"]),
)


@given(CONFIGS, KEYS, ASKED, ASKED, st.none() | st.sampled_from(EFFORTS) | TEXTS)
def test_any_wish_is_met_or_refused(configuration, keys, provider, model, effort):
    """No configuration, environment and flags lead to anything but a selection or a diagnostic."""
    try:
        selection = select(
            configuration,
            provider=provider,
            model=model,
            effort=effort,
            environment=keys,
            catalog=CATALOG,
        )
    except ConfigError as error:
        first, *candidates = str(error).splitlines()
        refused = bool(first) and all(candidate.strip() for candidate in candidates)
        assert refused, str(error)  # noqa: PT017 (either way is right)
        return
    assert selection.kind in KINDS
    assert selection.model
    assert selection.effort in (None, *EFFORTS)
    assert provider in (None, selection.provider)
    assert model is None or model.endswith(selection.model)
    assert selection.api_key is None or selection.api_key == keys[selection.api_key_env or ""]


@given(CONFIGS, KEYS, st.data())
def test_an_exact_id_that_is_unique_is_always_found(configuration, keys, data):
    """Whatever else is configured: among the models of configured providers, it means itself."""
    configuration = Config(
        providers={
            name: ProviderSettings("openai-compatible", "http://h", None, table.models)
            for name, table in configuration.providers.items()
        }
    )
    named = {
        name: [model.id for model in table.models or ()]
        for name, table in configuration.providers.items()
    }
    everywhere = [model_id for ids in named.values() for model_id in ids]
    catalogued = {model.id for provider in CATALOG.values() for model in provider.models}
    unique = [
        model_id
        for model_id in everywhere
        if everywhere.count(model_id) == 1 and model_id not in catalogued
    ]
    if not unique:
        return
    wanted = data.draw(st.sampled_from(unique))
    owner = next(name for name, ids in named.items() if wanted in ids)
    environment = dict.fromkeys((OPENAI, ANTHROPIC, ROUTER, *keys), "key")
    assert chosen(configuration, environment, model=wanted) == (owner, wanted)
    assert chosen(configuration, environment, provider=owner, model=wanted) == (owner, wanted)
    qualified = f"{owner}/{wanted}"
    if qualified not in everywhere:
        assert chosen(configuration, environment, model=qualified) == (owner, wanted)


@given(KEYS)
def test_nothing_asked_for_and_nothing_configured_is_never_refused(keys):
    """So the choice may wait until after the answer to initialize."""
    assert choose(keys=keys).provider in CATALOG
