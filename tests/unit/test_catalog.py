"""The packaged catalog, its check, and how the configuration is joined to it."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import term2_acp
from term2_acp.catalog import IdForm, Model, Provider, known_providers, packaged
from term2_acp.config import (
    BUILTIN_PROVIDERS,
    EFFORTS,
    KINDS,
    Config,
    ConfigError,
    ModelSettings,
    ProviderSettings,
)

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_catalog.py"
CATALOG = Path(term2_acp.__file__).with_name("catalog.json")

WINDOW = Model("m", 1000, 100, ("low", "high"))
VENDOR = Provider(
    "openai", "openai", None, "OPENAI_API_KEY", IdForm.LISTED, "m", (WINDOW, Model("n"))
)
ROUTER = Provider(
    "router", "openai-compatible", "http://r", "R_KEY", IdForm.VENDOR, "v/m", (Model("v/m"),)
)
PACKAGED = {"openai": VENDOR, "router": ROUTER}


@pytest.fixture(scope="module")
def script():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("check_catalog", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def check(script, capsys):
    """Check a file; the exit status and what was said."""

    def check_file(path: Path) -> tuple[int, str]:
        status = script.main([str(path)])
        said = capsys.readouterr()
        assert said.out == ""
        return status, said.err

    return check_file


def joined(name: str, **settings: object) -> Provider:
    """A provider after a table of the configuration was laid over the catalog."""
    config = Config(providers={name: ProviderSettings(**settings)})
    return known_providers(config, PACKAGED)[name]


def test_the_packaged_catalog_has_the_right_form():
    """The check of the whole passes, and says nothing."""
    finished = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c: c.pop("date"), "the catalog must have exactly"),
        (lambda c: c.update(date="yesterday"), "date must be YYYY-MM-DD, not 'yesterday'"),
        (lambda c: c.update(note="x"), "note must be a list of lines"),
        (lambda c: c["providers"].pop("ollama"), "providers must have exactly"),
        (
            lambda c: c["providers"].update(openai=c["providers"].pop("openai")),
            "providers must come in this order",
        ),
        (lambda c: c["providers"]["openai"].update(kind="x"), "openai: kind must be one of"),
        (lambda c: c["providers"]["openai"].update(ids="x"), "openai: ids must be one of"),
        (lambda c: c["providers"]["ollama"].update(base_url=None), "ollama: base_url is needed"),
        (lambda c: c["providers"]["ollama"].update(base_url="x"), "ollama: base_url must be"),
        (lambda c: c["providers"]["openai"].update(api_key_env="a b"), "openai: api_key_env must"),
        (lambda c: c["providers"]["openai"].update(default="x"), "openai: default must be one of"),
        (lambda c: c["providers"]["openai"].update(models=[{}]), "openai: models must be a list"),
        (lambda c: c["providers"]["openai"].pop("models"), "openai: must have exactly"),
    ],
)
def test_a_wrong_form_is_found(check, tmp_path, spoil, message):
    """The check fails and says where."""
    catalog = json.loads(CATALOG.read_text(encoding="utf-8"))
    spoil(catalog)
    spoilt = tmp_path / "catalog.json"
    spoilt.write_text(json.dumps(catalog), encoding="utf-8")
    status, told = check(spoilt)
    assert status == 1
    assert message in told


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("id", "a b", "id must be a text"),
        ("context_window", 0, "context_window must be a number of tokens"),
        ("context_window", True, "context_window must be a number of tokens"),
        ("context_window", "1M", "context_window must be a number of tokens"),
        ("max_output_tokens", 1.5, "max_output_tokens must be a number of tokens"),
        ("max_output_tokens", 10**9, "max_output_tokens must fit into context_window"),
        ("efforts", ["high", "low"], "efforts must be null or words out of"),
        ("efforts", ["low", "low"], "efforts must be null or words out of"),
        ("efforts", ["max"], "efforts must be null or words out of"),
        ("efforts", 3, "efforts must be null or words out of"),
        ("sources", [], "sources must say where"),
        ("sources", ["a friend"], "sources must be a list of https addresses"),
        ("sources", "https://h", "sources must be a list of https addresses"),
    ],
)
def test_a_wrong_model_is_found(check, tmp_path, member, value, message):
    """Each member of a model is judged, and the model named."""
    catalog = json.loads(CATALOG.read_text(encoding="utf-8"))
    catalog["providers"]["anthropic"]["models"][1][member] = value
    spoilt = tmp_path / "catalog.json"
    spoilt.write_text(json.dumps(catalog), encoding="utf-8")
    status, told = check(spoilt)
    assert status == 1
    assert re.search(rf"anthropic: \S.*: {re.escape(message)}", told)


@pytest.mark.parametrize("text", ["", "{", '{"date": 1, "date": 2}', "[]", '"x"'])
def test_what_is_no_catalog_at_all_is_found(check, tmp_path, text):
    """The check fails in words of its own, without a traceback."""
    spoilt = tmp_path / "catalog.json"
    spoilt.write_text(text)
    for path in (spoilt, tmp_path / "absent.json"):
        status, told = check(path)
        assert (status, "Traceback" in told) == (1, False)
        assert told.startswith(str(path))


def test_the_check_and_the_program_mean_the_same_words(script):
    """The script knows the words by itself, so that it can judge any tree's catalog."""
    assert tuple(script.PROVIDERS) == BUILTIN_PROVIDERS
    assert tuple(script.KINDS) == KINDS
    assert tuple(script.EFFORTS) == EFFORTS
    assert script.ID_FORMS == list(IdForm)


def test_the_catalog_describes_the_built_in_providers():
    """All of them, in order, each with a default that it lists."""
    providers = packaged()
    assert tuple(providers) == BUILTIN_PROVIDERS
    for name, provider in providers.items():
        assert provider.name == name
        assert provider.model(provider.default or "") in provider.models
        assert not provider.closed
    assert {name: (p.kind, p.base_url, p.api_key_env) for name, p in providers.items()} == {
        "openai": ("openai", None, "OPENAI_API_KEY"),
        "anthropic": ("anthropic", None, "ANTHROPIC_API_KEY"),
        "openrouter": ("openai-compatible", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        "ollama": ("openai-compatible", "http://127.0.0.1:11434/v1", None),
        "offline": ("offline", None, None),
    }


def test_the_defaults_of_the_hosted_vendors_have_a_window_and_efforts():
    """What is used without a choice is described fully."""
    for name in ("openai", "anthropic"):
        provider = packaged()[name]
        model = provider.model(provider.default or "")
        assert model is not None
        assert model.context_window
        assert model.max_output_tokens
        assert model.efforts


def test_nothing_configured_leaves_the_catalog_as_it_is():
    """And so does an empty table of a built-in provider."""
    assert known_providers(Config(), PACKAGED) == PACKAGED
    assert joined("openai") == VENDOR


def test_a_table_overrides_single_settings_of_a_built_in_provider():
    """What it leaves out stays."""
    assert joined("openai", api_key_env="MINE") == Provider(
        "openai", "openai", None, "MINE", IdForm.LISTED, "m", VENDOR.models
    )


def test_another_address_keeps_the_figures_but_not_the_list():
    """A gateway may serve more than the vendor, under the vendor's ids."""
    provider = joined("openai", base_url="http://gateway/v1")
    assert (provider.base_url, provider.api_key_env) == ("http://gateway/v1", "OPENAI_API_KEY")
    assert (provider.ids, provider.models) == (IdForm.ANY, VENDOR.models)


def test_models_of_a_table_extend_the_catalog():
    """Their own figures win, the catalog's fill the gaps, and the default stays."""
    provider = joined("openai", models=(ModelSettings("m", 500), ModelSettings("tuned", 700)))
    assert provider.models == (
        Model("m", 500, 100, ("low", "high")),
        Model("tuned", 700),
        Model("n"),
    )
    assert (provider.default, provider.closed) == ("m", True)


def test_models_at_another_address_are_all_there_are():
    """The first of them is the default; the vendor's figures hold for its ids."""
    provider = joined(
        "openai", base_url="http://h", models=(ModelSettings("x"), ModelSettings("m"))
    )
    assert provider.models == (Model("x"), WINDOW)
    assert (provider.default, provider.closed) == ("x", True)


def test_a_second_account_at_a_vendor_knows_the_vendor_s_models():
    """A provider of the vendor's kind without an address is the vendor's service."""
    provider = joined("work", kind="openai", api_key_env="WORK_KEY")
    assert (provider.name, provider.api_key_env, provider.default) == ("work", "WORK_KEY", "m")
    assert (provider.ids, provider.models) == (IdForm.LISTED, VENDOR.models)
    assert joined("work", kind="openai").api_key_env == "OPENAI_API_KEY"


def test_a_provider_with_an_address_of_its_own_takes_no_key_that_it_does_not_name():
    """A vendor's key never goes to another address on its own."""
    for kind in ("openai", "openai-compatible", "anthropic"):
        provider = joined("local", kind=kind, base_url="http://h")
        assert provider == Provider("local", kind, "http://h")


def test_a_provider_needs_a_kind_from_somewhere():
    """Also when the settings were not read from a file."""
    with pytest.raises(ConfigError, match="providers.x.kind is missing"):
        joined("x")


@pytest.mark.parametrize(
    ("provider", "text", "named", "meant"),
    [
        (VENDOR, "m", "m", "m"),
        (VENDOR, "openai/m", "m", "m"),
        (VENDOR, "openai/new", "new", "new"),
        (VENDOR, "openai/a/b", "a/b", "a/b"),
        (VENDOR, "new", None, None),
        (VENDOR, "openai/", None, None),
        (VENDOR, "M", None, None),
        (ROUTER, "v/m", "v/m", "v/m"),
        (ROUTER, "router/v/m", "v/m", "v/m"),
        (ROUTER, "router/v/new", "v/new", "v/new"),
        (ROUTER, "v/new", None, "v/new"),
        (ROUTER, "router/auto", None, "router/auto"),
        (ROUTER, "m", None, None),
        (Provider("p", "openai-compatible"), "x", None, "x"),
        (Provider("p", "openai-compatible"), "p/x", "x", "x"),
        (Provider("p", "openai-compatible"), "o/x", None, "o/x"),
        (Provider("p", "openai-compatible", models=(Model("p/x"),)), "p/x", "p/x", "p/x"),
        (Provider("p", "openai-compatible", models=(Model("x"),), closed=True), "p/x", "x", "x"),
        (Provider("p", "openai-compatible", models=(Model("x"),), closed=True), "p/y", None, None),
        (Provider("p", "openai-compatible", models=(Model("x"),), closed=True), "y", None, None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_text_names_an_id_of_a_provider(provider, text, named, meant):
    """Listed ids come first; then `provider/model`; then what the chosen provider may have."""
    assert (provider.named_by(text), provider.meant_by(text)) == (named, meant)
