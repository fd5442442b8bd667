"""When a failed request is tried again, and after how long (spec section 2)."""

from __future__ import annotations

import logging
import random

from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.model import ProviderError

logger = logging.getLogger(__name__)

MAX_RETRIES = 4
LONGEST_PAUSE_S = 120.0
"""A service that asks for more is not waited for: the user decides."""
_FIRST_PAUSE_S = 0.5
_LONGEST_BACKOFF_S = 16.0


class Retries:
    """Counts the retries of one model step."""

    def __init__(self) -> None:
        self._done = 0

    def wait(self, error: ProviderError, cancel: CancelToken) -> None:
        """
        Pause before the next try.

        Raises:
            ProviderError: the error itself, if there is to be no other try.
            Cancelled: the turn was cancelled in the pause.
        """
        if not error.retryable or self._done >= MAX_RETRIES:
            raise error
        pause = self._pause(error)
        if pause > LONGEST_PAUSE_S:
            raise error
        self._done += 1
        logger.warning(
            "%s Asking again in %.1f s (try %d of %d).",
            error.message,
            pause,
            self._done,
            MAX_RETRIES,
        )
        cancel.wait(pause)
        cancel.raise_if_cancelled()

    def _pause(self, error: ProviderError) -> float:
        if error.retry_after_s is not None:
            return error.retry_after_s
        backoff: float = min(_FIRST_PAUSE_S * 2**self._done, _LONGEST_BACKOFF_S)
        # Jitter, so that many agents do not come back at the same instant.
        return backoff * random.uniform(0.75, 1.25)  # noqa: S311  nothing secret hangs on it
