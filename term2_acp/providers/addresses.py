"""Where a provider is when its settings do not say it."""

from __future__ import annotations

import os
from collections.abc import Mapping

_VENDORS = {
    "openai": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
}


def address_of(
    kind: str, base_url: str | None, environment: Mapping[str, str] | None = None
) -> str:
    """The address of a provider: its setting, else the vendor's variable, else the vendor's own."""
    if base_url or kind not in _VENDORS:
        return base_url or ""
    variable, default = _VENDORS[kind]
    return (os.environ if environment is None else environment).get(variable) or default
