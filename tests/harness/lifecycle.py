"""
What the updates of one session must look like in time (version 2, spec section 5).

A schema judges one message; this judges their order. Every method takes one thing
that happened on the wire and returns what is wrong with it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import attrs

FINAL = frozenset({"completed", "failed", "cancelled"})
RANK = {"pending": 0, "in_progress": 1, "completed": 2, "failed": 2, "cancelled": 2}
MESSAGE_KINDS = {
    "agent_message": "agent message",
    "agent_message_chunk": "agent message",
    "agent_thought": "agent thought",
    "agent_thought_chunk": "agent thought",
    "user_message": "user message",
    "user_message_chunk": "user message",
}
V1_ONLY = frozenset({"tool_call", "plan", "current_mode_update"})


class Phase(StrEnum):
    """Where the turn of a session is, as far as the client was told."""

    IDLE = "idle"
    # running was sent, the response was not
    ANNOUNCED = "announced"
    # the response was sent, user_message was not
    ACCEPTED = "accepted"
    RUNNING = "running"
    REQUIRES_ACTION = "requires_action"


@attrs.define
class Message:
    """A message of which at least one piece was sent."""

    kind: str
    turn: int


@attrs.define
class SessionLife:
    """The protocol state of one session on one connection. Not thread-safe."""

    phase: Phase = Phase.IDLE
    turn: int = 0
    prompts_open: int = 0
    replays_open: int = 0
    stop_reasons: list[str] = attrs.Factory(list)
    messages: dict[str, Message] = attrs.Factory(dict)
    # toolCallId -> status, of every call of the session
    calls: dict[str, str] = attrs.Factory(dict)
    terminals: dict[str, bool] = attrs.Factory(dict)
    # One state_update may follow a resume, whatever the state is.
    may_repeat_state: bool = False

    def prompt_sent(self) -> None:
        """A session/prompt went out."""
        self.prompts_open += 1

    def prompt_answered(self, *, accepted: bool) -> list[str]:
        """The response to a session/prompt came."""
        self.prompts_open -= 1
        if accepted:
            if self.phase is not Phase.ANNOUNCED:
                return [f"a prompt was accepted while {self.phase}, running was not sent first"]
            self.phase = Phase.ACCEPTED
            return []
        if self.phase is Phase.ANNOUNCED and self.prompts_open == 0:
            return ["a prompt was refused after state_update running"]
        return []

    def resume_sent(self) -> None:
        """A session/resume went out: until its answer, updates may be a replay."""
        self.replays_open += 1

    def resume_answered(self) -> None:
        """The response to a session/resume came."""
        self.replays_open -= 1
        self.may_repeat_state = True

    def closed(self) -> list[str]:
        """A session/close succeeded."""
        if self.phase is not Phase.IDLE:
            return [f"session/close was answered while the turn was {self.phase}"]
        return []

    def permission_asked(self, call_id: str | None) -> list[str]:
        """A session/request_permission came for a tool call."""
        if self.phase not in (Phase.RUNNING, Phase.REQUIRES_ACTION):
            return [f"session/request_permission while {self.phase}"]
        if call_id is not None and self.calls.get(call_id, "completed") in FINAL:
            return [f"permission is asked for {call_id!r}, which is not an open tool call"]
        return []

    def update(self, update: dict[str, Any]) -> list[str]:
        """A session/update came."""
        kind = update["sessionUpdate"]
        if kind in V1_ONLY:
            return [f"{kind} is an update of version 1"]
        if kind == "state_update":
            return self._state(update)
        if self.replays_open:
            return self._replayed(kind, update)
        self.may_repeat_state = False
        return self._live(kind, update)

    def _state(self, update: dict[str, Any]) -> list[str]:
        state = update["state"]
        may_repeat, self.may_repeat_state = self.may_repeat_state, False
        if state == "running":
            return self._running(may_repeat=may_repeat)
        if state == "requires_action":
            if self.phase is Phase.REQUIRES_ACTION and may_repeat:
                return []
            if self.phase is not Phase.RUNNING:
                return [f"state_update requires_action while {self.phase}"]
            self.phase = Phase.REQUIRES_ACTION
            return []
        return self._idle(update, may_repeat=may_repeat)

    def _running(self, *, may_repeat: bool) -> list[str]:
        if self.phase is Phase.REQUIRES_ACTION:
            self.phase = Phase.RUNNING
            return []
        if self.phase is not Phase.IDLE and may_repeat:
            return []
        if self.phase is not Phase.IDLE:
            return [f"state_update running while {self.phase}"]
        if not self.prompts_open:
            return ["state_update running, but no prompt is open"]
        self.phase = Phase.ANNOUNCED
        self.turn += 1
        return []

    def _idle(self, update: dict[str, Any], *, may_repeat: bool) -> list[str]:
        if self.phase is Phase.IDLE and may_repeat:
            return []
        if self.phase not in (Phase.RUNNING, Phase.REQUIRES_ACTION):
            return [f"state_update idle while {self.phase}"]
        faults = []
        if update.get("stopReason") is None:
            faults.append("state_update idle without a stopReason")
        open_calls = [call for call, status in self.calls.items() if status not in FINAL]
        if open_calls:
            faults.append(f"state_update idle, but these tool calls are open: {open_calls}")
        running = [terminal for terminal, exited in self.terminals.items() if not exited]
        if running:
            faults.append(f"state_update idle, but these terminals have no exit status: {running}")
        self.phase = Phase.IDLE
        self.stop_reasons.append(str(update.get("stopReason")))
        return faults

    def _replayed(self, kind: str, update: dict[str, Any]) -> list[str]:
        """An update while a resume is open: a replay of old ids, or still a live one."""
        if kind in MESSAGE_KINDS:
            message_kind = MESSAGE_KINDS[kind]
            if self.phase is Phase.ACCEPTED and update["messageId"] not in self.messages:
                # The one that the turn owes, live or as the end of the replay.
                self.phase = Phase.RUNNING
            message = self.messages.setdefault(
                update["messageId"], Message(message_kind, self.turn)
            )
            if message.kind != message_kind:
                return [f"messageId {update['messageId']!r} was a {message.kind} before"]
        elif kind == "tool_call_update":
            if update.get("status") is not None:
                self.calls[update["toolCallId"]] = update["status"]
        elif kind == "terminal_update":
            exited = update.get("exitStatus") is not None
            self.terminals[update["terminalId"]] = exited or self.terminals.get(
                update["terminalId"], False
            )
        return []

    def _live(self, kind: str, update: dict[str, Any]) -> list[str]:
        if self.phase is Phase.ACCEPTED:
            if kind != "user_message":
                return [f"{kind} came before user_message"]
            self.phase = Phase.RUNNING
            return self._first_use(update["messageId"], kind)
        if self.phase not in (Phase.RUNNING, Phase.REQUIRES_ACTION):
            return [f"{kind} while {self.phase}"]
        if kind in ("user_message", "user_message_chunk"):
            return [f"a second {kind} in one turn"]
        if kind in MESSAGE_KINDS:
            return self._message(kind, update["messageId"])
        if kind == "tool_call_update":
            return self._call(update)
        if kind == "tool_call_content_chunk":
            return self._call_content(update["toolCallId"])
        if kind in ("terminal_update", "terminal_output_chunk"):
            return self._terminal(kind, update)
        return []

    def _first_use(self, message_id: str, kind: str) -> list[str]:
        known = message_id in self.messages
        self.messages[message_id] = Message(MESSAGE_KINDS[kind], self.turn)
        return [f"messageId {message_id!r} is not unique in the session"] if known else []

    def _message(self, kind: str, message_id: str) -> list[str]:
        message = self.messages.get(message_id)
        if message is None:
            return self._first_use(message_id, kind)
        if message.kind != MESSAGE_KINDS[kind]:
            return [f"messageId {message_id!r} was a {message.kind} before"]
        if message.turn != self.turn:
            return [f"messageId {message_id!r} belongs to an earlier turn"]
        return []

    def _call(self, update: dict[str, Any]) -> list[str]:
        call_id, status = update["toolCallId"], update.get("status")
        before = self.calls.get(call_id)
        if before is None:
            self.calls[call_id] = status or "pending"
            missing = [name for name in ("name", "title", "kind") if not update.get(name)]
            faults = [f"the first update of {call_id!r} has no {name}" for name in missing]
            if status != "pending":
                faults.append(f"the first update of {call_id!r} has status {status!r}")
            return faults
        if before in FINAL:
            return [f"an update of {call_id!r} after it was {before}"]
        if status is not None:
            self.calls[call_id] = status
            if RANK[status] < RANK[before]:
                return [f"{call_id!r} went back from {before} to {status}"]
        return []

    def _call_content(self, call_id: str) -> list[str]:
        if self.calls.get(call_id, "completed") in FINAL:
            return [f"tool_call_content_chunk for {call_id!r}, which is not an open tool call"]
        return []

    def _terminal(self, kind: str, update: dict[str, Any]) -> list[str]:
        terminal_id = update["terminalId"]
        exited = self.terminals.get(terminal_id)
        if exited:
            return [f"{kind} of terminal {terminal_id!r} after its exit status"]
        if exited is None and kind != "terminal_update":
            return [f"{kind} of terminal {terminal_id!r}, which was never opened"]
        self.terminals[terminal_id] = (
            kind == "terminal_update" and update.get("exitStatus") is not None
        )
        return []
