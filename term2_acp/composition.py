"""The composition root: the only module that knows all others; loaded after `initialize`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from term2_acp import diagnostics, memory
from term2_acp.agent.calls import Surroundings
from term2_acp.agent.loop import AgentLoop, LoopSettings
from term2_acp.agent.ports import CallPlan
from term2_acp.agent.prompt import system_prompt
from term2_acp.agent.turns import TurnRunner
from term2_acp.config import Config
from term2_acp.directories import WorkspaceRules
from term2_acp.eventlog import SystemPromptSet
from term2_acp.files.ledger import ReadLedger
from term2_acp.handlers.permission import WirePermissionClient, shape_v1, shape_v2
from term2_acp.handlers.updates_v1 import UpdatesV1
from term2_acp.handlers.updates_v2 import UpdatesV2
from term2_acp.handlers.v1 import HandlersV1
from term2_acp.handlers.v2 import HandlersV2
from term2_acp.permissions import PermissionClient, Permissions
from term2_acp.provider_loading import ProviderLoader
from term2_acp.redaction import Redactor
from term2_acp.registry import SessionRegistry
from term2_acp.rpc.engine import Engine
from term2_acp.selection import Selection, select
from term2_acp.sessions import Session, Sink, Turn
from term2_acp.shell import SandboxedShell
from term2_acp.store import SessionRecord, Store
from term2_acp.tool_loading import ToolLoader
from term2_acp.wire import v1, v2
from term2_acp.workspace import FileScope, Workspace

if TYPE_CHECKING:
    from term2_acp.folders import Folders
    from term2_acp.rpc.outbound import OutboundRequests
    from term2_acp.rpc.writer import Writer


def build(
    version: int,
    *,
    folders: Folders,
    config: Config | None,
    selection: Selection | None,
    writer: Writer,
    outbound: OutboundRequests,
) -> tuple[SessionRegistry, Engine]:
    """Everything behind the pipes for a protocol version: 1 or 2."""
    settings = config or Config()
    chosen = selection or select(settings, provider=None, model=None, effort=None)
    converter = v1.make_converter() if version == 1 else v2.make_converter()
    updates = UpdatesV1(writer, converter) if version == 1 else UpdatesV2(writer, converter)
    shape = shape_v1 if version == 1 else shape_v2
    client = WirePermissionClient(outbound, converter, shape)
    core = _Core(folders, settings, chosen, updates, client)
    registry = SessionRegistry(
        folders.state,
        WorkspaceRules(folders.home, folders.private),
        core.make_session,
        settings.max_sessions,
    )
    handlers = HandlersV1 if version == 1 else HandlersV2
    runner = TurnRunner(core.make_loop)
    table = handlers(registry, runner, updates, converter, core.warm_up).table()
    return registry, Engine(table)


class _Core:
    """Makes sessions and loops; the same for every protocol version."""

    def __init__(
        self,
        folders: Folders,
        config: Config,
        selection: Selection,
        sink: Sink,
        client: PermissionClient,
    ) -> None:
        self._folders = folders
        self._config = config
        self._selection = selection
        self._sink = sink
        self._client = client
        self._loader = ProviderLoader(selection, config.stream_idle_timeout_s)
        # The key is a secret whatever its variable is called; no variable has such a name.
        self._redactor = Redactor({**os.environ, "provider=KEY": selection.api_key or ""})
        diagnostics.redact_by(self._redactor.text)
        self._tools = ToolLoader()

    def make_session(self, record: SessionRecord, store: Store) -> Session:
        """A live session with what its tool calls share."""
        permissions = Permissions(record.cwd, self._folders.private, self._folders.home)
        shell = SandboxedShell(
            record.cwd,
            session_id=record.session_id,
            state_dir=os.path.join(self._folders.state, "sandbox"),
            hidden=(*self._folders.private, *permissions.stores),
        )
        surroundings = Surroundings(
            session_id=record.session_id,
            workspace=Workspace(record.cwd),
            permissions=permissions,
            ledger=ReadLedger(),
            shell=shell,
            tools=self._tools,
            client=self._client,
            redactor=self._redactor,
        )

        def release() -> None:
            shell.close()
            memory.give_back()

        return Session(record, store, self._sink, surroundings, release)

    def warm_up(self) -> None:
        """Load what a turn needs; called when a session was opened and that was answered."""
        memory.bound_heaps()
        self._loader.warm_up()
        self._tools.load()

    def make_loop(self, turn: Turn) -> AgentLoop:
        """The loop that runs a turn."""
        around = turn.session.surroundings
        # The plan of no call: what may be read without a question.
        files = FileScope(
            around.workspace, around.ledger, around.permissions.judge(CallPlan("")).permits
        )
        settings = LoopSettings(
            model=self._selection.model,
            system=_system_of(turn, files),
            tools=self._tools.specs,
            effort=self._selection.effort,
            max_turn_requests=self._config.max_turn_requests,
            window=self._loader.window,
        )
        return AgentLoop(self._loader.get(turn.cancel), settings)


def _system_of(turn: Turn, files: FileScope) -> str:
    """The session's system prompt: made once and stored, the same after a resume."""
    system = turn.session.conversation(lambda conversation: conversation.system)
    if system is None:
        system = system_prompt(turn.session.surroundings.workspace, files)
        turn.emit(SystemPromptSet(system))
    return system
