"""What a client saw of a session, and whether a replay says the same."""

from __future__ import annotations

from typing import Any

import attrs

_WHOLE = {"user_message": "user", "agent_message": "agent", "agent_thought": "thought"}
_CHUNKS = {"agent_message_chunk": "agent", "agent_thought_chunk": "thought"}
_ENDED = ("completed", "failed", "cancelled")


@attrs.define
class Message:
    """A message as far as it was seen."""

    kind: str
    text: str = ""


@attrs.define
class ToolCall:
    """A call: its last status, and whether its content was replaced as a whole."""

    status: str = "pending"
    name: str = ""


@attrs.define
class Transcript:
    """Messages by id and calls by id, both in the order of their first appearance."""

    messages: dict[str, Message] = attrs.Factory(dict)
    calls: dict[str, ToolCall] = attrs.Factory(dict)

    def apply(self, update: dict[str, Any]) -> None:
        """Take the next update."""
        kind = update["sessionUpdate"]
        if kind in _WHOLE:
            text = "".join(block.get("text", "") for block in update["content"])
            self.messages[update["messageId"]] = Message(_WHOLE[kind], text)
        elif kind in _CHUNKS:
            message = self.messages.setdefault(update["messageId"], Message(_CHUNKS[kind]))
            message.text += update["content"]["text"]
        elif kind == "tool_call_update":
            call = self.calls.setdefault(update["toolCallId"], ToolCall())
            call.status = update.get("status", call.status)
            call.name = update.get("name", call.name)

    def open_calls(self) -> list[str]:
        """The calls that have no end."""
        return [name for name, call in self.calls.items() if call.status not in _ENDED]

    def differences(self, replay: Transcript, *, whole: bool) -> list[str]:
        """
        What a replay says otherwise; `whole` if all that was logged was seen as well.

        Otherwise the replay may go on where what was seen breaks off.
        """
        found = []
        for message_id, seen in self.messages.items():
            told = replay.messages.get(message_id)
            if told is None:
                found.append(f"the {seen.kind} message {message_id} is not replayed")
            elif told.kind != seen.kind:
                found.append(f"{message_id} was a {seen.kind} message and is a {told.kind} one")
            elif told.text != seen.text and (whole or not told.text.startswith(seen.text)):
                found.append(
                    f"{message_id} was {len(seen.text)} characters, its replay"
                    f" {len(told.text)}: {_first_difference(seen.text, told.text)}"
                )
        for call_id, call in self.calls.items():
            replayed = replay.calls.get(call_id)
            if replayed is None:
                found.append(f"the call {call_id} is not replayed")
            elif call.status in _ENDED and replayed.status != call.status:
                found.append(f"the call {call_id} was {call.status} and is {replayed.status}")
        if whole:
            extra = [*(replay.messages.keys() - self.messages.keys())]
            extra += replay.calls.keys() - self.calls.keys()
            found += [f"{item} was replayed and never shown" for item in extra]
        for mine, theirs in (
            (list(self.messages), list(replay.messages)),
            (list(self.calls), list(replay.calls)),
        ):
            if mine != [item for item in theirs if item in set(mine)]:
                found.append(f"the order differs: {mine[-5:]} and {theirs[-5:]}")
        return found


def _first_difference(seen: str, told: str) -> str:
    at = next(
        (n for n, (a, b) in enumerate(zip(seen, told, strict=False)) if a != b),
        min(len(seen), len(told)),
    )
    return f"at {at}: {seen[at : at + 20]!r} and {told[at : at + 20]!r}"
