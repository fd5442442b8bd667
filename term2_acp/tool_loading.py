"""Loads the tools when the first session exists: a turn needs them, an open session does not."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from term2_acp.agent.model import ToolSpec
    from term2_acp.agent.ports import Tool

# Named, not imported: it takes as long as a fifth of what `session/new` waits for.
_REGISTRY = "term2_acp.tools.registry"


class ToolLoader(Mapping[str, "Tool"]):
    """The tools by name; the first look at them loads them. Safe to use from any thread."""

    def load(self) -> None:
        """Load them now, if they are not."""
        _ = self.specs

    @functools.cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model is told of them."""
        tools = self._tools.values()
        return cast("tuple[ToolSpec, ...]", importlib.import_module(_REGISTRY).tool_specs(tools))

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    @functools.cached_property
    def _tools(self) -> dict[str, Tool]:
        tools: tuple[Tool, ...] = importlib.import_module(_REGISTRY).builtin_tools()
        return {tool.name: tool for tool in tools}
