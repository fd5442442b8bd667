"""
What a service turns out to want, or not to know, although its format is the same.

A request that a service refuses for such a reason is sent once more in another
variant, before anything of an answer was shown; what was learnt is remembered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, Self, TypeVar

import attrs
import httpx2

from term2_acp.providers.refusals import Refusal, read_refusal


@attrs.frozen
class Variant:
    """
    A way to write requests. `fresh` leaves out the reasoning of earlier steps.

    Vendors refuse reasoning whose beginning of the conversation changed, or that
    another account or model made; such a conversation goes on without it.
    """

    fresh: bool = False

    def after(self, refusal: Refusal) -> Self | None:
        """The variant to try after a refusal; None if no other can help."""
        changed = attrs.evolve(self, **self.changes(refusal))
        return None if changed == self else changed

    def lasting(self) -> Self:
        """What of it holds for other conversations with the same model."""
        return attrs.evolve(self, fresh=False)

    def changes(self, refusal: Refusal) -> dict[str, bool]:
        """The members that a refusal asks to change, with their new values."""
        raise NotImplementedError


class StatusError(Protocol):
    """What the SDKs raise for an answer with an error status."""

    response: httpx2.Response


V = TypeVar("V", bound=Variant)
S = TypeVar("S")


class Variants(Generic[V]):
    """
    Remembers the variant of each model; may be used from any thread.

    Args:
        first: what is tried before anything is known.
        status_error: what the SDK raises for an error status; a `StatusError`.
    """

    def __init__(self, first: V, status_error: type[Exception]) -> None:
        self._first = first
        self._status_error = status_error
        self._lock = threading.Lock()
        self._known: dict[str, V] = {}

    def send(self, model: str, create: Callable[[V], S]) -> tuple[S, V]:
        """
        Send a request with `create`, in another variant where that helps.

        Raises the SDK's own exception for a refusal that no variant helps against.
        """
        with self._lock:
            variant = self._known.get(model, self._first)
        while True:
            try:
                answer = create(variant)
            except self._status_error as error:
                other = variant.after(_refusal_of(error))
                if other is None:
                    raise
                variant = other
                continue
            with self._lock:
                self._known[model] = variant.lasting()
            return answer, variant


def _refusal_of(error: Exception) -> Refusal:
    response = getattr(error, "response", None)
    return read_refusal(response) if isinstance(response, httpx2.Response) else Refusal(0, "")
