"""JSON from a model, read as strictly as everybody else will read it again."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 100
"""Deeper values are text: they cost every reader a stack, and mean nothing to a tool."""


def loads(text: str) -> Any:
    """
    The value of a JSON text.

    Raises:
        ValueError: it is not JSON, has a number that is none (NaN, Infinity, 1e999), or is
            nested more than `MAX_DEPTH` levels. The message is for whoever sent it.
    """
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as error:
        message = f"not JSON at character {error.pos} ({error.msg})"
        raise ValueError(message) from None
    except RecursionError:
        message = f"nested more than {MAX_DEPTH} levels"
        raise ValueError(message) from None
    if _is_deeper(value, MAX_DEPTH):
        message = f"nested more than {MAX_DEPTH} levels"
        raise ValueError(message)
    return value


def _refuse(constant: str) -> NoReturn:
    message = f"{constant} is no JSON number"
    raise ValueError(message)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        message = f"{text[:40]} is too large for a number"
        raise ValueError(message)
    return number


def _is_deeper(value: Any, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        layer = [
            item
            for container in layer
            if isinstance(container, list | dict)
            for item in (container if isinstance(container, list) else container.values())
        ]
        if not layer:
            return False
    return True


def bounded(value: Any, limit: int) -> Any:
    """
    The value with its strings `shortened`, or the two ends of its text if it is still long.

    Long is more than four times the `limit` of one string, in characters.
    """
    short = shortened(value, limit)
    text = json.dumps(short, ensure_ascii=False)
    return short if len(text) <= 4 * limit else shortened(text, limit)


def shortened(value: Any, limit: int) -> Any:
    """The value with each string that is longer than `limit` characters cut in its middle."""
    if isinstance(value, str) and len(value) > limit:
        half = limit // 2
        return f"{value[:half]}[... {len(value) - 2 * half} characters ...]{value[-half:]}"
    if isinstance(value, list):
        return [shortened(item, limit) for item in value]
    if isinstance(value, dict):
        return {key: shortened(item, limit) for key, item in value.items()}
    return value
