"""Asking the user whether a call may run, and what the session's state is meanwhile."""

from __future__ import annotations

import threading

from term2_acp.agent.cancel import Cancelled
from term2_acp.agent.turn_log import TurnLog
from term2_acp.eventlog import PermissionAnswered, PermissionAsked, SessionState, StateChanged
from term2_acp.permissions import (
    Choice,
    Grants,
    Judgement,
    PermissionClient,
    PermissionQuestion,
    choice_of,
)


class Approval:
    """
    Asks for the calls of one turn (spec section 8); may be used from several threads at once.

    Args:
        client: who is asked.
        grants: of the session; an answer may add to them.
        log: of the turn.
        is_nested: the turn may go on when a question is cancelled.
    """

    def __init__(
        self, client: PermissionClient, grants: Grants, log: TurnLog, *, is_nested: bool
    ) -> None:
        self._client = client
        self._grants = grants
        self._log = log
        self._is_nested = is_nested
        self._asking = 0
        self._lock = threading.Lock()

    def ask(self, question: PermissionQuestion, judgement: Judgement) -> bool:
        """
        Ask the client; whether the call may run. In doubt it may not.

        Raises:
            Cancelled: before there was an answer.
        """
        self._log.emit(PermissionAsked(question.tool_call_id, tuple(judgement.options)))
        self._change_asking(+1)
        try:
            answer = self._client.ask(question, self._log.cancel)
        except Cancelled:
            # The turn may go on without the nested call that asked.
            if self._is_nested:
                self._answered(question, None)
            raise
        choice = choice_of(answer, judgement.options) if answer is not None else None
        self._answered(question, choice)
        if choice is None or choice is Choice.REJECT:
            return False
        self._grants.add(choice, judgement.outside)
        return True

    def _answered(self, question: PermissionQuestion, choice: Choice | None) -> None:
        self._log.emit(PermissionAnswered(question.tool_call_id, choice))
        self._change_asking(-1)

    def _change_asking(self, change: int) -> None:
        # Several reads may ask at once: the state changes with the first and the last.
        with self._lock:
            before = self._asking
            self._asking += change
            if before == 0:
                self._log.emit(StateChanged(SessionState.REQUIRES_ACTION))
            elif self._asking == 0:
                self._log.emit(StateChanged(SessionState.RUNNING))
