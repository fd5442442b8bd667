"""The windows of models as the `/models` of a server tells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# LM Studio (as loaded), vLLM, OpenRouter, Groq, Mistral; what is in force before what could be.
_FIELDS = (
    "loaded_context_length",
    "max_model_len",
    "context_length",
    "context_window",
    "max_context_length",
)
# llama.cpp keeps its figures one level deeper; OpenRouter repeats its own there.
_NESTED = (("meta", "n_ctx"), ("meta", "n_ctx_train"), ("top_provider", "context_length"))
# The key of a server's only model.
_ANY = ""


def read_windows(answer: Any) -> dict[str, int]:
    """The windows by model id, in tokens, as far as an answer of any shape has them."""
    entries = answer.get("data") if isinstance(answer, dict) else answer
    if not isinstance(entries, list):
        return {}
    described = [entry for entry in entries if isinstance(entry, dict)]
    windows: dict[str, int] = {}
    for entry in described:
        window = _window(entry)
        if window is not None and isinstance(entry.get("id"), str):
            windows[entry["id"]] = window
            if len(described) == 1:
                windows[_ANY] = window
    return windows


def window_of(model: str, windows: Mapping[str, int]) -> int | None:
    """The window of one model; a server that has a single one serves it for any id."""
    return windows.get(model, windows.get(_ANY))


def _window(entry: Mapping[str, Any]) -> int | None:
    values = [entry.get(field) for field in _FIELDS]
    for outer, inner in _NESTED:
        nested = entry.get(outer)
        if isinstance(nested, dict):
            values.append(nested.get(inner))
    return next((value for value in values if type(value) is int and value > 0), None)
