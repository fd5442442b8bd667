"""
Drives `term2 acp` with the Python SDK's client of protocol version 1.

It runs in an interpreter of its own, which has the SDK: PROJECT COMMAND… are the folder to
work in and the agent. It prints one line of JSON; exit status 0 if everything held, 1 if
not. The environment is the agent's too.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import json
import logging
import os
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import acp
from acp import schema

PROMPT = """\
/think Water first.
/read README.md
/replace src/kettle.py 100 => 96
/create .vscode/settings.json <<{}
/shell echo leaked > ../outside.txt; wc -l < src/kettle.py > lines.txt; echo counted
/plan Boil water; Pour it
/say The tea is ready."""


class Editor:
    """The client's side: it keeps the updates, and answers permissions when told to."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.permissions: asyncio.Queue[Permission] = asyncio.Queue()
        self._changed = asyncio.Condition()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """An update of a session."""
        async with self._changed:
            self.updates.append(update)
            self._changed.notify_all()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        """A question, which is answered when `Permission.answer` is called."""
        permission = Permission(tool_call, options)
        await self.permissions.put(permission)
        return await permission.answered

    async def wait_text(self, text: str) -> None:
        """Wait until the agent has said `text`."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: text in text_of(self.updates, schema.AgentMessageChunk)
            )


class Permission:
    """A permission that the agent asks for."""

    def __init__(self, tool_call: Any, options: list[schema.PermissionOption]) -> None:
        self.tool_call = tool_call
        self.options = options
        self.answered: asyncio.Future[schema.RequestPermissionResponse] = (
            asyncio.get_running_loop().create_future()
        )

    def answer(self, kind: str) -> None:
        """Select the option of a kind."""
        (option,) = [option for option in self.options if option.kind == kind]
        self.answered.set_result(
            schema.RequestPermissionResponse(
                outcome=schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
            )
        )


class Complaints(logging.Handler):
    """What the SDK logs: it does so when it cannot understand a message, and drops it."""

    # The SDK has no `$/cancel_request`; it is sent for the permission of a cancelled turn.
    EXPECTED = (
        "Unhandled error while handling notification method=$/cancel_request: Method not found",
    )

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record as text."""
        cause = f": {record.exc_info[1]}" if record.exc_info else ""
        self.said.append(record.getMessage() + cause)


class Exchange:
    """One run: the agents that it starts and the checks that held."""

    def __init__(self, project: Path, command: list[str], report: dict[str, Any]) -> None:
        self.project = project
        self.command = command
        self.report = report

    def check(self, name: str, expected: object, found: object) -> None:
        """
        Add a check to the report.

        Raises:
            AssertionError: the values differ.
        """
        if expected != found:
            raise AssertionError(f"{name}: expected {expected!r}, found {found!r}")
        if name not in self.report["checked"]:
            self.report["checked"].append(name)

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[Any, Editor]]:
        """Start an agent, negotiate version 1, and judge its end."""
        editor = Editor()
        wire: list[dict[str, Any]] = []

        def observe(event: Any) -> None:
            if event.direction.value == "incoming":
                wire.append(event.message)

        program, *arguments = self.command
        async with acp.spawn_agent_process(
            editor,  # type: ignore[arg-type]  # files and terminals are left out
            program,
            *arguments,
            env=os.environ,
            cwd=self.project,
            transport_kwargs={"stderr": None, "shutdown_timeout": 10.0},
            observers=[observe],
        ) as (connection, process):
            initialized = await connection.initialize(
                acp.PROTOCOL_VERSION,
                client_info=schema.Implementation(name="term2-interop", version="1"),
            )
            self.check("initialize", 1, initialized.protocol_version)
            self.check("agentInfo", "term2", initialized.agent_info.name)
            self.check("loadSession", True, initialized.agent_capabilities.load_session)
            self.report["agent"] = initialized.agent_info.version
            yield connection, editor
        self.check("exit at the end of input", 0, process.returncode)
        sent = [
            message["params"]["update"]
            for message in wire
            if message.get("method") == "session/update"
        ]
        typed = [
            update.model_dump(mode="json", by_alias=True, exclude_unset=True)
            for update in editor.updates
        ]
        # The SDK has no `name` for a tool call, and leaves out what it does not know.
        for update in sent:
            if update["sessionUpdate"] == "tool_call":
                self.check("name of a tool call", str, type(update.pop("name")))
        self.check("every other member of every update understood", sent, typed)

    async def run(self) -> None:
        """Two agents, one after the other, on the same session."""
        async with self.connected() as (connection, editor):
            session = (await connection.new_session(cwd=str(self.project))).session_id
            self.check("session/new", True, bool(session))
            await self._turn(connection, editor, session)
            await self._refusals(connection, editor, session)
            await self._cancels(connection, editor, session)
            await self._listing(connection, session)
        live = editor.updates
        async with self.connected() as (connection, editor):
            await connection.load_session(cwd=str(self.project), session_id=session)
            self._replay(live, list(editor.updates))
            again = asyncio.create_task(prompt(connection, session, "/shell cat lines.txt"))
            (await editor.permissions.get()).answer("allow_once")
            self.check("session/prompt after a load", "end_turn", (await again).stop_reason)
            await connection.close_session(session_id=session)
            await self._refused("session/close", -32002, prompt(connection, session, "/say no"))
            count = len(editor.updates)
            await connection.resume_session(session_id=session, cwd=str(self.project))
            self.check("session/resume after a close", count, len(editor.updates))

    async def _turn(self, connection: Any, editor: Editor, session: str) -> None:
        turn = asyncio.create_task(prompt(connection, session, PROMPT))
        edit = await editor.permissions.get()
        self.check("permission to edit", "edit", edit.tool_call.kind)
        self.check("no edit before", False, (self.project / ".vscode/settings.json").exists())
        edit.answer("allow_once")
        shell = await editor.permissions.get()
        self.check("permission to run", "execute", shell.tool_call.kind)
        kinds = [option.kind for option in shell.options]
        self.check("options", ["allow_once", "reject_once"], kinds)
        shell.answer("allow_once")
        self.check("session/prompt", "end_turn", (await turn).stop_reason)

        updates = editor.updates
        thought = text_of(updates, schema.AgentThoughtChunk)
        self.check("agent_thought_chunk", "Water first.", thought)
        said = text_of(updates, schema.AgentMessageChunk)
        self.check("agent_message_chunk", True, "The tea is ready." in said)
        plans = [update for update in updates if isinstance(update, schema.AgentPlanUpdate)]
        steps = [entry.content for entry in plans[-1].entries]
        self.check("plan", ["Boil water", "Pour it"], steps)
        calls = [call for call in calls_of(updates) if call["kind"] != "think"]
        self.check(
            "tool_call and tool_call_update",
            [
                ("read", "completed"),
                ("edit", "completed"),
                ("edit", "completed"),
                ("execute", "completed"),
            ],
            [(call["kind"], call["status"]) for call in calls],
        )
        path = self.project / "src/kettle.py"
        (diff,) = [item for item in calls[1]["content"] if item.type == "diff"]
        self.check(
            "diff",
            (str(path), "BOILING_POINT = 100\n", "BOILING_POINT = 96\n"),
            (diff.path, diff.old_text, diff.new_text),
        )
        self.check("edit", "BOILING_POINT = 96\n", path.read_text(encoding="utf-8"))
        settings = self.project / ".vscode/settings.json"
        self.check("protected edit", "{}\n", settings.read_text(encoding="utf-8"))
        output = "".join(item.content.text for item in calls[3]["content"])
        self.check("output of the shell", True, "counted\n" in output)
        outside = (self.project / "../outside.txt").exists()
        self.check("shell in the sandbox", False, outside)

    async def _refusals(self, connection: Any, editor: Editor, session: str) -> None:
        count = len(editor.updates)
        turn = asyncio.create_task(prompt(connection, session, "/shell touch denied.txt"))
        (await editor.permissions.get()).answer("reject_once")
        self.check("turn of a rejected call", "end_turn", (await turn).stop_reason)
        statuses = [call["status"] for call in calls_of(editor.updates[count:])]
        self.check("permission rejected", ["failed"], statuses)
        self.check("nothing ran", False, (self.project / "denied.txt").exists())
        await self._refused("failed turn", -32603, prompt(connection, session, "/fail"))
        await self._refused("unknown session", -32002, prompt(connection, "unknown", "/say no"))
        mode = connection.set_session_mode(session_id=session, mode_id="ask")
        await self._refused("unsupported method", -32601, mode)

    async def _cancels(self, connection: Any, editor: Editor, session: str) -> None:
        turn = asyncio.create_task(prompt(connection, session, "/say Wait.\n/sleep 600"))
        await editor.wait_text("Wait.")
        await self._refused("busy session", -32010, prompt(connection, session, "/say no"))
        await connection.cancel(session_id=session)
        self.check("session/cancel during a model call", "cancelled", (await turn).stop_reason)

        turn = asyncio.create_task(prompt(connection, session, "/shell touch late.txt"))
        permission = await editor.permissions.get()
        await connection.cancel(session_id=session)
        self.check("session/cancel of a permission", "cancelled", (await turn).stop_reason)
        permission.answer("allow_once")
        answer = await prompt(connection, session, "/say The pot is empty.")
        self.check("session/prompt after a cancel", "end_turn", answer.stop_reason)
        self.check("a late answer runs nothing", False, (self.project / "late.txt").exists())

    async def _listing(self, connection: Any, session: str) -> None:
        listed = (await connection.list_sessions(cwd=str(self.project))).sessions
        self.check("session/list", [session], [info.session_id for info in listed])
        self.check("title and updatedAt", True, bool(listed[0].title and listed[0].updated_at))

    def _replay(self, live: list[Any], replay: list[Any]) -> None:
        def outline(updates: list[Any]) -> list[tuple[str, str, str]]:
            return [
                (call["tool_call_id"], call["kind"], call["status"]) for call in calls_of(updates)
            ]

        self.check("session/load with replay in a new process", outline(live), outline(replay))
        for kind in (schema.AgentThoughtChunk, schema.AgentMessageChunk):
            self.check("texts of the replay", text_of(live, kind), text_of(replay, kind))
        first = next(update for update in replay if isinstance(update, schema.UserMessageChunk))
        self.check("prompt in the replay", PROMPT, first.content.text)

    async def _refused(self, name: str, code: int, request: Awaitable[object]) -> None:
        try:
            answer = await request
        except acp.RequestError as error:
            self.check(name, code, error.code)
        else:
            raise AssertionError(f"{name}: answered {answer!r} instead of error {code}")


async def prompt(connection: Any, session: str, line: str) -> schema.PromptResponse:
    """Send a text prompt; the answer comes at the end of the turn."""
    return await connection.prompt(session_id=session, prompt=[acp.text_block(line)])


def text_of(updates: list[Any], kind: type) -> str:
    """The text of all chunks of a kind."""
    return "".join(update.content.text for update in updates if isinstance(update, kind))


def calls_of(updates: list[Any]) -> list[dict[str, Any]]:
    """The tool calls as their updates leave them: a later member replaces an earlier one."""
    calls: dict[str, dict[str, Any]] = {}
    for update in updates:
        if isinstance(update, schema.ToolCallStart | schema.ToolCallProgress):
            fields = {name: getattr(update, name) for name in update.model_fields_set}
            calls.setdefault(update.tool_call_id, {}).update(fields)
    return list(calls.values())


def main(arguments: list[str]) -> int:
    """Run the exchange and print its report; the exit status."""
    project, *command = arguments
    report: dict[str, Any] = {
        "ok": False,
        "version": importlib.metadata.version("agent-client-protocol"),
        "checked": [],
    }
    complaints = Complaints()
    logging.getLogger().addHandler(complaints)
    exchange = Exchange(Path(project), command, report)
    try:
        asyncio.run(exchange.run())
        exchange.check("complaints of the SDK", list(Complaints.EXPECTED), complaints.said)
        report["ok"] = True
    except Exception:  # noqa: BLE001 (whatever it is, the report tells it)
        report["error"] = traceback.format_exc()
        report["complaints"] = complaints.said
    sys.stdout.write(json.dumps(report) + "\n")
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
