"""Compaction: the conversation as a summary, when the window nears its end (spec section 2)."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import closing

from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.context import Past
from term2_acp.agent.model import (
    AssistantTurn,
    ModelMessage,
    ModelRequest,
    ProviderError,
    TextDelta,
    ToolResult,
    UserTurn,
)
from term2_acp.agent.ports import Provider
from term2_acp.agent.retry import Retries
from term2_acp.eventlog import Compacted

logger = logging.getLogger(__name__)

_CHARACTERS_PER_TOKEN = 3
_DEFAULT_WINDOW = 32_000
_LEAST_TRANSCRIPT = 4_000
_RESULT_CHARACTERS = 600
_REQUEST_CHARACTERS = 2_000
# With more than so much of requests, each is cut shorter, but none is left out.
_REQUESTS_CHARACTERS = 24_000
_MANY_REQUEST_CHARACTERS = 300
_SUMMARY_CHARACTERS = 12_000
_PATHS = 60
_LAST_RESULTS = 3
_INSTRUCTIONS = (
    "Summarize the work so far for whoever goes on with it. Keep: decisions and why, what is"
    " done, what is still open, what was learnt about the code, commands that matter. Leave out"
    " greetings and full file contents. At most 600 words."
)


def compact(
    provider: Provider, model: str, past: Past, window: int | None, cancel: CancelToken
) -> Compacted:
    """
    What stands for the past from now on.

    The user's requests, the touched files and the last results are kept by rule; the
    rest is the model's own summary.

    Raises:
        Cancelled: the turn was cancelled.
        ProviderError: the model could not be asked; nothing is lost.
    """
    touched = tuple(dict.fromkeys((*past.touched, *_touched(past.messages))))[-_PATHS:]
    parts = ["This conversation was compacted; this is what came before."]
    parts.append(_section("What the user asked, oldest first", _requests(past.requests)))
    summary = _ask(provider, model, past.messages, window, cancel)
    if summary:
        parts.append(_section("Summary", [summary[:_SUMMARY_CHARACTERS]]))
    parts.append(_section("Files that were touched", [f"- {path}" for path in touched]))
    parts.append(_section("Last results", _last_results(past.messages)))
    parts.append("The user's present request follows; go on with it from here.")
    text = "\n\n".join(part for part in parts if part)
    return Compacted(text, past.requests, touched)


def _ask(
    provider: Provider,
    model: str,
    messages: Sequence[ModelMessage],
    window: int | None,
    cancel: CancelToken,
) -> str:
    budget = max((window or _DEFAULT_WINDOW) * _CHARACTERS_PER_TOKEN // 2, _LEAST_TRANSCRIPT)
    transcript = "\n".join(_render(message) for message in messages)
    if len(transcript) > budget:
        # The beginning says what it is about, the end where it stands.
        head = budget // 4
        transcript = f"{transcript[:head]}\n[...]\n{transcript[-(budget - head) :]}"
    request = ModelRequest(model=model, system=_INSTRUCTIONS, messages=(UserTurn(text=transcript),))
    retries = Retries()
    while True:
        try:
            with closing(provider.stream(request, cancel)) as events:
                texts = [event.text for event in events if isinstance(event, TextDelta)]
        except ProviderError as error:
            if error.context_overflow:
                logger.warning("compacting without a summary by the model: %s", error.message)
                return ""
            retries.wait(error, cancel)
        else:
            return "".join(texts).strip()


def _section(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"## {title}", *lines]) if lines else ""


def _requests(requests: Sequence[str]) -> list[str]:
    long = sum(min(len(request), _REQUEST_CHARACTERS) for request in requests)
    limit = _REQUEST_CHARACTERS if long <= _REQUESTS_CHARACTERS else _MANY_REQUEST_CHARACTERS
    return [f"- {_cut(request, limit)}" for request in requests]


def _touched(messages: Sequence[ModelMessage]) -> list[str]:
    return [
        path
        for message in messages
        if isinstance(message, AssistantTurn)
        for call in message.tool_calls
        for path in _paths(call.arguments)
    ]


def _paths(arguments: str) -> list[str]:
    try:
        data = json.loads(arguments)
    except (ValueError, RecursionError):
        return []
    path = data.get("path") if isinstance(data, dict) else None
    return [path] if isinstance(path, str) else []


def _last_results(messages: Sequence[ModelMessage]) -> list[str]:
    results = [message for message in messages if isinstance(message, ToolResult)]
    return [
        f"- {result.name}: {_cut(result.text, _RESULT_CHARACTERS)}"
        for result in results[-_LAST_RESULTS:]
    ]


def _render(message: ModelMessage) -> str:
    match message:
        case UserTurn(text, attached):
            return f"USER: {text}\n{_cut(attached, _REQUEST_CHARACTERS)}"
        case AssistantTurn(text=text, tool_calls=calls):
            asked = "".join(f"\nCALL {call.name} {_cut(call.arguments, 400)}" for call in calls)
            return f"AGENT: {text}{asked}"
        case ToolResult(name=name, text=text):
            return f"RESULT {name}: {_cut(text, _RESULT_CHARACTERS)}"


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} [... {len(text) - limit} characters ...] {text[-half:]}"
