"""What both providers over OpenAI's SDK share: its client and its faults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

import httpx2
import openai

from term2_acp.agent.model import ProviderError
from term2_acp.providers.connection_faults import connection_fault
from term2_acp.providers.faults import Service
from term2_acp.providers.headers import ambient_header_names
from term2_acp.providers.refusals import describe_error, read_refusal

_CUSTOM_HEADERS = "OPENAI_CUSTOM_HEADERS"

SDK_FAULTS: tuple[type[Exception], ...] = (
    openai.OpenAIError,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    # Events that are no JSON or no UTF-8.
    json.JSONDecodeError,
    UnicodeDecodeError,
    RecursionError,
)
"""Everything that a request or a stream of the SDK may raise for an outer reason."""


def make_client(
    service: Service,
    http_client: httpx2.Client,
    *,
    base_url: str | None,
    ambient: bool,
    timeout: httpx2.Timeout,
) -> openai.OpenAI:
    """
    A client for one exchange, without the SDK's own retries.

    Args:
        ambient: OpenAI's own variables (organization, project, headers) are meant for
            this service; nobody else gets them.
    """
    return openai.OpenAI(
        # The SDK would take OPENAI_API_KEY for None.
        api_key=service.secret or "none",
        base_url=base_url,
        default_headers=None if ambient else _own_headers(service),
        http_client=http_client,
        max_retries=0,
        timeout=timeout,
    )


def keyless_headers(service: Service) -> Mapping[str, str | openai.Omit] | None:
    """The headers of each request to a service that has no key."""
    return None if service.secret else {"Authorization": openai.Omit()}


def _own_headers(service: Service) -> Mapping[str, str]:
    """The key, also over one in the environment; other headers from there are left out."""
    names = ["OpenAI-Organization", "OpenAI-Project", *ambient_header_names(_CUSTOM_HEADERS)]
    # The SDK accepts `Omit` here, but does not say so in its types.
    headers = cast("dict[str, str]", {name: openai.Omit() for name in names})
    return headers | service.key_header()


def read_fault(
    error: Exception, service: Service, model: str, idle_timeout_s: float
) -> ProviderError:
    """Say what an exception of `SDK_FAULTS` means."""
    if isinstance(error, openai.APIStatusError):
        return service.refused(read_refusal(error.response), model)
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__ or error
        return connection_fault(service, cause, idle_timeout_s)
    if isinstance(error, openai.APIError):
        # An error event of a stream.
        kind, message = describe_error(error.body)
        return service.reported(kind, message or error.message, model)
    if isinstance(error, httpx2.InvalidURL):
        return connection_fault(service, httpx2.UnsupportedProtocol(""), idle_timeout_s)
    if isinstance(error, httpx2.HTTPError):
        return connection_fault(service, error, idle_timeout_s)
    return service.unreadable()
