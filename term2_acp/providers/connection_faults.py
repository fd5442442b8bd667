"""What went wrong with a connection, in words for the person at the editor."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import httpx2

from term2_acp.agent.model import ProviderError
from term2_acp.providers.faults import Service
from term2_acp.providers.proxies import proxy_for
from term2_acp.providers.transport import CertificatesError

_PROXY_VARIABLES = "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY"


def connection_fault(
    service: Service, error: BaseException, idle_timeout_s: float
) -> ProviderError:
    """The fault for a connection that could not be made or did not hold."""
    match error:
        case httpx2.ConnectTimeout() | httpx2.ConnectError():
            return _unreachable(service, error)
        case httpx2.ReadTimeout() | httpx2.WriteTimeout():
            return ProviderError(
                f"{service.name} at {service.address} was silent for {idle_timeout_s:g} seconds"
                " (stream_idle_timeout_s). Send the prompt again, or raise that limit."
            )
        case httpx2.ProxyError():
            return ProviderError(
                f"The proxy of the environment did not let {service.name} be reached:"
                f" {service.quote(str(error))}. Check {_PROXY_VARIABLES}."
            )
        case httpx2.UnsupportedProtocol():
            return ProviderError(
                f"base_url of {service.name} must begin with http:// or https://; it is"
                f" {service.address}."
            )
        case httpx2.LocalProtocolError():
            # Its own text would quote the header, and with it the key.
            return ProviderError(
                f"The request to {service.name} cannot be sent as HTTP. {service.key_advice}"
            )
    return service.broken_off()


def _unreachable(service: Service, error: BaseException) -> ProviderError:
    causes = tuple(_causes(error))
    if isinstance(error, CertificatesError):
        return ProviderError(
            f"{service.name} cannot be asked: the certificates of this machine cannot be read."
            " Check SSL_CERT_FILE and SSL_CERT_DIR."
        )
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return ProviderError(
            f"The certificate of {service.name} at {service.address} is not trusted. Check"
            " base_url; SSL_CERT_FILE can name the certificates of your organization."
        )
    url = httpx2.URL(service.address)
    if proxy_for(url.scheme, url.host):
        return ProviderError(
            f"{service.name} at {service.address} cannot be reached through the proxy of the"
            f" environment: {_reason(causes)}. Check {_PROXY_VARIABLES}.",
            retryable=True,
        )
    return ProviderError(
        f"{service.name} at {service.address} cannot be reached: {_reason(causes)}. Check that it"
        " runs, base_url and the network.",
        retryable=True,
    )


def _reason(causes: tuple[BaseException, ...]) -> str:
    for cause in causes:
        match cause:
            case socket.gaierror() | UnicodeError():
                return "its name is not known"
            case ConnectionRefusedError():
                return "nothing listens there"
            case httpx2.ConnectTimeout() | TimeoutError():
                return "there was no connection in time"
            case ssl.SSLError():
                return "it does not speak TLS there"
            case OSError() if cause.strerror:
                return cause.strerror
    return "the connection failed"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and what it came from, which the layers below pass on as an argument."""
    while error is not None:
        yield error
        inner = error.args[0] if error.args else None
        error = error.__cause__ or (inner if isinstance(inner, BaseException) else None)
