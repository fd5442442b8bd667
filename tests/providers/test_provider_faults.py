"""What each provider makes of a service that fails, in the user's words."""

from __future__ import annotations

import email.utils
import socket
import time
from typing import Any

import pytest

from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.model import Finish, ProviderError, TextDelta, UserTurn
from tests.models.http import Reply, Then, json_reply, server_sent_event, text_reply
from tests.models.steps import Call, ScriptedStep
from tests.providers.conftest import KEY, KEY_VARIABLE, Service, request


def _error_reply(status: int, message: str, *headers: tuple[str, str]) -> Reply:
    error = {"type": "some_error", "message": message, "code": None}
    return json_reply(status, {"type": "error", "error": error}, *headers)


def _fault(service: Service, *replies: Reply, **options: Any) -> ProviderError:
    service.server.reply(*replies)
    with pytest.raises(ProviderError) as caught:
        service.ask(**options)
    return caught.value


def test_a_refused_key_names_the_variable_to_check(service):
    """401 names the environment variable, repeats nothing and is not tried again."""
    fault = _fault(service, _error_reply(401, f"Incorrect API key provided: {KEY}"))
    assert KEY_VARIABLE in fault.message
    assert KEY not in fault.message
    assert not fault.retryable


def test_a_service_that_wants_a_key_says_where_to_name_one(service):
    """401 without a key variable points at the setting."""
    fault = _fault(service, _error_reply(401, "no key"), api_key=None, api_key_env=None)
    assert "api_key_env" in fault.message
    assert "[providers.scripted]" in fault.message


def test_a_forbidden_model_names_the_variable_and_the_reason(service):
    """403 names the variable and the service's reason, without any key in it."""
    fault = _fault(service, _error_reply(403, f"Region blocked for {KEY} and sk-other-abcdef123"))
    assert KEY_VARIABLE in fault.message
    assert "Region blocked" in fault.message
    assert KEY not in fault.message
    assert "abcdef123" not in fault.message
    assert not fault.retryable


def test_an_unknown_model_is_named(service):
    """404 names the model and the address."""
    fault = _fault(service, _error_reply(404, "model not found"))
    assert "'test-model'" in fault.message
    assert service.server.url in fault.message
    assert not fault.retryable


def test_a_rate_limit_is_retryable_after_the_seconds_that_it_says(service):
    """429 carries Retry-After in seconds."""
    fault = _fault(service, _error_reply(429, "slow down", ("Retry-After", "7")))
    assert (True, 7.0) == (fault.retryable, fault.retry_after_s)
    assert "slow down" in fault.message


def test_a_rate_limit_is_retryable_after_the_date_that_it_says(service):
    """Retry-After may be a date."""
    then = email.utils.formatdate(time.time() + 60, usegmt=True)
    fault = _fault(service, _error_reply(429, "slow down", ("Retry-After", then)))
    assert fault.retry_after_s is not None
    assert 0 < fault.retry_after_s <= 60


@pytest.mark.parametrize("status", [500, 502, 503, 529])
def test_a_fault_of_the_service_is_retryable(service, status):
    """5xx and overload are retryable; what the service says is passed on."""
    fault = _fault(service, _error_reply(status, "try later"))
    assert fault.retryable
    assert str(status) in fault.message
    assert "try later" in fault.message


def test_an_error_page_is_not_quoted(service):
    """A 503 in HTML is retryable, and no tag of it reaches the user."""
    page = "<html><body>Bad gateway</body></html>"
    fault = _fault(service, text_reply(503, page, "text/html"))
    assert fault.retryable
    assert "<" not in fault.message


def test_a_long_answer_is_cut(service):
    """At most a short line of an error is quoted, without line ends."""
    fault = _fault(service, _error_reply(400, "line\nafter\rline " + "x" * 5000))
    assert len(fault.message) < 400
    assert "line after line" in fault.message
    assert not fault.retryable


def test_an_endless_error_does_not_fill_the_memory(service):
    """An error body without an end is read up to a bound."""
    reply = Reply((b"x" * 60_000,) * 20 + (Then.STALL,), 400, "text/plain")
    assert "refused the request (400)" in _fault(service, reply).message


@pytest.mark.parametrize(
    "reply",
    [
        _error_reply(400, "This model's maximum context length is 4096 tokens."),
        json_reply(400, {"error": {"code": "context_length_exceeded", "message": "too much"}}),
        _error_reply(400, "prompt is too long: 210000 tokens > 200000 maximum"),
        json_reply(413, {"error": {"type": "request_too_large", "message": "too many bytes"}}),
    ],
)
def test_a_request_that_is_too_long_is_told_apart(service, reply):
    """Whatever the wording, the loop learns that the conversation is too long."""
    fault = _fault(service, reply)
    assert (True, False) == (fault.context_overflow, fault.retryable)


def test_a_redirect_is_not_followed_with_the_key(service):
    """A redirect names the new place, and the key does not go there."""
    there = "https://elsewhere.example/v1"
    fault = _fault(service, text_reply(307, "", "text/plain", ("Location", there)))
    assert there in fault.message
    assert "base_url" in fault.message
    assert 1 == len(service.server.requests)


def test_a_web_page_instead_of_a_stream_is_named(service):
    """A 200 in HTML says that something stands between."""
    fault = _fault(service, text_reply(200, "<html>Sign in</html>", "text/html; charset=utf-8"))
    assert "text/html" in fault.message
    assert "proxy" in fault.message
    assert not fault.retryable


def test_an_error_with_a_status_of_success_is_passed_on(service):
    """A 200 in JSON with an error is that error."""
    body = {"error": {"message": "no such deployment", "type": "invalid_request_error"}}
    fault = _fault(service, json_reply(200, body))
    assert "no such deployment" in fault.message
    assert not fault.retryable


def test_nothing_listens(service):
    """A refused connection is retryable and says where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(ProviderError) as caught:
        service.ask(base_url=url)
    assert caught.value.retryable
    assert url in caught.value.message
    assert "nothing listens there" in caught.value.message


@pytest.mark.parametrize("url", ["localhost:1/v1", "ftp://localhost/v1", "http://[::1"])
def test_a_malformed_address_is_named(service, url):
    """A base_url that is none says what it must begin with."""
    with pytest.raises(ProviderError) as caught:
        service.ask(base_url=url)
    assert "base_url" in caught.value.message
    assert not caught.value.retryable


def test_credentials_inside_the_address_stay_there(service):
    """A user and a password in base_url are in no text."""
    url = service.server.url.replace("//", "//user:hunter2@") + service.format.path
    fault = _fault(service, _error_reply(404, "no"), base_url=url)
    assert "hunter2" not in fault.message


@pytest.mark.parametrize("key", ["sk-test\r\nX-Evil: 1", "sk-tëst"])
def test_a_key_that_cannot_be_sent_is_refused_before(service, key):
    """A key with other characters is not sent, and not repeated."""
    with pytest.raises(ProviderError) as caught:
        service.ask(api_key=key)
    assert KEY_VARIABLE in caught.value.message
    assert "sk-t" not in caught.value.message
    assert [] == service.server.requests


def test_a_key_from_a_file_may_end_with_a_newline(service):
    """White space around a key is not part of it."""
    service.step(text="Hi")
    service.ask(api_key=f"{KEY}\n")
    assert f"Bearer {KEY}" == service.server.requests[0].headers["authorization"]


def test_no_key_is_sent_where_there_is_none(service, monkeypatch):
    """Without a key no vendor's variable is taken instead."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-meant-for-you")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-not-meant-for-you")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-meant-for-you")
    service.step(text="Hi")
    service.ask(api_key=None, api_key_env=None)
    assert "authorization" not in service.server.requests[0].headers
    assert "x-api-key" not in service.server.requests[0].headers


def test_the_headers_of_the_vendor_go_nowhere_else(service, monkeypatch):
    """What the environment gives the vendors' SDKs is not sent to other services."""
    for vendor in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{vendor}_CUSTOM_HEADERS", "X-Gateway: secret\nAuthorization: other")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin-secret")
    service.step(text="Hi")
    service.ask()
    sent = service.server.requests[0].headers
    assert f"Bearer {KEY}" == sent.pop("authorization")
    assert not any("secret" in value or "other" == value for value in sent.values())


def test_a_stream_cut_in_the_middle_of_a_text_broke_off(service):
    """What was shown stays shown; then the stream broke off, without a finish."""
    events = service.format.encode(ScriptedStep(text="Hello there"))
    service.stream(b"".join(_until(events, b"Hello")), Then.CUT)
    _assert_broken_off(service, shown="Hello ")


@pytest.mark.parametrize("then", [Then.CUT, Then.RESET])
def test_a_stream_cut_in_the_middle_of_a_call_broke_off(service, then):
    """The pieces of a call that came are not completed."""
    events = service.format.encode(ScriptedStep(calls=(Call.of("shell", command="touch A"),)))
    service.stream(b"".join(_until(events, b"command")), then)
    _assert_broken_off(service, shown="")


def test_a_stream_that_ends_in_order_without_its_end_broke_off(service):
    """An orderly end of the body is not the end of an answer."""
    events = service.format.encode(ScriptedStep(text="Hello there"))
    service.stream(b"".join(_until(events, b"Hello")))
    _assert_broken_off(service, shown="Hello ")


def test_an_empty_stream_broke_off(service):
    """Nothing at all is no answer."""
    service.stream()
    _assert_broken_off(service, shown="")


def test_a_connection_that_is_cut_before_any_answer_broke_off(service):
    """A service that hangs up without a word is retryable."""
    service.server.reply(Reply(before_headers=Then.CUT))
    _assert_broken_off(service, shown="")


@pytest.mark.parametrize(
    "garbage", [b"data: {nonsense\n\n", b"event: message_start\ndata: \xff\xfe\n\n"]
)
def test_events_that_cannot_be_read_are_a_fault(service, garbage):
    """Broken JSON and broken UTF-8 are named, and not tried again."""
    fault = _fault(service, Reply((b"event: x\n" + garbage,)))
    assert "cannot be read" in fault.message
    assert not fault.retryable


def test_comments_and_unknown_events_mean_nothing(service):
    """Keep-alive comments and events of later versions are passed over."""
    later = server_sent_event({"type": "later.thing", "choices": None}, "later.thing")
    service.stream(b": wait\n\n", later, *service.format.encode(ScriptedStep(text="Hello")))
    texts = [event.text for event in service.ask() if isinstance(event, TextDelta)]
    assert "Hello" == "".join(texts)


def _until(events: list[bytes], text: bytes) -> list[bytes]:
    """The events up to and with the first that has a text."""
    for index, event in enumerate(events):
        if text in event:
            return events[: index + 1]
    raise AssertionError(f"no event has {text!r}")


def _assert_broken_off(service: Service, *, shown: str) -> None:
    texts: list[str] = []
    with pytest.raises(ProviderError) as caught:
        for event in service.provider().stream(request(UserTurn("Hello")), CancelToken()):
            assert not isinstance(event, Finish)
            if isinstance(event, TextDelta):
                texts.append(event.text)
    assert shown == "".join(texts)
    assert "broke off" in caught.value.message
    assert caught.value.retryable
