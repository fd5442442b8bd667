"""A scripted Responses service, which refuses what the vendor refuses."""

from __future__ import annotations

from typing import Any

from tests.models.chat import NAME
from tests.models.http import HttpServer, Part, Reply, Request, json_reply, server_sent_event
from tests.models.steps import ScriptedStep, halves, has_lone_surrogate


class ResponsesServer(HttpServer):
    """Speaks Responses under `/v1`; its reasoning is valid only as it was sent."""

    def __init__(self) -> None:
        self._sealed: dict[str, dict[str, Any]] = {}
        super().__init__()

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def step(self, step: ScriptedStep) -> None:
        """Script a whole, well-formed step; a thought is sealed for the next request."""
        item = None
        if step.thought:
            item = reasoning_item(len(self._sealed), step.thought)
            self.seal(item)
        self.reply(Reply((b"".join(response_stream(step, item)),)))

    def stream(self, *parts: Part) -> None:
        """Script an event stream by its bytes."""
        self.reply(Reply(parts))

    def seal(self, *items: dict[str, Any]) -> None:
        """Take reasoning items as given out."""
        self._sealed.update((item["id"], item) for item in items)

    def forget_reasoning(self) -> None:
        """From now on the earlier reasoning is another account's."""
        self._sealed.clear()

    def judge(self, request: Request) -> Reply | None:
        if request.path != "/v1/responses":
            return json_reply(404, {"error": {"message": f"Invalid URL {request.path}"}})
        body = request.body
        fault = responses_fault(body)
        if fault is not None:
            self.faults.append(fault)
            return json_reply(400, {"error": _error(fault, None)})
        for item in body["input"]:
            if item.get("type") == "reasoning" and self._sealed.get(item["id"]) != item:
                fault = f"The encrypted content for item {item['id']} could not be verified."
                return json_reply(400, {"error": _error(fault, "invalid_encrypted_content")})
        return None


def reasoning_item(number: int, thought: str) -> dict[str, Any]:
    """A reasoning item as the vendor completes it."""
    return {
        "id": f"rs_{number}",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": thought}],
        "encrypted_content": f"sealed-{number}-{thought}",
    }


class ResponseStream:
    """Writes the numbered events of one response."""

    def __init__(self) -> None:
        self._number = 0

    def event(self, kind: str, **members: Any) -> bytes:
        """One event."""
        data = {"type": kind, "sequence_number": self._number, **members}
        self._number += 1
        return server_sent_event(data, kind)


def response_body(status: str, output: list[dict[str, Any]], **members: Any) -> dict[str, Any]:
    """A response object."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1700000000,
        "status": status,
        "model": "scripted",
        "output": output,
        "error": None,
        "incomplete_details": None,
        **members,
    }


USAGE = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 5},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 18,
}


def response_stream(step: ScriptedStep, reasoning: dict[str, Any] | None = None) -> list[bytes]:
    """The events of a step, as documented."""
    writer = ResponseStream()
    events = [
        writer.event("response.created", response=response_body("in_progress", [])),
        writer.event("response.in_progress", response=response_body("in_progress", [])),
    ]
    output: list[dict[str, Any]] = []
    if reasoning is not None:
        events += _reasoning_events(writer, reasoning, step.thought)
        output.append(reasoning)
    if step.text:
        item = _message_item(step.text)
        events += _message_events(writer, len(output), item, step.text)
        output.append(item)
    for index, call in enumerate(step.calls):
        item = {
            "id": f"fc_{index}",
            "type": "function_call",
            "status": "completed",
            "call_id": f"call_{index}",
            "name": call.name,
            "arguments": call.arguments,
        }
        place = {"output_index": len(output), "item_id": item["id"]}
        begun = {**item, "status": "in_progress", "arguments": ""}
        events.append(
            writer.event("response.output_item.added", output_index=len(output), item=begun)
        )
        kind = "response.function_call_arguments"
        events += [
            writer.event(f"{kind}.delta", delta=part, **place) for part in halves(call.arguments)
        ]
        events.append(writer.event(f"{kind}.done", arguments=call.arguments, **place))
        events.append(
            writer.event("response.output_item.done", output_index=len(output), item=item)
        )
        output.append(item)
    finish = step.finish or "completed"
    members: dict[str, Any] = {"usage": USAGE}
    if finish != "completed":
        members["incomplete_details"] = {"reason": finish}
    status = "completed" if finish == "completed" else "incomplete"
    events.append(
        writer.event(f"response.{status}", response=response_body(status, output, **members))
    )
    return events


def _message_item(text: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
        "phase": "final_answer",
    }


def _message_events(
    writer: ResponseStream, index: int, item: dict[str, Any], text: str
) -> list[bytes]:
    place = {"output_index": index, "item_id": item["id"], "content_index": 0}
    begun = {**item, "status": "in_progress", "content": []}
    part = {"type": "output_text", "text": "", "annotations": []}
    return [
        writer.event("response.output_item.added", output_index=index, item=begun),
        writer.event("response.content_part.added", part=part, **place),
        *(
            writer.event("response.output_text.delta", delta=piece, logprobs=[], **place)
            for piece in halves(text)
        ),
        writer.event("response.output_text.done", text=text, logprobs=[], **place),
        writer.event("response.content_part.done", part={**part, "text": text}, **place),
        writer.event("response.output_item.done", output_index=index, item=item),
    ]


def _reasoning_events(writer: ResponseStream, item: dict[str, Any], thought: str) -> list[bytes]:
    begun = {**item, "summary": [], "encrypted_content": "not yet"}
    place = {"output_index": 0, "item_id": item["id"], "summary_index": 0}
    kind = "response.reasoning_summary"
    return [
        writer.event("response.output_item.added", output_index=0, item=begun),
        writer.event(f"{kind}_part.added", part={"type": "summary_text", "text": ""}, **place),
        *(writer.event(f"{kind}_text.delta", delta=part, **place) for part in halves(thought)),
        writer.event(f"{kind}_text.done", text=thought, **place),
        writer.event("response.output_item.done", output_index=0, item=item),
    ]


def responses_fault(body: Any) -> str | None:
    """What a request breaks, in the vendor's words; None if nothing."""
    items = body.get("input")
    if not isinstance(items, list) or not items:
        return "One of 'input' or 'previous_response_id' must be provided."
    if has_lone_surrogate(body):
        return "invalid Unicode in the request"
    if body.get("store") is not False or body.get("stream") is not True:
        return "'store' must be false and 'stream' true here"
    pending: list[str] = []
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        if pending and kind not in ("function_call", "function_call_output"):
            return f"No tool output found for function call {pending[0]}."
        if kind == "reasoning":
            following = items[index + 1].get("type", "message") if index + 1 < len(items) else ""
            own = items[index + 1].get("role", "assistant") if following else ""
            if following not in ("message", "function_call", "reasoning") or own != "assistant":
                return (
                    f"Item '{item['id']}' of type 'reasoning' was provided without its required"
                    " following item."
                )
        elif kind == "function_call":
            if not NAME.fullmatch(item["name"]):
                return f"Invalid 'input[{index}].name': {item['name']!r}"
            if item["call_id"] in pending:
                return f"Duplicate function call {item['call_id']}"
            pending.append(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in pending:
                return f"No tool call found for function call output with call_id {item['call_id']}"
            pending.remove(item["call_id"])
        elif not isinstance(item.get("content"), str) or not item["content"].strip():
            return f"Invalid 'input[{index}].content': blank"
    return f"No tool output found for function call {pending[0]}." if pending else None


def _error(message: str, code: str | None) -> dict[str, Any]:
    return {"message": message, "type": "invalid_request_error", "param": "input", "code": code}
