"""
Check the form of the model catalog; exit status 1 and a line for each problem if it is wrong.

    python scripts/check_catalog.py [FILE]

Without FILE it is the packaged `term2_acp/catalog.json`. Every figure must be a number of
tokens or null, every effort one of ours, every model must name where its figures come from,
and each provider must have a default that it lists.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CATALOG = Path(__file__).resolve().parents[1] / "term2_acp" / "catalog.json"

PROVIDERS = ["openai", "anthropic", "openrouter", "ollama", "offline"]
KINDS = ["openai-compatible", "openai", "anthropic", "offline"]
ID_FORMS = ["listed", "vendor/model", "any"]
EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh"]
TOP = {"date", "note", "providers"}
PROVIDER = {"kind", "base_url", "api_key_env", "ids", "default", "models"}
MODEL = {"id", "context_window", "max_output_tokens", "efforts", "sources"}


def main(arguments: list[str]) -> int:
    """Check one file; the exit status."""
    path = Path(arguments[0]) if arguments else CATALOG
    try:
        catalog = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique)
        found = list(problems(catalog))
    except (OSError, ValueError) as error:
        found = [str(error)]
    for problem in found:
        print(f"{path}: {problem}", file=sys.stderr)
    return 1 if found else 0


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """
    The members of an object.

    Raises:
        ValueError: one comes twice.
    """
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError(f"a member comes twice among {[name for name, _ in pairs]}")
    return members


def problems(catalog: Any) -> Iterator[str]:
    """What is wrong with a catalog."""
    if not has_members(catalog, TOP):
        yield f"the catalog must have exactly {sorted(TOP)}"
        return
    try:
        dt.date.fromisoformat(catalog["date"])
    except (TypeError, ValueError):
        yield f"date must be YYYY-MM-DD, not {catalog['date']!r}"
    if not is_list_of_texts(catalog["note"]):
        yield "note must be a list of lines"
    if not has_members(catalog["providers"], set(PROVIDERS)):
        yield f"providers must have exactly {PROVIDERS}"
        return
    if list(catalog["providers"]) != PROVIDERS:
        yield f"providers must come in this order, as keys are looked for in it: {PROVIDERS}"
    for name, provider in catalog["providers"].items():
        for problem in provider_problems(provider):
            yield f"{name}: {problem}"


def provider_problems(provider: Any) -> Iterator[str]:
    """What is wrong with one provider."""
    if not has_members(provider, PROVIDER):
        yield f"must have exactly {sorted(PROVIDER)}"
        return
    if provider["kind"] not in KINDS:
        yield f"kind must be one of {KINDS}"
    if provider["ids"] not in ID_FORMS:
        yield f"ids must be one of {ID_FORMS}"
    if not is_text_or_null(provider["base_url"], r"https?://\S+"):
        yield "base_url must be an address or null"
    if provider["kind"] == "openai-compatible" and provider["base_url"] is None:
        yield "base_url is needed by kind openai-compatible"
    if not is_text_or_null(provider["api_key_env"], r"[A-Z][A-Z0-9_]*"):
        yield "api_key_env must be the name of a variable or null"
    models = provider["models"]
    if not isinstance(models, list) or not all(has_members(model, MODEL) for model in models):
        yield f"models must be a list of objects with exactly {sorted(MODEL)}"
        return
    ids = [model["id"] for model in models]
    if provider["default"] not in ids:
        yield "default must be one of the models"
    for model in models:
        if ids.count(model["id"]) > 1:
            yield f"{model['id']} is listed twice"
        for problem in model_problems(model, sourced=provider["kind"] != "offline"):
            yield f"{model['id']}: {problem}"


def model_problems(model: dict[str, Any], *, sourced: bool) -> Iterator[str]:
    """What is wrong with one model."""
    if not isinstance(model["id"], str) or not re.fullmatch(r"\S+", model["id"]):
        yield "id must be a text without spaces"
    window, output, efforts = (
        model[key] for key in ("context_window", "max_output_tokens", "efforts")
    )
    for key, tokens in (("context_window", window), ("max_output_tokens", output)):
        if tokens is not None and (type(tokens) is not int or tokens < 1):
            yield f"{key} must be a number of tokens or null"
    if type(window) is int and type(output) is int and output > window:
        yield "max_output_tokens must fit into context_window"
    ordered = isinstance(efforts, list) and efforts == [w for w in EFFORTS if w in efforts]
    if efforts is not None and not ordered:
        yield f"efforts must be null or words out of {EFFORTS}, in that order"
    sources = model["sources"]
    if not is_list_of_texts(sources) or not all(s.startswith("https://") for s in sources):
        yield "sources must be a list of https addresses"
    elif sourced and not sources:
        yield "sources must say where the model and its figures come from"


def has_members(value: Any, names: set[str]) -> bool:
    """Whether a value is an object with exactly these members."""
    return isinstance(value, dict) and set(value) == names


def is_list_of_texts(value: Any) -> bool:
    """Whether a value is a list of texts that are not empty."""
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def is_text_or_null(value: Any, pattern: str) -> bool:
    """Whether a value is null or a text of that form."""
    return value is None or (isinstance(value, str) and re.fullmatch(pattern, value) is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
