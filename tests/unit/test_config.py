"""Spec section 2: the configuration file, and how it is refused."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.config import (
    BUILTIN_PROVIDERS,
    EFFORTS,
    KINDS,
    Config,
    ConfigError,
    ModelSettings,
    ProviderSettings,
)
from term2_acp.config_file import load

LOCAL = '[providers.local]\nkind = "openai-compatible"\nbase_url = "http://127.0.0.1:8080/v1"\n'


@pytest.fixture
def file(tmp_path):
    """A configuration file that does not exist yet."""
    return tmp_path / "config.toml"


@pytest.fixture
def refused(file):
    """Reads a text as configuration and gives the diagnostic without the file's name."""

    def read(text: str | bytes) -> str:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(ConfigError) as caught:
            load(str(file))
        message = str(caught.value)
        assert message.startswith(str(file))
        assert len(message.splitlines()) == 1
        return message.removeprefix(str(file)).removeprefix(":").strip()

    return read


def read(file, text):
    file.write_text(text, encoding="utf-8")
    return load(str(file))


def test_the_example_of_the_documentation_is_read(file):
    """Every documented key is understood, without a warning."""
    config, warnings = read(
        file,
        """
provider = "local"            # defaults for --provider/--model/--effort
model = "test-model"
effort = "high"
max_turn_requests = 50
max_sessions = 7
stream_idle_timeout_s = 30

[providers.local]
kind = "openai-compatible"
base_url = "http://127.0.0.1:8080/v1"
api_key_env = "LOCAL_API_KEY"
models = [
    { id = "test-model", context_window = 128000, max_output_tokens = 4096 },
    { id = "b", efforts = ["low", "high"] },
]
""",
    )
    assert warnings == []
    assert config == Config(
        provider="local",
        model="test-model",
        effort="high",
        max_turn_requests=50,
        max_sessions=7,
        stream_idle_timeout_s=30.0,
        providers={
            "local": ProviderSettings(
                kind="openai-compatible",
                base_url="http://127.0.0.1:8080/v1",
                api_key_env="LOCAL_API_KEY",
                models=(
                    ModelSettings("test-model", 128000, 4096),
                    ModelSettings("b", efforts=("low", "high")),
                ),
            )
        },
    )
    assert type(config.stream_idle_timeout_s) is float


@pytest.mark.parametrize("text", ["", "# nothing\n", "\ufeff", "\r\n"], ids=repr)
def test_an_empty_file_means_the_defaults(file, text):
    """No key is required; a byte order mark and Windows line ends do no harm."""
    assert read(file, text) == (Config(), [])
    assert (Config().max_turn_requests, Config().max_sessions) == (100, 128)
    assert Config().stream_idle_timeout_s == 120


@pytest.mark.parametrize("name", BUILTIN_PROVIDERS)
def test_a_built_in_provider_needs_no_kind(file, name):
    """Its table overrides single settings, so an empty one changes nothing."""
    config, warnings = read(file, f"[providers.{name}]\n")
    assert (config.providers, warnings) == ({name: ProviderSettings()}, [])


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("colour = 1\n", "colour"),
        ('"a\\nb" = 1\n', r"'a\nb'"),
        ("[tui]\nx = 1\n", "tui"),
        (LOCAL + 'api_key = "secret-value"\n', "providers.local.api_key"),
        (
            LOCAL + 'models = [{ id = "a" }, { id = "b", window = 1 }]\n',
            "providers.local.models[1].w",
        ),
        ('[providers."a.b"]\nkind = "openai"\nx = 1\n', "providers.'a.b'.x"),
    ],
)
def test_an_unknown_key_is_warned_of_by_its_path(file, text, key):
    """It is named with the keys that would be right, on one line, without its value."""
    _, (warning,) = read(file, text)
    assert warning.startswith(f"{file}: unknown key {key}")
    assert len(warning.splitlines()) == 1
    assert "secret" not in warning
    assert ("kind" in warning) == ("local.api_key" in warning or "a.b" in warning)


def test_an_unknown_key_is_told_with_what_is_missing(file):
    """A misspelt key is the reason for one that is missing, so both are in the refusal."""
    with pytest.raises(ConfigError) as refused:
        read(file, '[providers.local]\nkind = "openai-compatible"\nurl = "http://x"\n')
    assert "providers.local.base_url is missing" in str(refused.value)
    assert "unknown key providers.local.url" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("provider = 3\n", "provider must be a string, not 3"),
        ("provider = []\n", "provider must be a string, not []"),
        ('provider = ""\n', "provider must be a name without"),
        ('model = " m"\n', "model must be a name without"),
        ('model = "a\\nb"\n', r"model must be a name without line breaks and"),
        ('effort = "extreme"\n', f"effort must be one of {', '.join(EFFORTS)}, not 'extreme'"),
        ('effort = "High"\n', "effort must be one of"),
        ("max_sessions = true\n", "max_sessions must be a whole number, not true"),
        ("max_sessions = 1.0\n", "max_sessions must be a whole number, not 1.0"),
        ('max_sessions = "2"\n', "max_sessions must be a whole number, not '2'"),
        ("max_sessions = 0\n", "max_sessions must be a whole number from 1 to"),
        ("max_turn_requests = -1\n", "max_turn_requests must be a whole number from 1 to"),
        (f"max_sessions = 0x{'f' * 9000}\n", "not a number with too many digits"),
        ("stream_idle_timeout_s = true\n", "stream_idle_timeout_s must be a number, not true"),
        ("stream_idle_timeout_s = nan\n", "a number of seconds above 0 and at most 86400, not nan"),
        ("stream_idle_timeout_s = inf\n", "stream_idle_timeout_s must be a number of seconds"),
        ("stream_idle_timeout_s = -inf\n", "stream_idle_timeout_s must be a number of seconds"),
        ("stream_idle_timeout_s = 0\n", "stream_idle_timeout_s must be a number of seconds"),
        ("stream_idle_timeout_s = -0.5\n", "not -0.5"),
        (f"stream_idle_timeout_s = 0x{'f' * 9000}\n", "stream_idle_timeout_s must be a number"),
        ("providers = 3\n", "providers must be a table, not 3"),
        ("providers = []\n", "providers must be a table, not []"),
        ("providers.local = 3\n", "providers.local must be a table, not 3"),
        (LOCAL + "models = 3\n", "providers.local.models must be a list, not 3"),
        (LOCAL + 'models = { id = "x" }\n', "providers.local.models must be a list, not"),
        (LOCAL + "models = [3]\n", "providers.local.models[0] must be a table, not 3"),
        (LOCAL + "models = []\n", "providers.local.models must be left out or name a model"),
        (LOCAL + "models = [{}]\n", "providers.local.models[0].id is missing"),
        (LOCAL + "models = [{ id = 3 }]\n", "providers.local.models[0].id must be a string, not 3"),
        (LOCAL + 'models = [{ id = "" }]\n', "providers.local.models[0].id must be a name without"),
        (
            LOCAL + 'models = [{ id = "a" }, { id = "b" }, { id = "a" }]\n',
            "providers.local.models[2].id is given twice: 'a'",
        ),
        (
            LOCAL + 'models = [{ id = "a", context_window = 0 }]\n',
            "providers.local.models[0].context_window must be a whole number from 1",
        ),
        (
            LOCAL + 'models = [{ id = "a", max_output_tokens = 1.5 }]\n',
            "providers.local.models[0].max_output_tokens must be a whole number, not 1.5",
        ),
        (
            LOCAL + 'models = [{ id = "a", efforts = ["max"] }]\n',
            "providers.local.models[0].efforts must be a list of different words out of none,",
        ),
        (
            LOCAL + 'models = [{ id = "a", efforts = "low" }]\n',
            "providers.local.models[0].efforts must be a list, not 'low'",
        ),
        (
            LOCAL + 'models = [{ id = "a", efforts = [1] }]\n',
            "providers.local.models[0].efforts[0] must be a string, not 1",
        ),
        ("[providers.x]\n", f"providers.x.kind is missing; it must be one of {', '.join(KINDS)}"),
        ('[providers.x]\nkind = "gemini"\n', "providers.x.kind must be one of openai-compatible,"),
        ("[providers.x]\nkind = 1\n", "providers.x.kind must be a string, not 1"),
        ('[providers.x]\nkind = "openai-compatible"\n', "providers.x.base_url is missing"),
        (
            '[providers.openai]\nkind = "openai-compatible"\n',
            "providers.openai.base_url is missing",
        ),
        ('[providers.offline]\nkind = "openai"\n', "providers.offline.kind must be 'offline'"),
        ('[providers."a/b"]\nkind = "openai"\n', "providers.'a/b' cannot be named so"),
        ('[providers.""]\nkind = "openai"\n', "providers.'' cannot be named so"),
        ('[providers."a b"]\nkind = "openai"\n', "providers.'a b' cannot be named so"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_wrong_value_is_refused_by_its_path(refused, text, message):
    """The file, the key's path and what would be right are told on one line."""
    assert message in refused(text)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "x",
        "ftp://h/v1",
        "http://",
        "http:///v1",
        "http://h:99999/",
        "http://h:x/",
        "http://a b/",
        "http://h/v1?key=1",
        "http://h/v1#x",
        "//h/v1",
        "http://:80/",
        "http://h\\n/",
        "file:///x",
    ],
)
def test_an_address_must_be_one_with_a_host(refused, address):
    """Anything else is refused, without showing it: it may hold a password."""
    message = refused(f'[providers.x]\nkind = "openai"\nbase_url = "{address}"\n')
    assert message.startswith("providers.x.base_url must be an http or https address with a host")
    assert "not '" not in message


@pytest.mark.parametrize(
    "address",
    [
        "http://h",
        "https://h/",
        "HTTPS://Example.com:8443/v1",
        "http://[::1]:8080/v1",
        "http://u:p@h/v1",
        "http://localhost:1/a/b/",
        "https://münchen.example/v1",
    ],
)
def test_an_address_may_have_any_host_port_and_path(file, address):
    """Names, IPv4 and IPv6 addresses and a user are taken as they are."""
    config, _ = read(file, f'[providers.x]\nkind = "openai"\nbase_url = "{address}"\n')
    assert config.providers["x"].base_url == address


@pytest.mark.parametrize("name", ["sk-abc-123", "A KEY", "", "1KEY", "$KEY", "K=v"])
def test_a_key_in_place_of_its_variable_is_refused_unseen(refused, name):
    """The name of a variable is wanted; what was given may be the key, so it is not repeated."""
    message = refused(f'[providers.x]\nkind = "openai"\napi_key_env = "{name}"\n')
    assert message == (
        "providers.x.api_key_env must be the name of an environment variable, not a key"
    )


def test_all_wrong_values_are_told_at_once(refused):
    """A person mends the file in one go."""
    message = refused(
        'max_sessions = "x"\nprovider = 1\n[providers.x]\nkind = "openai"\nmodels = [{}]\n'
    )
    for key in ("max_sessions must", "provider must", "providers.x.models[0].id is missing"):
        assert key in message


def test_a_long_value_is_cut_in_the_message(refused):
    """A diagnostic stays readable."""
    assert len(refused(f'effort = "{"x" * 10000}"\n')) < 300


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nb = \n", "is not TOML: Invalid value (at line 2, column 5)"),
        ("provider =", "is not TOML: Invalid value (at end of document)"),
        ("a = 1\na = 2\n", "is not TOML: Cannot overwrite a value (at line 2"),
        (b"a = 1\n# \xff\n", "is not UTF-8 (at line 2)"),
        (b"\xff\xfea\x00", "is not UTF-8 (at line 1)"),
        ("a = " + "[" * 20000, "is not TOML: values are nested too deeply"),
        ("a = " + "1" * 5000, "is not TOML: Exceeds the limit"),
        ("#" * (1 << 20) + "\n", "is larger than 1048576 bytes"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_no_toml_is_refused_with_its_line(refused, text, message):
    """Syntax, encoding and size are judged before anything else."""
    assert message in refused(text)


def test_a_folder_in_place_of_the_file_is_refused(file):
    """It is named, and nothing is read."""
    file.mkdir()
    with pytest.raises(ConfigError, match="config.toml: is not a file"):
        load(str(file))


def test_a_pipe_in_place_of_the_file_is_not_waited_for(file):
    """Nothing but a regular file is opened."""
    os.mkfifo(file)
    with pytest.raises(ConfigError, match="is not a file"):
        load(str(file))


def test_a_file_that_cannot_be_read_is_refused(file, tmp_path):
    """A missing one, and one behind links that go round."""
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(str(file))
    file.symlink_to(tmp_path / "config.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(str(file))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_refused(file):
    """The system's reason is told."""
    file.write_text("")
    file.chmod(stat.S_IWUSR)
    with pytest.raises(ConfigError, match="cannot be read: Permission denied"):
        load(str(file))


def test_a_link_to_a_file_is_followed(file, tmp_path):
    """Many keep their settings in a repository of their own."""
    (tmp_path / "real.toml").write_text("max_sessions = 3\n")
    file.symlink_to(tmp_path / "real.toml")
    assert load(str(file))[0].max_sessions == 3


KEYS = [
    field.name for cls in (Config, ProviderSettings, ModelSettings) for field in attrs.fields(cls)
]
TOML_TEXTS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="'"), max_size=8
).map(lambda text: f"'{text}'")
VALUES = st.recursive(
    st.one_of(
        st.integers().map(str),
        st.floats().map(repr),
        st.sampled_from(
            ["true", "false", "2026-01-01", "'offline'", "'openai'", "'low'", "'http://h'"]
        ),
        TOML_TEXTS,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(st.sampled_from([*KEYS, "local", "openai"]), inner, max_size=3).map(
            lambda table: "{" + ", ".join(f"{key} = {value}" for key, value in table.items()) + "}"
        ),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*KEYS, "else"]), VALUES, max_size=4))
def test_any_file_is_read_or_refused(table):
    """No value, wherever it stands, leads to anything but settings or a diagnostic."""
    text = "".join(f"{key} = {value}\n" for key, value in table.items())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "config.toml")
        file.write_text(text, encoding="utf-8")
        try:
            config, told = load(str(file))
        except ConfigError as error:
            config, told = None, [str(error)]
        assert config is None or isinstance(config, Config)
        assert all(message.startswith(str(file)) for message in told)
        assert all(len(message.splitlines()) == 1 for message in told)
