"""
Write docs/configuration.md from the classes of the configuration, the catalog and the schema.

    .venv/bin/python scripts/make_configuration_reference.py [--check]

With --check nothing is written, and the exit status is 1 if the page is not up to date.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from term2_acp.catalog import Provider, packaged
from term2_acp.config import MEANING, Config, ModelSettings, ProviderSettings
from term2_acp.providers.addresses import address_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
WORDS = {str: "string", int: "whole number", float: "number"}

HEAD = """\
# Configuration

<!-- Made by scripts/make_configuration_reference.py from term2_acp/config.py and the catalog;
     change those and run it again. -->

`config.toml` lies in `$XDG_CONFIG_HOME/term2/`: `~/.config/term2/` on Linux,
`~/Library/Application Support/term2/` on macOS. It is read once, when `term2 acp` starts, and all
of it is optional. A wrong value stops the program, which names the key and says what would be
right; an unknown key is warned of on stderr. `term2 doctor` reads the file in the same way and
tells what it means.

```toml
provider = "local"            # what --provider, --model and --effort override
model = "test-model"
effort = "high"
max_turn_requests = 100       # model calls in one turn
max_sessions = 128            # open sessions in one process
stream_idle_timeout_s = 120   # silence of the model that ends a turn

[providers.local]
kind = "openai-compatible"
base_url = "http://127.0.0.1:8080/v1"
api_key_env = "LOCAL_API_KEY" # the name of a variable, not the key
models = [
    { id = "test-model", context_window = 128000 },
    { id = "small-model", context_window = 32000, efforts = [] },
]
```
"""

TAIL = """\
## Where else something is set

- The flags `--provider`, `--model` and `--effort` of `term2 acp` come before the file.
- Keys are only in environment variables, never in the file.
- [Variables for diagnostics](ops.md#diagnostics): `TERM2_LOG` and others.
- `XDG_CONFIG_HOME` and `XDG_STATE_HOME` move the program's own folders.
- `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` name proxies; this machine itself is
  always reached directly. `SSL_CERT_FILE` and `SSL_CERT_DIR` name certificates.
- Nothing turns off the questions or the sandbox.
"""


def main(arguments: list[str]) -> int:
    """Write or check the page; the exit status."""
    text = page()
    if arguments == ["--check"]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        sys.stderr.write(f"{PAGE} is not up to date: run {Path(__file__).name}\n")
        return 1
    if arguments:
        sys.stderr.write("usage: make_configuration_reference.py [--check]\n")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


def page() -> str:
    """The whole page."""
    parts = [
        HEAD,
        "## Settings\n",
        "\n".join(table(Config)),
        "\n## Settings of a provider: `[providers.NAME]`\n",
        "A name has letters, digits and any of `._+@-`, and begins with a letter or a digit.\n",
        "\n".join(table(ProviderSettings)),
        "\n## Settings of a model: an item of `models`\n",
        "\n".join(table(ModelSettings)),
        "\n## Built-in providers\n",
        "\n".join(providers()),
        "",
        TAIL,
    ]
    return "\n".join(parts)


def table(cls: type[attrs.AttrsInstance]) -> Iterator[str]:
    """A row a setting; one without its meaning is an error."""
    yield "| key | type | default | must be | meaning |"
    yield "|---|---|---|---|---|"
    hints = typing.get_type_hints(cls)
    for field in attrs.fields(cls):
        right = getattr(field.validator, "right", "")
        cells = (
            f"`{field.name}`",
            kind(hints[field.name]),
            default(field),
            right,
            field.metadata[MEANING],
        )
        yield f"| {' | '.join(cells)} |"


def kind(hint: Any) -> str:
    """A type in the words of TOML."""
    if isinstance(hint, types.UnionType):
        (inner,) = [part for part in typing.get_args(hint) if part is not types.NoneType]
        return kind(inner)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        item = "tables" if attrs.has(arguments[0]) else f"{kind(arguments[0])}s"
        return f"list of {item}"
    return "tables" if origin is dict else WORDS[hint]


def default(field: attrs.Attribute[Any]) -> str:
    """What holds if a key is left out."""
    if field.default is attrs.NOTHING:
        return "required"
    if field.default is None or isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
        return ""
    return f"`{field.default:g}`"


def providers() -> Iterator[str]:
    """A row a provider that needs no table."""
    yield "| name | kind | address | key from | model by default |"
    yield "|---|---|---|---|---|"
    for provider in packaged().values():
        yield f"| {' | '.join(described(provider))} |"


def described(provider: Provider) -> Iterator[str]:
    """The cells of a provider."""
    yield f"`{provider.name}`"
    yield f"`{provider.kind}`"
    address = address_of(provider.kind, provider.base_url, {})
    yield f"`{address}`" if address else ""
    yield f"`{provider.api_key_env}`" if provider.api_key_env else ""
    yield f"`{provider.default}`" if provider.default else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
