"""Runs a turn from its admission to its last event, whatever happens in between."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from term2_acp.agent.calls import CallRunner
from term2_acp.agent.cancel import Cancelled
from term2_acp.agent.model import ProviderError
from term2_acp.errors import StoreError
from term2_acp.eventlog import Notice, StopReason
from term2_acp.identifiers import new_id

if TYPE_CHECKING:
    from term2_acp.agent.loop import AgentLoop
    from term2_acp.sessions import Turn

logger = logging.getLogger(__name__)

_FAILED = "term2 failed inside and stopped this turn; its stderr says why. Send the prompt again."


@attrs.frozen
class Outcome:
    """Why a turn ended; `message` tells a person of a failure."""

    reason: StopReason
    message: str | None = None


class TurnRunner:
    """
    Runs turns on worker threads; stateless itself.

    Args:
        make_loop: makes the loop that is to run a turn.
    """

    def __init__(self, make_loop: Callable[[Turn], AgentLoop]) -> None:
        self._make_loop = make_loop

    def run(self, turn: Turn, accepted: Callable[[], None]) -> Outcome:
        """
        Run an admitted turn; `accepted` is called once the prompt is stored and shown.

        Whatever fails after the acceptance ends the turn, and nothing is raised.

        Raises:
            StoreError: the prompt could not be stored; nothing of the turn was shown.
        """
        turn.session.begin(turn, accepted)
        detail = message = None
        try:
            reason = self._attempt(turn)
        except Cancelled:
            reason = StopReason.CANCELLED
        except ProviderError as error:
            # A service may quote what it was sent.
            message = turn.session.surroundings.redactor.text(error.message)
            reason, detail = StopReason.ERROR, message
            logger.error("session %s: %s", turn.session.session_id, message)
            self._explain(turn, message)
        except StoreError as error:
            reason, detail = StopReason.ERROR, error.message
            message = error.message
            logger.error("session %s: %s", turn.session.session_id, error.message)
        except Exception as error:
            reason, detail, message = StopReason.ERROR, repr(error), _FAILED
            logger.exception("session %s: the turn failed", turn.session.session_id)
            self._explain(turn, _FAILED)
        # A cancel counts also when the turn failed because of it.
        if turn.cancel.cancelled:
            reason = StopReason.CANCELLED
        failure = turn.session.end(turn, reason, detail)
        return Outcome(StopReason.ERROR, failure.message) if failure else Outcome(reason, message)

    def _attempt(self, turn: Turn) -> StopReason:
        turn.cancel.raise_if_cancelled()
        calls = CallRunner(turn.session.surroundings, turn)
        return self._make_loop(turn).run(turn, calls)

    @staticmethod
    def _explain(turn: Turn, text: str) -> None:
        try:
            turn.emit(Notice(new_id("msg"), text))
        except (StoreError, Cancelled):
            logger.debug("the explanation could not be stored, so it is not shown")
