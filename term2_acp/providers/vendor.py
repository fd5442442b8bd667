"""A provider over a vendor's SDK: what is the same for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import ClassVar, Generic, TypeVar

from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.model import ModelEvent, ModelRequest, ProviderError
from term2_acp.agent.ports import nothing_waits
from term2_acp.providers.asking import EventReader, VendorStream, ask, rehearse
from term2_acp.providers.faults import Service
from term2_acp.providers.transport import Connections, Exchange
from term2_acp.providers.variants import Variant, Variants

E = TypeVar("E")
V = TypeVar("V", bound=Variant)


class VendorProvider(ABC, Generic[E, V]):
    """
    A `Provider` that asks one service through an SDK; may be used from any thread.

    Args:
        service: the service, with its name, address and key.
        variants: the ways to write a request that the service may want.
        idle_timeout_s: the silence of the model that ends a step, in seconds.
    """

    sdk_faults: tuple[type[Exception], ...]
    """See `Vendor.sdk_faults`."""

    rehearsal: ClassVar[bytes]
    """A short answer as the service would stream it."""

    def __init__(self, service: Service, variants: Variants[V], idle_timeout_s: float) -> None:
        self.name = service.name
        self._service = service
        self._variants = variants
        self._connections = Connections(idle_timeout_s)

    def warm(self) -> None:
        """Load what the first request would load, about a second; without the network."""
        rehearse(self, self.rehearsal)

    def stream(
        self,
        request: ModelRequest,
        cancel: CancelToken,
        before_wait: Callable[[], None] = nothing_waits,
    ) -> Generator[ModelEvent, None, None]:
        """
        Ask the model once; see `Provider.stream`.

        Raises:
            ProviderError: the request failed or the stream broke.
            Cancelled: `cancel` was set.
        """
        return ask(self, self._service, self._connections, request, cancel, before_wait=before_wait)

    def context_window(self, _model: str, _cancel: CancelToken) -> int | None:
        """The window of a model in tokens, as the service tells it; most do not."""
        return None

    def open(self, request: ModelRequest, exchange: Exchange) -> tuple[VendorStream[E], bool]:
        """See `Vendor.open`."""
        stream, variant = self._variants.send(
            request.model, lambda variant: self.send(request, exchange, variant)
        )
        return stream, variant.fresh

    @abstractmethod
    def send(self, request: ModelRequest, exchange: Exchange, variant: V) -> VendorStream[E]:
        """Send the request in one of its variants."""

    @abstractmethod
    def reader(self) -> EventReader[E]:
        """See `Vendor.reader`."""

    @abstractmethod
    def fault(self, error: Exception, model: str) -> ProviderError:
        """See `Vendor.fault`."""
