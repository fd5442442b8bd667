"""
HTTP for one exchange with a model service: interruptible, bounded, without surprises.

The vendors' SDKs take the `httpx2.Client` that `Connections.exchange` makes. Each
exchange has a connection of its own: it belongs to one thread, and a cancel that
shuts it disturbs nobody else.
"""

from __future__ import annotations

import contextlib
import functools
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import attrs
import httpcore2
import httpx2

from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.ports import nothing_waits
from term2_acp.providers.connection import Interrupter, InterruptibleBackend
from term2_acp.providers.proxies import proxy_for

CONNECT_TIMEOUT_S = 10.0
"""How long a connection may take, name look-up included (spec section 2)."""

# No real error text is longer; an endless one must not fill the memory.
_MAX_ERROR_BYTES = 64 * 1024
# Far above what a model can write in one step, also with every event of it repeated.
_MAX_ANSWER_BYTES = 256 * 1024 * 1024

_MAPPED: tuple[tuple[type[Exception], type[httpx2.RequestError]], ...] = (
    (httpcore2.ConnectTimeout, httpx2.ConnectTimeout),
    (httpcore2.ReadTimeout, httpx2.ReadTimeout),
    (httpcore2.WriteTimeout, httpx2.WriteTimeout),
    (httpcore2.ConnectError, httpx2.ConnectError),
    (httpcore2.ReadError, httpx2.ReadError),
    (httpcore2.WriteError, httpx2.WriteError),
    (httpcore2.ProxyError, httpx2.ProxyError),
    (httpcore2.UnsupportedProtocol, httpx2.UnsupportedProtocol),
    (httpcore2.LocalProtocolError, httpx2.LocalProtocolError),
    (httpcore2.RemoteProtocolError, httpx2.RemoteProtocolError),
)


class CertificatesError(httpx2.ConnectError):
    """The certificates of the machine, or those that SSL_CERT_FILE names, are not readable."""


@attrs.frozen
class Connections:
    """
    Makes the HTTP clients of one provider; may be used from any thread.

    `idle_timeout_s` is how long the service may send nothing while somebody waits
    for it; what the consumer of a stream does in between does not count.
    """

    idle_timeout_s: float

    @property
    def timeout(self) -> httpx2.Timeout:
        """The time-outs of a request, for the SDK."""
        idle = self.idle_timeout_s
        return httpx2.Timeout(connect=CONNECT_TIMEOUT_S, read=idle, write=idle, pool=idle)

    @contextmanager
    def exchange(
        self, cancel: CancelToken, before_wait: Callable[[], None] = nothing_waits
    ) -> Iterator[Exchange]:
        """
        What one thread needs for a request; closed after the block.

        `before_wait` is called before each wait for bytes, on the thread that waits.

        Once `cancel` is set, whatever its requests wait for fails at once with an
        `httpx2.RequestError` or the end of the stream; the caller asks `cancel` why.
        """
        interrupter = Interrupter(before_wait)
        transport = _Transport(interrupter)
        with (
            cancel.on_cancel(interrupter.interrupt),
            httpx2.Client(transport=transport, timeout=self.timeout, trust_env=False) as client,
        ):
            try:
                yield Exchange(client, interrupter)
            finally:
                # The SDK's client is part of a cycle, and with it would stay, until some
                # distant collection, whatever waits for the answer: a whole session.
                interrupter.before_wait = nothing_waits


@attrs.frozen
class Exchange:
    """The client of one exchange, and a hold on its connection."""

    client: httpx2.Client
    _interrupter: Interrupter

    def hurry(self, patience_s: float) -> None:
        """Wait at most so long for each further piece; from the thread that reads."""
        self._interrupter.patience_s = patience_s


class _Transport(httpx2.BaseTransport):
    def __init__(self, interrupter: Interrupter) -> None:
        self._interrupter = interrupter
        self._pool: httpcore2.ConnectionPool | None = None

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if not isinstance(request.stream, Iterable):
            raise TypeError("a request of the synchronous SDKs has a synchronous body")
        if self._pool is None:
            self._pool = self._make_pool(request.url)
        with _mapped_errors():
            response = self._pool.handle_request(
                httpcore2.Request(
                    method=request.method,
                    url=httpcore2.URL(
                        scheme=request.url.raw_scheme,
                        host=request.url.raw_host,
                        port=request.url.port,
                        target=request.url.raw_path,
                    ),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx2.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_Body(response),
            extensions=response.extensions,
        )

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    def _make_pool(self, url: httpx2.URL) -> httpcore2.ConnectionPool:
        backend = InterruptibleBackend(self._interrupter)
        context = _certificates() if url.scheme == "https" else None
        proxy = proxy_for(url.scheme, url.host)
        if proxy is None:
            return httpcore2.ConnectionPool(
                ssl_context=context, max_keepalive_connections=0, network_backend=backend
            )
        settings = _read_proxy(proxy)
        return httpcore2.HTTPProxy(
            proxy_url=httpcore2.URL(
                scheme=settings.url.raw_scheme,
                host=settings.url.raw_host,
                port=settings.url.port,
                target=settings.url.raw_path,
            ),
            proxy_auth=settings.raw_auth,
            proxy_headers=settings.headers.raw,
            ssl_context=context,
            max_keepalive_connections=0,
            network_backend=backend,
        )


class _Body(httpx2.SyncByteStream):
    """The bytes of an answer, up to a bound."""

    def __init__(self, response: httpcore2.Response) -> None:
        self._response = response
        self._failed = response.status >= 400

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        with _mapped_errors():
            for part in self._response.iter_stream():
                size += len(part)
                yield part
                if self._failed and size > _MAX_ERROR_BYTES:
                    return
                if size > _MAX_ANSWER_BYTES:
                    raise httpx2.ReadError("the answer has no end")

    def close(self) -> None:
        self._response.close()


def _read_proxy(text: str) -> httpx2.Proxy:
    try:
        proxy = httpx2.Proxy(text)
    except (ValueError, httpx2.InvalidURL):
        raise httpx2.ProxyError("its URL cannot be understood") from None
    if proxy.url.scheme != "http":
        raise httpx2.ProxyError(f"only http:// proxies can be used, not {proxy.url.scheme}://")
    return proxy


def load_certificates() -> None:
    """
    Read the certificates of the machine, about 0.1 s, before a request needs them.

    A fault in them is told by the request that needs them.
    """
    with contextlib.suppress(OSError):
        _ssl_context()


def _certificates() -> ssl.SSLContext:
    try:
        return _ssl_context()
    except OSError as error:
        raise CertificatesError(str(error)) from error


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


@contextmanager
def _mapped_errors() -> Iterator[None]:
    """Turn the faults of the connection into those that the SDKs know."""
    try:
        yield
    except (
        httpcore2.TimeoutException,
        httpcore2.NetworkError,
        httpcore2.ProtocolError,
        httpcore2.ProxyError,
        httpcore2.UnsupportedProtocol,
    ) as error:
        for kind, mapped in _MAPPED:
            if isinstance(error, kind):
                raise mapped(str(error)) from error
        raise httpx2.NetworkError(str(error)) from error
