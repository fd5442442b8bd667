"""One model step over a vendor's SDK: what is the same for every vendor."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Protocol, TypeVar

import attrs
import httpx2

from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.model import (
    ModelEvent,
    ModelRequest,
    ProviderError,
    ToolSpec,
    UserTurn,
)
from term2_acp.providers.connection import Interrupter
from term2_acp.providers.faults import Service
from term2_acp.providers.transport import Connections, Exchange, load_certificates

E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)
E_co = TypeVar("E_co", covariant=True)

logger = logging.getLogger(__name__)

# After the end of the answer only its usage is still to come.
_TAIL_PATIENCE_S = 2.0

_REHEARSAL = ModelRequest(
    "rehearsal",
    "none",
    (UserTurn("none"),),
    tools=(ToolSpec("none", "none", {"type": "object", "properties": {}}),),
)


class StreamFailedError(Exception):
    """The service gave up in the middle of a stream; `kind` and `message` are its words."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class VendorStream(Protocol[E_co]):
    """An open event stream of an SDK."""

    response: httpx2.Response

    def __iter__(self) -> Iterator[E_co]: ...

    def close(self) -> None:
        """Let the connection go."""
        ...


class EventReader(Protocol[E_contra]):
    """Turns a vendor's events into those of the loop; one for each answer."""

    @property
    def finished(self) -> bool:
        """Whether the vendor said that the answer is over."""
        ...

    @property
    def complete(self) -> bool:
        """Whether it is over and nothing more can come that matters."""
        ...

    def read(self, event: E_contra) -> Iterator[ModelEvent]:
        """
        Take the next event.

        Raises:
            StreamFailedError: the service gave up.
        """
        ...

    def end(self, *, fresh: bool) -> Iterator[ModelEvent]:
        """Usage, state and finish of an answer that is `finished`."""
        ...


class Vendor(Protocol[E]):
    """What differs between vendors."""

    sdk_faults: tuple[type[Exception], ...]
    """Everything that the SDK may raise for an outer reason."""

    def open(self, request: ModelRequest, exchange: Exchange) -> tuple[VendorStream[E], bool]:
        """Send the request; the stream, and whether old reasoning was left out."""
        ...

    def reader(self) -> EventReader[E]:
        """A reader for the next answer."""
        ...

    def fault(self, error: Exception, model: str) -> ProviderError:
        """Say what one of `sdk_faults` means."""
        ...


# What comes of JSON that is none of the vendor's, in the SDK or in a reader.
_WRONG_SHAPE = (AttributeError, TypeError, KeyError, IndexError, ValueError)


def ask(
    vendor: Vendor[E],
    service: Service,
    connections: Connections,
    request: ModelRequest,
    cancel: CancelToken,
    *,
    before_wait: Callable[[], None],
) -> Generator[ModelEvent, None, None]:
    """
    Ask a model once and yield its events as they arrive; see `Provider.stream`.

    Raises:
        ProviderError: the request failed or the stream broke.
        Cancelled: `cancel` was set.
    """
    cancel.raise_if_cancelled()
    service.check_key()
    reader = vendor.reader()
    opened = _Opened()
    with connections.exchange(cancel, before_wait) as exchange:
        try:
            with closing(_vendor_events(vendor, service, request, exchange, opened)) as events:
                for event in events:
                    yield from reader.read(event)
                    if reader.complete:
                        break
                    if reader.finished:
                        exchange.hurry(_TAIL_PATIENCE_S)
        except _WRONG_SHAPE:
            logger.debug("an event of %s cannot be read", service.name, exc_info=True)
            cancel.raise_if_cancelled()
            raise service.unreadable() from None
        except StreamFailedError as failure:
            raise service.reported(failure.kind, failure.message, request.model) from None
        except ProviderError:
            # A cancel looks like a fault of the connection.
            cancel.raise_if_cancelled()
            # Whatever broke after its end: the answer is whole.
            if not reader.finished:
                raise
        cancel.raise_if_cancelled()
        if not reader.finished:
            raise service.broken_off()
        yield from reader.end(fresh=opened.fresh)


@attrs.define
class _Opened:
    """What became known when the request was sent."""

    fresh: bool = False


def _vendor_events(
    vendor: Vendor[E], service: Service, request: ModelRequest, exchange: Exchange, opened: _Opened
) -> Generator[E, None, None]:
    """The SDK's part; everything that it raises becomes a `ProviderError`."""
    try:
        stream, opened.fresh = vendor.open(request, exchange)
        with closing(stream):
            service.check_stream(stream.response, request.model)
            yield from stream
    except vendor.sdk_faults as error:
        raise vendor.fault(error, request.model) from None


def rehearse(vendor: Vendor[E], stream: bytes) -> None:
    """
    Read a stream through the SDK as if a service had sent it, without any network.

    The SDKs load much of themselves, and build their types, at the first use. What
    fails here fails again, and is told, when somebody asks.
    """
    load_certificates()
    answer = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)
    transport = httpx2.MockTransport(lambda _: answer)
    reader = vendor.reader()
    faults: tuple[type[Exception], ...] = (*vendor.sdk_faults, UnicodeError)
    try:
        with httpx2.Client(transport=transport, trust_env=False) as client:
            events, _ = vendor.open(_REHEARSAL, Exchange(client, Interrupter()))
            with closing(events):
                for event in events:
                    deque(reader.read(event), maxlen=0)
    except faults as error:
        logger.debug("the rehearsal failed: %s", type(error).__name__)
