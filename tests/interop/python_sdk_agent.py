"""A peer: the Python SDK's echo agent (protocol version 1), run in `.venv-interop`."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import acp


class EchoAgent(acp.Agent):
    """Says what it is told."""

    def on_connect(self, conn: Any) -> None:
        """Keep the connection."""
        self._conn = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        """Take whatever is asked for."""
        return acp.InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, **_: Any) -> acp.NewSessionResponse:
        """Any folder will do."""
        del cwd
        return acp.NewSessionResponse(session_id=uuid4().hex)

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> acp.PromptResponse:
        """Say each block of text again."""
        for block in prompt:
            chunk = acp.update_agent_message(acp.text_block(getattr(block, "text", "")))
            await self._conn.session_update(session_id=session_id, update=chunk)
        return acp.PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    asyncio.run(acp.run_agent(EchoAgent()))
