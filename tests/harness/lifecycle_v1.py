"""
What the updates of one session must look like in time (version 1, spec section 6).

The counterpart of `lifecycle`: version 1 has no states, so a turn lasts as long as
its prompt is unanswered. Every method takes one thing that happened on the wire and
returns what is wrong with it.
"""

from __future__ import annotations

from typing import Any

import attrs

FINAL = frozenset({"completed", "failed"})
RANK = {"pending": 0, "in_progress": 1, "completed": 2, "failed": 2}
REPLAYING = frozenset({"session/load"})


@attrs.define
class SessionLifeV1:
    """The protocol state of one session on one connection. Not thread-safe."""

    prompts_open: int = 0
    replays_open: int = 0
    # toolCallId -> status, of every call of the session
    calls: dict[str, str] = attrs.Factory(dict)

    def request_sent(self, method: str) -> None:
        """A request that names the session went out."""
        if method == "session/prompt":
            self.prompts_open += 1
        elif method in REPLAYING:
            self.replays_open += 1

    def request_answered(self, method: str) -> list[str]:
        """Its response came."""
        if method in REPLAYING:
            self.replays_open -= 1
        if method != "session/prompt":
            return []
        self.prompts_open -= 1
        left = [call for call, status in self.calls.items() if status not in FINAL]
        if left and not self.prompts_open:
            return [f"a prompt was answered, but these tool calls are open: {left}"]
        return []

    def permission_asked(self, call_id: str | None) -> list[str]:
        """A session/request_permission came for a tool call."""
        if not self.prompts_open:
            return ["session/request_permission while no prompt is open"]
        if call_id is None or self.calls.get(call_id, "completed") in FINAL:
            return [f"permission is asked for {call_id!r}, which is not an open tool call"]
        return []

    def update(self, update: dict[str, Any]) -> list[str]:
        """A session/update came."""
        kind = update["sessionUpdate"]
        if not self.prompts_open and not self.replays_open:
            return [f"{kind} while no prompt is open"]
        if kind == "user_message_chunk" and not self.replays_open:
            return ["the user's own message came back outside of a replay"]
        if kind == "tool_call":
            return self._call(update)
        if kind == "tool_call_update":
            return self._call_update(update)
        return []

    def _call(self, update: dict[str, Any]) -> list[str]:
        call_id, status = update["toolCallId"], update["status"]
        known = call_id in self.calls
        self.calls[call_id] = status
        if self.replays_open:
            return []
        if known:
            return [f"tool_call {call_id!r} came twice"]
        return [] if status == "pending" else [f"tool_call {call_id!r} begins as {status!r}"]

    def _call_update(self, update: dict[str, Any]) -> list[str]:
        call_id = update["toolCallId"]
        before = self.calls.get(call_id)
        if before is None:
            return [f"tool_call_update of {call_id!r}, which has no tool_call"]
        if before in FINAL:
            return [f"an update of {call_id!r} after it was {before}"]
        status = update.get("status")
        if status is None:
            return []
        self.calls[call_id] = status
        if RANK[status] < RANK[before]:
            return [f"{call_id!r} went back from {before} to {status}"]
        return []
