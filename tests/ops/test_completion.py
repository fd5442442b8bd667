"""`term2 completion SHELL`: scripts that the shells themselves run."""

from __future__ import annotations

import re
import subprocess

import pytest

from term2_acp.cli import USAGE
from term2_acp.completion import COMMANDS, SHELLS, script
from tests.harness.programs import program

ASK_BASH = """
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_term2
printf '%s\\n' "${COMPREPLY[@]}"
"""
# Fish has a way to ask; zsh shows them only to a person at a terminal.
CASES = [
    (["d"], ["doctor"]),
    (["acp", "--"], ["--provider", "--model", "--effort"]),
    (["acp", "--effort", ""], ["none", "minimal", "low", "medium", "high", "xhigh"]),
    (["acp", "--effort", "h"], ["high"]),
    (["acp", "--provider", "op"], ["openai", "openrouter"]),
    (["doctor", "-"], ["--json"]),
    (["completion", "f"], ["fish"]),
]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        *CASES,
        # How bash itself cuts --effort=h.
        (["acp", "--effort", "=", "h"], ["high"]),
        (["acp", "--effort", "="], ["none", "minimal", "low", "medium", "high", "xhigh"]),
        (["acp", "--model", ""], []),
        (["no-such", ""], []),
    ],
    ids=str,
)
def test_bash_offers_what_fits(words, offered):
    """A real bash reads the script and is asked for what it would show."""
    bash = program("bash")
    ended = subprocess.run(
        [bash, "--norc", "-uc", f"{script('bash')}{ASK_BASH}", "bash", "term2", *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ended.stderr == ""
    assert ended.stdout.split() == offered


def test_fish_offers_what_fits():
    """A real fish, where there is one."""
    fish = program("fish")
    for words, offered in CASES:
        line = " ".join(["term2", *words])
        ended = subprocess.run(
            [fish, "--no-config", "-c", f'{script("fish")}\ncomplete -C "{line}"'],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        found = [line.split("\t")[0] for line in ended.stdout.splitlines()]
        assert sorted(found) == sorted(offered)


def test_zsh_reads_its_script():
    """A real zsh, where there is one, has the function and knows the program."""
    zsh = program("zsh")
    code = f"autoload -Uz compinit; compinit -D\n{script('zsh')}\nprint $_comps[term2]"
    ended = subprocess.run(
        [zsh, "-f", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert (ended.stdout, ended.stderr) == ("_term2\n", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_of_the_usage_is_completed(shell):
    """Whoever adds a command to `term2 --help` adds it to `completion.COMMANDS` too."""
    used = re.findall(r"(?:usage:|\n      ) term2 ([a-z]+)", USAGE)
    assert used == [c.name for c in COMMANDS if not c.name.startswith("-")]
    options = set(re.findall(r"--[a-z]+", USAGE))
    known = {c.name for c in COMMANDS} | {o.name for c in COMMANDS for o in c.options}
    assert options <= known
    text = script(shell)
    for name in known:
        assert name.removeprefix("--") in text
