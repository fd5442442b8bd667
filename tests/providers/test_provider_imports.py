"""What each provider loads: its own vendor's SDK, and nobody else's (spec section 2)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.harness.home import SOURCE

_SDKS = ("openai", "anthropic")


@pytest.mark.parametrize(
    ("modules", "loaded"),
    [
        (("faults", "refusals", "transport", "connection", "history", "asking", "variants"), ()),
        (("chat_messages", "responses_input", "messages_input", "offline"), ()),
        (("chat_completions", "responses"), ("openai",)),
        (("messages",), ("anthropic",)),
    ],
)
def test_only_the_sdk_that_is_used_is_loaded(modules, loaded):
    """A provider's module loads its SDK; what they share loads none."""
    imports = "; ".join(f"import term2_acp.providers.{module}" for module in modules)
    program = f"import sys; {imports}; print([sdk for sdk in {_SDKS} if sdk in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=SOURCE, capture_output=True, text=True, check=True
    )
    assert str(list(loaded)) == ran.stdout.strip()
