"""Scripts that complete the words of the command line in a shell (`term2 completion SHELL`)."""

from __future__ import annotations

import attrs

from term2_acp.config import BUILTIN_PROVIDERS, EFFORTS


@attrs.frozen
class Option:
    """
    An option of a command.

    Args:
        words: what its value may be; empty where nobody can tell. None: it takes no value.
    """

    name: str
    meaning: str
    words: tuple[str, ...] | None = None


@attrs.frozen
class Command:
    """A command: its options, or the words of its one argument."""

    name: str
    meaning: str
    options: tuple[Option, ...] = ()
    words: tuple[str, ...] = ()


_CHOICE = (
    Option("--provider", "a provider of the configuration", BUILTIN_PROVIDERS),
    Option("--model", "an exact model id, or PROVIDER/MODEL", ()),
    Option("--effort", "how much the model thinks", EFFORTS),
)
SHELLS = ("bash", "zsh", "fish")
COMMANDS = (
    Command("acp", "serve the Agent Client Protocol on stdin and stdout", _CHOICE),
    Command("chat", "talk with the agent in this terminal", _CHOICE),
    Command(
        "sessions",
        "look after the stored sessions",
        words=("list", "show", "export", "delete", "prune"),
    ),
    Command(
        "doctor",
        "check configuration, provider, sandbox and store",
        (Option("--json", "the report for machines"),),
    ),
    Command("completion", "print a script that completes these words", words=SHELLS),
    Command("--version", "print the version"),
    Command("--help", "print the usage"),
)
"""Every command of `term2 --help`, in its order."""


def script(shell: str) -> str:
    """The script for one of `SHELLS`, to be read by it at its start."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()


def _bash() -> str:
    options = "\n".join(
        f"        {command.name}) words='{_words(command)}' ;;" for command in COMMANDS
    )
    values = "\n".join(
        f"        {option.name}) COMPREPLY=($(compgen -W '{' '.join(option.words)}' -- \"$word\"));"
        " return ;;"
        for option in _options()
        if option.words is not None
    )
    return f"""\
# bash completion of term2; read it in ~/.bashrc: source <(term2 completion bash)
_term2() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
    local words=
    COMPREPLY=()
    # Bash takes the equals sign of --option=value for a word.
    if [[ $before == = ]]; then before=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
    if [[ $word == = ]]; then word=; fi
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W '{" ".join(command.name for command in COMMANDS)}' -- "$word"))
        return
    fi
    case $before in
{values}
    esac
    case ${{COMP_WORDS[1]}} in
{options}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -F _term2 term2
"""


def _words(command: Command) -> str:
    return " ".join([*(option.name for option in command.options), *command.words])


def _options() -> list[Option]:
    """Every option once; one of a name means the same in all commands."""
    return list({option.name: option for c in COMMANDS for option in c.options}.values())


def _zsh() -> str:
    commands = "\n".join(f"        '{_zsh_text(c.name)}:{_zsh_text(c.meaning)}'" for c in COMMANDS)
    cases = []
    for command in COMMANDS:
        specs = [_zsh_option(option) for option in command.options]
        if command.words:
            specs.append(f"'1:word:({' '.join(command.words)})'")
        if specs:
            cases.append(f"        {command.name}) _arguments {' '.join(specs)} ;;")
    listed = "\n".join(cases)
    return f"""\
#compdef term2
# zsh completion of term2; put it into a folder of $fpath as _term2, or read it in ~/.zshrc
# after compinit: source <(term2 completion zsh)
_term2() {{
    local -a commands=(
{commands}
    )
    if ((CURRENT == 2)); then
        _describe command commands
        return
    fi
    local name=$words[2]
    shift words
    ((CURRENT--))
    case $name in
{listed}
    esac
}}
if [[ $funcstack[1] == _term2 ]]; then
    _term2 "$@"
else
    compdef _term2 term2
fi
"""


def _zsh_text(text: str) -> str:
    return text.replace(":", r"\:")


def _zsh_option(option: Option) -> str:
    if option.words is None:
        return f"'{option.name}[{option.meaning}]'"
    values = f"({' '.join(option.words)})" if option.words else ""
    return f"'{option.name}[{option.meaning}]:value:{values}'"


def _fish() -> str:
    lines = [
        "# fish completion of term2; save it as ~/.config/fish/completions/term2.fish",
        "complete -c term2 -f",
    ]
    for command in COMMANDS:
        lines.append(
            f"complete -c term2 -n __fish_use_subcommand -a '{command.name}' -d '{command.meaning}'"
        )
        here = f"-n '__fish_seen_subcommand_from {command.name}'"
        lines += [
            f"complete -c term2 {here} -l {option.name.removeprefix('--')} {_fish_values(option)}"
            f"-d '{option.meaning}'"
            for option in command.options
        ]
        if command.words:
            lines.append(f"complete -c term2 {here} -a '{' '.join(command.words)}'")
    return "\n".join(lines) + "\n"


def _fish_values(option: Option) -> str:
    if option.words is None:
        return ""
    return f"-x -a '{' '.join(option.words)}' " if option.words else "-x "
