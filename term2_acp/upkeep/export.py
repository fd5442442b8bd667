"""A session as JSON lines or as Markdown, written as it is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from term2_acp.agent.ports import DiffContent, TerminalContent, TextContent
from term2_acp.eventlog import LinkBlock, PlanUpdated, PromptBlock, TextBlock, UserMessage
from term2_acp.replay import AgentMessageItem, Item, TerminalItem, ToolCallItem, items
from term2_acp.upkeep.times import rfc3339

if TYPE_CHECKING:
    from term2_acp.store import SessionRecord, Store

_MARKS = {"completed": "x", "in_progress": "-"}
# Colours and cursor movements of a terminal.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")


def json_lines(store: Store, record: SessionRecord) -> Iterator[str]:
    """The session, then each event of its log as it is stored, also of kinds not known here."""
    yield json.dumps(describe(record), ensure_ascii=False)
    for row in store.rows(record.session_id, upto=record.last_seq):
        event: dict[str, object] = {"seq": row.seq, "at": rfc3339(row.at), "type": row.name}
        try:
            event["data"] = json.loads(row.text or "")
        except ValueError:
            event["damaged"] = row.text
        yield json.dumps(event, ensure_ascii=False)


def describe(record: SessionRecord) -> dict[str, object]:
    """A session as JSON."""
    return {
        "sessionId": record.session_id,
        "cwd": record.cwd,
        "title": record.title,
        "createdAt": rfc3339(record.created_at),
        "updatedAt": rfc3339(record.updated_at),
    }


def markdown(store: Store, record: SessionRecord) -> Iterator[str]:
    """The conversation as a document, a part at a time."""
    yield f"# {record.title or 'Untitled'}\n"
    yield (
        f"Session `{record.session_id}` in `{record.cwd}`, {rfc3339(record.created_at)}"
        f" to {rfc3339(record.updated_at)}.\n"
    )
    events = (event for _seq, event in store.read(record.session_id, upto=record.last_seq))
    for item in items(events):
        yield "\n" + "".join(f"{line}\n" for line in _section(item))


def _section(item: Item) -> Iterator[str]:
    match item:
        case UserMessage(content=content):
            yield from ("## You", "", *map(_block, content))
        case AgentMessageItem(texts=texts, is_thought=True):
            yield from (f"> {line}" for line in "".join(texts).split("\n"))
        case AgentMessageItem(texts=texts):
            yield from ("## Agent", "", "".join(texts))
        case ToolCallItem():
            yield from _call(item)
        case TerminalItem():
            yield from _terminal(item)
        case PlanUpdated(entries=entries):
            yield from ("### Plan", "")
            yield from (f"- [{_MARKS.get(e.status, ' ')}] {e.content}" for e in entries)


def _block(block: PromptBlock) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, LinkBlock):
        return f"[{block.name}](<{block.uri}>)"
    return "\n".join([f"`{block.uri}`", "", *_fenced(block.text)])


def _call(item: ToolCallItem) -> Iterator[str]:
    status = item.ended.status if item.ended else item.running
    yield f"### {item.created.title} ({item.created.name}, {status})"
    for content in item.content:
        match content:
            case TextContent(text):
                yield from ("", *_fenced(text))
            case DiffContent(changes):
                for change in changes:
                    yield f"- {change.kind} `{change.path}`"
            case TerminalContent(terminal_id):
                yield f"- terminal `{terminal_id}`"


def _terminal(item: TerminalItem) -> Iterator[str]:
    yield f"### Terminal `{item.opened.terminal_id}`"
    output = b"".join(item.output).decode(errors="replace")
    yield from ("", *_fenced(f"$ {item.opened.command}\n{_ESCAPES.sub('', output)}"))
    if item.exited is not None and (item.exited.signal or item.exited.exit_code is not None):
        yield f"\nEnded with {item.exited.signal or item.exited.exit_code}."


def _fenced(text: str) -> Iterable[str]:
    """A text between fences that are longer than any in it."""
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return (fence, text.rstrip("\n"), fence)
