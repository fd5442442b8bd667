"""
What went wrong with a model service, in words for the person at the editor.

Every fault says its cause and what to do. No text has a key in it or more of an
answer than one short line. What may be retried is decided in spec section 2.
"""

from __future__ import annotations

import re

import attrs
import httpx2

from term2_acp.agent.model import ProviderError
from term2_acp.providers.refusals import Refusal, is_context_overflow, read_refusal
from term2_acp.surrogates import replace_lone_surrogates

_MAX_QUOTED = 200
# Also with stars for its middle, as the vendors themselves quote a key.
_KEY_SHAPE = re.compile(
    r"(?i)\b(?:sk|pk|rk|gsk|xai|hf|nvapi|pplx)[-_](?=[\w.-]*[\d*])[\w*.-]{6,}"
    r"|\bAIza[\w-]{20,}|\bbearer\s+\S+"
)
_CONTROL = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]+")

# Kinds of errors that arrive inside a stream, by the status that they would have had.
_KIND_STATUS = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "overloaded_error": 529,
}


@attrs.frozen
class Service:
    """
    Whom the faults of one provider speak of.

    Args:
        name: the provider as the user knows it.
        address: where it is, for texts.
        key_variable: the environment variable with its key, if it has one.
        secret: the key, so that no text repeats it.
    """

    name: str
    address: str
    key_variable: str | None = None
    secret: str | None = attrs.field(default=None, repr=False)

    @classmethod
    def at(cls, name: str, base_url: str, api_key: str | None, key_variable: str | None) -> Service:
        """Describe a service; credentials inside its URL are left out of `address`."""
        scheme, separator, rest = base_url.partition("://")
        host, slash, path = rest.partition("/")
        address = f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"
        return cls(name, address, key_variable, api_key.strip() if api_key else None)

    def key_header(self) -> dict[str, str]:
        """The header with the key, if there is one."""
        return {"Authorization": f"Bearer {self.secret}"} if self.secret else {}

    def check_key(self) -> None:
        """
        Raises:
            ProviderError: the key cannot be sent in a header.
        """
        if self.secret and not (self.secret.isascii() and self.secret.isprintable()):
            raise ProviderError(
                f"The API key of {self.name} has characters that no key has. {self.key_advice}"
            )

    def quote(self, text: str) -> str:
        """Another's words on one short line, without anything like a key."""
        if self.secret:
            text = text.replace(self.secret, "[key]")
        text = _KEY_SHAPE.sub("[key]", text)
        text = _CONTROL.sub(" ", replace_lone_surrogates(text)).strip()
        return text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 1] + "…"

    @property
    def key_advice(self) -> str:
        """What to do about the key."""
        if self.key_variable:
            return f"Check the environment variable {self.key_variable}."
        return f"Name the variable with the key: api_key_env under [providers.{self.name}]."

    def refused(self, refusal: Refusal, model: str) -> ProviderError:
        """The fault for a request that was answered with an error."""
        status = refusal.status
        said = self.quote(refusal.message)
        is_redirect = 300 <= status < 400
        words = f"{' with a redirect to' if is_redirect else ' and said:'} {said}" if said else ""
        if is_context_overflow(refusal):
            return ProviderError(
                f"The conversation is too long for {model} at {self.name}{words}. Start a new"
                " session, or give the model's true context_window in the configuration.",
                context_overflow=True,
            )
        if status == 401:
            return ProviderError(f"{self.name} refused the API key (401). {self.key_advice}")
        if status == 429 or status >= 500:
            return ProviderError(
                f"{self.name} {_trouble(status)} ({status}){words}. Try again a little later.",
                retryable=True,
                retry_after_s=refusal.retry_after_s,
            )
        return ProviderError(
            f"{self.name} refused the request ({status}){words}. {self._do(status, model)}"
        )

    def _do(self, status: int, model: str) -> str:
        match status:
            case 402:
                return "Check the credit and the plan of that account."
            case 403:
                return f"{self.key_advice} Its account may not be allowed to use {model}."
            case 404:
                return (
                    f"It may not have the model {model!r}: check --model, and base_url"
                    f" ({self.address})."
                )
            case _ if 300 <= status < 400:
                return f"None is followed: set base_url (now {self.address}) to where it is."
            case _:
                return "Check the model and the settings of this provider."

    def reported(self, kind: str, message: str, model: str) -> ProviderError:
        """The fault for an error that arrived in the middle of a stream."""
        known = [_status_of(word) for word in kind.split() if _status_of(word)]
        return self.refused(Refusal(known[0] if known else 500, message, kind), model)

    def check_stream(self, response: httpx2.Response, model: str) -> None:
        """
        Look whether a successful answer is the event stream that was asked for.

        Raises:
            ProviderError: it is not; an error that it tells of instead is passed on.
        """
        content_type = response.headers.get("content-type", "")
        # Some servers do not say what they send.
        if not content_type or "text/event-stream" in content_type.lower():
            return
        if "json" in content_type.lower():
            response.read()
            refusal = read_refusal(response)
            if refusal.message:
                raise self.reported(refusal.kind, refusal.message, model)
        raise self._not_a_stream(content_type)

    def broken_off(self) -> ProviderError:
        """The fault for a stream that ended before the answer did."""
        return ProviderError(
            f"The answer of {self.name} broke off before its end. Nothing of an unfinished"
            " tool call was run; send the prompt again to go on.",
            retryable=True,
        )

    def _not_a_stream(self, content_type: str) -> ProviderError:
        kind = self.quote(content_type.partition(";")[0]) or "nothing"
        return ProviderError(
            f"{self.name} answered with {kind} instead of an event stream. A proxy may be in"
            f" between, or base_url ({self.address}) is not that of the API."
        )

    def unreadable(self) -> ProviderError:
        """The fault for a stream whose events make no sense."""
        return ProviderError(
            f"{self.name} sent events that cannot be read. Check that base_url"
            f" ({self.address}) is that of the API and that its kind is right."
        )


def _status_of(kind: str) -> int:
    """The status that fits a word of an error inside a stream; 0 if none is known."""
    return int(kind) if re.fullmatch(r"[45]\d\d", kind) else _KIND_STATUS.get(kind, 0)


def _trouble(status: int) -> str:
    if status == 429:
        return "limits how much may be asked now"
    return "is overloaded" if status in (503, 529) else "has a fault of its own"
