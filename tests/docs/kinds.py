"""
How a block of each kind is tried.

Whoever writes a block of a new kind adds a function here, or lists the block in
`not_run.py` with the reason.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from term2_acp import config_file, selection
from tests.docs.blocks import ROOT, Block
from tests.harness.client import Client
from tests.harness.home import SOURCE, Home

DEADLINE_S = 60
EXAMPLE = "/path/to/term2/.venv/bin/term2"
BRACKETS = {"(": ")", "[": "]", "{": "}"}


def configuration(block: Block, home: Home) -> None:
    """A `toml` block is a whole `config.toml`: without a warning, and with a model by it."""
    path = home.root / "config.toml"
    path.write_text(block.text, encoding="utf-8")
    settings, warnings = config_file.load(str(path))
    assert warnings == []
    keys = {
        provider.api_key_env: "key"
        for provider in settings.providers.values()
        if provider.api_key_env
    }
    usual = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"), "key")
    assert selection.select(settings, environment=keys | usual).model


def json_value(block: Block, home: Home) -> None:
    """A `json` block is one value, without comments; one for an editor starts term2."""
    json.loads(block.text)
    if EXAMPLE in block.text:
        starts_term2(block, home)


def editor_settings(block: Block, home: Home) -> None:
    """A block in an editor's own language closes what it opens, and starts term2."""
    opened = []
    for sign in re.sub(r'"(\\.|[^"\\])*"', "", block.text):
        if sign in BRACKETS.values():
            assert opened, sign
            assert BRACKETS[opened.pop()] == sign
        elif sign in BRACKETS:
            opened.append(sign)
    assert opened == []
    starts_term2(block, home)


def starts_term2(block: Block, home: Home) -> None:
    """The command and the arguments that the block has are those of a server."""
    words = re.findall(r'"((?:\\.|[^"\\])*)"', block.text)
    after = words[words.index(EXAMPLE) + 1 :]
    # Between them there may be the name of the setting that the arguments have.
    arguments = [word for word in after[:2] if word == "acp"]
    client = Client(home, command=[sys.executable, "-m", "term2_acp", *arguments])
    try:
        assert client.initialize(1)["protocolVersion"] == 1
    finally:
        client.close()


def json_lines(block: Block, _home: Home) -> None:
    """A `jsonl` block is a value a line."""
    for line in block.text.splitlines():
        json.loads(line)


def shell(block: Block, home: Home) -> None:
    """
    An `sh` block runs to its end with exit status 0, in a project of its own.

    `term2` is on PATH and in `.venv/bin`, and `scripts` is there, as in a checkout.
    """
    run(["/bin/sh", "-eu", "-c", block.text], home)


def python(block: Block, home: Home) -> None:
    """A `python` block is a whole program that ends with exit status 0."""
    run([sys.executable, "-c", block.text], home)


def text(block: Block, home: Home) -> None:
    """
    A `text` block is shown and not run: a picture, or what a program says.

    With `prompt` after it, it is what a person writes to the offline model, and each
    line must be obeyed.
    """
    assert block.role in ("", "prompt"), f"text may be followed by `prompt`, not {block.role!r}"
    if block.role == "prompt":
        prompt(block, home)


def prompt(block: Block, home: Home) -> None:
    client = Client(home)
    try:
        client.initialize()
        client.permissions.allow_all()
        # What a new user stands in has nothing that an example could need.
        project = home.root / "empty"
        project.mkdir()
        turn = client.run(client.new_session(project), block.text)
        assert turn.stop_reason == "end_turn"
        assert turn.calls
        assert {call["status"] for call in turn.calls} == {"completed"}, turn.text
        exits = [u.body["exitStatus"] for u in turn.updates if u.body.get("exitStatus")]
        assert {status["exitCode"] for status in exits} <= {0}, exits
    finally:
        client.close()


def run(argv: list[str], home: Home) -> None:
    """Run a program in a scratch project, with scratch folders of ours."""
    folder = checkout(home)
    ended = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        env=home.environment(PATH=f"{folder}/.venv/bin:/usr/local/bin:/usr/bin:/bin"),
        timeout=DEADLINE_S,
    )
    assert ended.returncode == 0, f"status {ended.returncode}\n{ended.stdout}{ended.stderr}"
    assert "Traceback" not in ended.stderr


def checkout(home: Home) -> Path:
    """A small project that looks like this repository to who follows the documents."""
    folder = home.project("checkout")
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, words in (("term2", "-m term2_acp"), ("python", ""), ("python3", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (programs / name).chmod(0o755)
    (folder / "scripts").symlink_to(ROOT / "scripts")
    assert SOURCE == ROOT
    return folder


KINDS: dict[str, Callable[[Block, Home], None]] = {
    "toml": configuration,
    "json": json_value,
    "jsonl": json_lines,
    "sh": shell,
    "python": python,
    "lua": editor_settings,
    "elisp": editor_settings,
    "text": text,
}
