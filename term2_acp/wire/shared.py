"""Shapes that are the same in versions 1 and 2; a class with a `tag` carries it."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs

from term2_acp.wire.base import lenient


@attrs.frozen
class TextContent:
    """Plain text."""

    tag: ClassVar = ("type", "text")
    text: str


@attrs.frozen
class ResourceLink:
    """A pointer to a resource."""

    tag: ClassVar = ("type", "resource_link")
    name: str
    uri: str
    title: str | None = lenient()
    description: str | None = lenient()
    mime_type: str | None = lenient()
    size: int | None = lenient()


@attrs.frozen
class TextResourceContents:
    """The text of an embedded resource."""

    uri: str
    text: str
    mime_type: str | None = lenient()


@attrs.frozen
class EmbeddedResource:
    """A resource that came with its text."""

    tag: ClassVar = ("type", "resource")
    resource: TextResourceContents


@attrs.frozen
class NewSessionRequest:
    """Params of session/new."""

    cwd: str


@attrs.frozen
class ListSessionsRequest:
    """Params of session/list."""

    cwd: str | None = None
    cursor: str | None = None


@attrs.frozen
class SessionParams:
    """Params of session/cancel and session/close."""

    session_id: str


@attrs.frozen
class SelectedOutcome:
    """The one outcome of a permission request that may allow."""

    outcome: str
    option_id: str


@attrs.frozen
class RequestPermissionResponse:
    """The client's answer to session/request_permission."""

    outcome: SelectedOutcome


@attrs.frozen
class NewSessionResponse:
    """Result of session/new."""

    session_id: str


@attrs.frozen
class SessionInfo:
    """One entry of the list."""

    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None


@attrs.frozen
class ListSessionsResponse:
    """Result of session/list."""

    sessions: tuple[SessionInfo, ...]
    next_cursor: str | None = None


@attrs.frozen
class Content:
    """Tool content: a content block."""

    tag: ClassVar = ("type", "content")
    content: TextContent


@attrs.frozen
class ToolCallLocation:
    """A place that a call touches."""

    path: str
    line: int | None = None


@attrs.frozen
class PlanEntry:
    """One step of a plan."""

    content: str
    priority: str
    status: str


@attrs.frozen
class UsageUpdate:
    """Tokens in the context and its size."""

    tag: ClassVar = ("sessionUpdate", "usage_update")
    used: int
    size: int


@attrs.frozen
class SessionInfoUpdate:
    """The session's title."""

    tag: ClassVar = ("sessionUpdate", "session_info_update")
    title: str


@attrs.frozen
class UpdateSessionNotification:
    """Params of session/update."""

    session_id: str
    update: Any


@attrs.frozen
class PermissionOption:
    """One choice."""

    option_id: str
    name: str
    kind: str
