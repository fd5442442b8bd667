"""Error answers of model services as values, whatever shape the service gave them."""

from __future__ import annotations

import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from typing import Any

import attrs
import httpx2

# How the services say that a request is longer than the window, or their limit of bytes:
# OpenAI, DeepSeek, vLLM, OpenRouter, Mistral; Anthropic; llama.cpp; LM Studio; Gemini; xAI;
# SGLang; Bedrock; Kimi; TGI; Groq.
_OVERFLOW = re.compile(
    r"""(?ix)
    context_length_exceeded | context\s+length\s+exceeded | exceed_context_size
    | maximum\s+(?:context|model|prompt)\s+length | exceeds?\s+(?:the\s+)?(?:available\s+)?context
    | exceeds?\s+the\s+(?:model'?s?\s+)?(?:maximum\s+)?context\s+(?:length|window|size)
    | context\s+(?:window|length|size)\s+(?:exceeded|exceeds|overflows?)
    | prompt\s+is\s+too\s+long | input\s+is\s+too\s+long | input\s+length\s+and\s+.?max_tokens
    | larger\s+than\s+(?:the\s+)?context | longer\s+than\s+the\s+model'?s?\s+context
    | greater\s+than\s+the\s+context\s+length | context\s+the\s+overflows
    | input\s+token\s+count.{0,40}exceeds | exceeded\s+model\s+token\s+limit
    | prompt\s+token\s+count.{0,40}exceeds | too\s+large\s+for\s+model\s+with
    | inputs.{0,3}\s+tokens\s+\+\s+.?max_new_tokens | reduce\s+the\s+length\s+of\s+the\s+messages
    """
)
# These never say that the request is too long, whatever their text mentions.
_NOT_ABOUT_LENGTH = frozenset({401, 402, 403, 404, 429})


@attrs.frozen
class Refusal:
    """
    An error answer.

    Args:
        status: of HTTP, or the one that fits.
        message: what the service says, any length; empty if it says nothing readable.
        kind: the service's own words for the error, between blanks.
        retry_after_s: the pause that it asks for.
    """

    status: int
    message: str
    kind: str = ""
    retry_after_s: float | None = None


def read_refusal(response: httpx2.Response) -> Refusal:
    """Read an error answer whose body was read already, as far as it makes sense."""
    if response.is_redirect:
        return Refusal(response.status_code, response.headers.get("location", ""))
    content_type = response.headers.get("content-type", "").lower()
    text = response.text if response.is_stream_consumed else ""
    kind, message = "", ""
    try:
        kind, message = describe_error(json.loads(text))
    except (ValueError, RecursionError):
        if "html" not in content_type and not text.lstrip().startswith("<"):
            message = text
    return Refusal(response.status_code, message, kind, read_retry_after(response.headers))


def describe_error(body: Any) -> tuple[str, str]:
    """
    The kind and the message of a decoded error body; empty where there is none.

    The kind is the error's code, which some services have as a number, and its type.
    """
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        return "", body
    if not isinstance(body, dict):
        return "", ""
    error = body.get("error")
    if isinstance(error, dict | str):
        kind, message = describe_error(error)
        return kind, message
    words = (body.get("code"), body.get("type"))
    kind = " ".join(str(word) for word in words if isinstance(word, str | int) and word)
    detail = body.get("message", body.get("detail", ""))
    return kind, detail if isinstance(detail, str) else json.dumps(detail)


def is_context_overflow(refusal: Refusal) -> bool:
    """Whether a request was refused because it is too long."""
    if refusal.status in _NOT_ABOUT_LENGTH:
        return False
    if refusal.status == 413:
        return True
    return _OVERFLOW.search(f"{refusal.kind} {refusal.message}") is not None


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """The pause that `Retry-After` asks for, in seconds; also from its form as a date."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
