"""Error answers of every shape, read into values."""

from __future__ import annotations

import email.utils
import time

import httpx2
import pytest

from term2_acp.providers.refusals import (
    Refusal,
    describe_error,
    is_context_overflow,
    read_refusal,
    read_retry_after,
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c"}}, ("c t", "m")),
        ({"error": {"message": "m", "type": "t", "code": None}}, ("t", "m")),
        ({"type": "error", "error": {"type": "t", "message": "m"}}, ("t", "m")),
        ({"error": {"message": "m", "code": 502, "metadata": {}}}, ("502", "m")),
        ({"error": "m"}, ("", "m")),
        ({"object": "error", "message": "m", "type": "t"}, ("t", "m")),
        ({"detail": "m"}, ("", "m")),
        ({"detail": [{"msg": "m"}]}, ("", '[{"msg": "m"}]')),
        ([{"error": {"code": 400, "message": "m", "status": "S"}}], ("400", "m")),
        ("m", ("", "m")),
        ({}, ("", "")),
        ([], ("", "")),
        (None, ("", "")),
        (3, ("", "")),
    ],
)
def test_errors_of_every_shape(body, expected):
    """OpenAI, Anthropic, OpenRouter, vLLM, FastAPI, Google and plain text."""
    assert expected == describe_error(body)


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in",
        "Your input exceeds the context window of this model. Please adjust your input",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
        "the request exceeds the available context size (4096 tokens), try increasing it",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "This endpoint's maximum context length is 131072 tokens. However, you requested about",
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is",
        "The number of tokens to keep is greater than the context length",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        "Please reduce the length of the messages or completion.",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "Input is too long for requested model.",
        "Your request exceeded model token limit: 262144 (requested: 300000)",
        "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
        "the input length exceeds the context length",
    ],
)
def test_requests_that_are_too_long(message):
    """Every service's way to say that the conversation is too long."""
    assert is_context_overflow(Refusal(400, message))
    assert not is_context_overflow(Refusal(429, message))


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(400, "max_tokens: 64000 > 32000, which is the maximum allowed number of output"),
        Refusal(400, "messages: roles must alternate"),
        Refusal(400, "tools.0.name: String should have at most 64 characters"),
        Refusal(404, "context window"),
        Refusal(500, "Internal server error"),
    ],
)
def test_requests_that_are_wrong_otherwise(refusal):
    """What is refused for another reason does not compact a conversation."""
    assert not is_context_overflow(refusal)


def test_kinds_that_say_it():
    """The code alone is enough, and so is the status for too many bytes."""
    assert is_context_overflow(Refusal(400, "", "context_length_exceeded"))
    assert is_context_overflow(Refusal(400, "", "exceed_context_size_error"))
    assert is_context_overflow(Refusal(413, "Request too large"))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_how_long_to_wait(headers, expected):
    """Seconds, milliseconds, dates that are past, and nonsense."""
    assert expected == read_retry_after(headers)


def test_a_date_in_the_future_is_the_time_until_then():
    """A date is read as what is left until it."""
    then = email.utils.formatdate(time.time() + 100, usegmt=True)
    pause = read_retry_after({"retry-after": then})
    assert pause is not None
    assert 90 < pause <= 100


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        ("text/plain", b"no such thing", "no such thing"),
        ("application/json", b'{"error": {"message": "no"}}', "no"),
        ("application/json", b'{"error": {"mess', '{"error": {"mess'),
        ("text/html", b"no", ""),
        ("text/plain", b"  <!doctype html>", ""),
        ("application/json", b"[" * 50_000, "[" * 50_000),
        ("text/plain", b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_answers_of_every_kind(content_type, body, message):
    """What is readable is taken; pages are not."""
    response = httpx2.Response(400, headers={"content-type": content_type}, content=body)
    response.read()
    assert message == read_refusal(response).message
