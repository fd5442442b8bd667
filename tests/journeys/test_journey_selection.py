"""Spec sections 1 and 2: provider, model, effort and configuration, through the real program."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from term2_acp.catalog import packaged
from tests.harness.home import SOURCE

SERVE = (sys.executable, "-m", "term2_acp", "acp")
LOCAL = """
[providers.local]
kind = "openai-compatible"
base_url = "http://127.0.0.1:9/v1"
api_key_env = "LOCAL_API_KEY"
models = [{ id = "test-model", context_window = 128000, efforts = ["low"] }, { id = "other" }]
"""
SECRET = "sk-very-secret-0123456789"
DEADLINE_S = 60


def run(home, *args, command=SERVE, **environment):
    """Run the program to its end, on a standard input that has ended."""
    return subprocess.run(
        [*command, *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd=SOURCE,
        env=home.environment(**environment),
        timeout=DEADLINE_S,
    )


def refusal(home, *args, **environment):
    """The diagnostic of a start that must fail: what is wrong, then the candidates."""
    ended = run(home, *args, **environment)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "Traceback" not in ended.stderr
    assert SECRET not in ended.stderr
    first, *candidates = ended.stderr.splitlines()
    assert first.startswith("term2: ")
    return first.removeprefix("term2: "), candidates


@pytest.fixture
def selects(start):
    """Runs a server until it has chosen a model, and gives what it said about that."""

    def selected(*args, **environment):
        client = start(*args, TERM2_LOG="info", **environment)
        client.initialize()
        client.sync()
        client.eof()
        assert client.wait_exit() == 0
        assert SECRET not in client.stderr
        return client.stderr

    return selected


def default(name):
    return packaged()[name].default


@pytest.mark.parametrize(
    ("variables", "provider"),
    [
        ((), "offline"),
        (("OPENAI_API_KEY",), "openai"),
        (("OPENROUTER_API_KEY", "ANTHROPIC_API_KEY"), "anthropic"),
        (("OPENROUTER_API_KEY",), "openrouter"),
    ],
)
def test_with_nothing_configured_the_first_key_decides(selects, variables, provider):
    """And without any key it is the offline model."""
    told = selects(**dict.fromkeys(variables, SECRET))
    assert f"model {default(provider)} of provider {provider} " in told


def test_the_settings_choose(home, selects):
    """Provider, model and effort come from the file."""
    home.configure('provider = "local"\nmodel = "test-model"\neffort = "low"\n' + LOCAL)
    expected = "model test-model of provider local (openai-compatible), effort low"
    assert expected in selects(LOCAL_API_KEY=SECRET)


def test_the_flags_come_before_the_settings(home, selects):
    """All three of them, and a flag alone leaves the other settings in force."""
    home.configure('provider = "local"\nmodel = "test-model"\neffort = "low"\n' + LOCAL)
    flags = ("--provider", "ollama", "--model=my/own:7b", "--effort", "xhigh")
    told = selects(*flags)
    assert "model my/own:7b of provider ollama (openai-compatible), effort xhigh" in told
    told = selects("--model", "other", LOCAL_API_KEY=SECRET)
    assert "model other of provider local " in told
    told = selects("--provider", "offline")
    assert "model offline of provider offline (offline), effort low" in told


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("other", "model other of provider local "),
        ("local/other", "model other of provider local "),
        ("openai/gpt-of-tomorrow", "model gpt-of-tomorrow of provider openai "),
        ("anthropic/claude-opus-5.5", "model anthropic/claude-opus-5.5 of provider openrouter "),
        ("openrouter/a/b", "model a/b of provider openrouter "),
    ],
)
def test_a_model_finds_its_provider(home, selects, model, expected):
    """An exact id wherever it is unique, or the provider's name before it."""
    home.configure(LOCAL)
    keys = dict.fromkeys(("LOCAL_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"), SECRET)
    assert expected in selects("--model", model, **keys)


def test_a_model_of_several_providers_is_refused_with_all_of_them(home):
    """Each candidate is a line that can be given to --model."""
    home.configure(LOCAL + LOCAL.replace("local", "second"))
    assert refusal(home, "--model", "other") == (
        "--model 'other' is found in several providers; take one of these:",
        ["local/other", "second/other"],
    )


@pytest.mark.parametrize("args", [["--model", "test"], ["--provider", "local", "--model", "test"]])
def test_a_part_of_an_id_is_refused_with_the_close_ones(home, args):
    """It is not guessed."""
    home.configure(LOCAL)
    first, candidates = refusal(home, *args, LOCAL_API_KEY=SECRET)
    assert first.startswith("--model 'test' is not the exact id of a model")
    assert candidates == ["local/test-model"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--provider", "openai"], "provider 'openai' needs a key: set the environment variable"),
        (["--model", "anthropic/claude"], "provider 'anthropic' needs a key: set the environment"),
        (["--model", "other"], "provider 'local' needs a key: set the environment variable LOCAL_"),
        (["--provider", "nobody"], "--provider 'nobody' is not known; the providers are:"),
        (["--model", "a\nb"], r"--model 'a\nb' must be printable"),
        (["--effort", "extreme"], "--effort 'extreme' must be one of none, minimal, low, medium,"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_at_the_start(home, args, message):
    """The first line says what is wrong and what would be right."""
    home.configure(LOCAL)
    first, _ = refusal(home, *args)
    assert first.startswith(message)


def test_an_effort_that_a_model_does_not_take_is_refused(home):
    """As the file says it, and as the catalog says it."""
    home.configure(LOCAL)
    first, _ = refusal(home, "--model", "test-model", "--effort", "high", LOCAL_API_KEY=SECRET)
    assert first == "--effort 'high' must be one of low for model local/test-model"
    first, _ = refusal(home, "--provider", "openai", "--effort", "minimal", OPENAI_API_KEY=SECRET)
    assert first.startswith("--effort 'minimal' must be one of low, medium, high")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('model = "x"\nmax_sessions = true\n', "config.toml: max_sessions must be a whole number"),
        (
            "stream_idle_timeout_s = nan\n",
            "stream_idle_timeout_s must be a number of seconds above",
        ),
        ("providers = 3\n", "config.toml: providers must be a table, not 3"),
        (LOCAL + 'kind = "x"\n', "config.toml: is not TOML"),
        (LOCAL.replace("http://", "ssh://"), "providers.local.base_url must be an http or https"),
        (LOCAL.replace("LOCAL_API_KEY", SECRET), "providers.local.api_key_env must be the name of"),
        ("provider = \n", "config.toml: is not TOML: Invalid value (at line 1, column 12)"),
        ('provider = "nobody"\n', "the setting provider = 'nobody' is not known"),
        ('model = "nobody/m"\n', "the setting model = 'nobody/m' is not the exact id"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_wrong_configuration_is_refused_at_the_start(home, text, message):
    """The file and the key are named, and its secrets are not."""
    home.configure(text)
    first, _ = refusal(home)
    assert message in first


def test_a_configuration_that_is_no_text_file_is_refused(home):
    """Bytes that are not UTF-8, and a folder in its place."""
    home.configure("")
    file = home.config / "term2" / "config.toml"
    file.write_bytes(b'provider = "\xff"\n')
    assert refusal(home)[0] == f"{file}: is not UTF-8 (at line 1); save it as UTF-8"
    file.unlink()
    file.mkdir()
    assert refusal(home)[0].startswith(f"{file}: is not a file; move it away")


def test_an_unknown_key_is_warned_of_and_the_rest_holds(home, start, project):
    """A setting of another version does not stop the server."""
    home.configure('theme = "dark"\nmax_turn_requests = 5\n' + LOCAL + f'api_key = "{SECRET}"\n')
    client = start("--provider", "offline")
    client.initialize()
    client.still_works(client.new_session(project))
    client.eof()
    assert client.wait_exit() == 0
    for key in ("theme", "providers.local.api_key"):
        assert f"config.toml: unknown key {key};" in client.stderr
    assert SECRET not in client.stderr


def test_providers_of_the_file_that_cannot_be_used_are_told(home, selects):
    """The offline model answers, and standard error says why."""
    home.configure(LOCAL)
    assert "the offline model answers: provider 'local' needs a key" in selects()


def test_standard_input_is_not_read_for_a_model(home):
    """What the editor wrote is for the protocol: a refusal leaves every byte of it."""
    readable, writable = os.pipe()
    try:
        os.write(writable, b"1\ny\n")
        ended = subprocess.run(
            [*SERVE, "--model", "no-such-model"],
            stdin=readable,
            capture_output=True,
            check=False,
            cwd=SOURCE,
            env=home.environment(),
            timeout=DEADLINE_S,
        )
        assert ended.returncode == 1
        assert os.read(readable, 100) == b"1\ny\n"
    finally:
        os.close(readable)
        os.close(writable)


def test_the_network_is_not_used_to_choose(home, selects):
    """A provider without models takes the id as given; its server hears nothing of it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        home.configure(
            f'[providers.local]\nkind = "openai-compatible"\nbase_url = "http://127.0.0.1:{port}/v1"\n'
        )
        assert "model a/b of provider local " in selects("--model", "local/a/b")
        with pytest.raises(BlockingIOError):
            server.accept()


def test_nothing_of_this_is_loaded_before_initialize_unless_it_is_needed(home):
    """A key in the environment alone costs no time; a file costs no vendor's library."""
    command = (sys.executable, "-X", "importtime", "-m", "term2_acp", "acp")
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), SECRET)
    ended = run(home, command=command, **keys)
    assert ended.returncode == 0
    for module in ("term2_acp.config", "term2_acp.selection", "term2_acp.catalog", "cattrs"):
        assert not loaded(ended.stderr, module)
    home.configure('provider = "openai"\n')
    ended = run(home, command=command, **keys)
    assert ended.returncode == 0
    assert loaded(ended.stderr, "term2_acp.selection")
    for module in ("openai", "anthropic", "httpx"):
        assert not loaded(ended.stderr, module)


def loaded(importtime, module):
    """Whether a module is in what `python -X importtime` said."""
    return any(line.rpartition("|")[2].strip() == module for line in importtime.splitlines())
