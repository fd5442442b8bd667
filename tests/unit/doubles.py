"""Doubles that the unit tests of the core share: they keep what they get and follow a script."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import attrs

from term2_acp.agent.cancel import CancelToken
from term2_acp.agent.model import ModelEvent, ModelRequest
from term2_acp.agent.ports import (
    CallPlan,
    ShellResult,
    ToolContext,
    ToolKind,
    ToolOutcome,
    nothing_waits,
)
from term2_acp.eventlog import Event
from term2_acp.permissions import PermissionQuestion
from term2_acp.tools.parameters import parameter

DEADLINE_S = 30.0
"""Waits that end a test which hangs; far longer than anything takes."""
MOMENT_S = 0.1
"""So long a thread gets to do what it must not do."""


class Sent:
    """The writer of the pipes, as far as responses and requests go: keeps them in order."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self._changed = threading.Condition()

    def send(self, message: Any) -> None:
        """Keep a message."""
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        """Wait until so many messages were sent."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.messages) >= count, DEADLINE_S)


class RecordingSink:
    """A `sessions.Sink` that keeps what is shown, and may make producers wait."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.room = threading.Event()
        self.room.set()
        self.waiting = threading.Event()

    def deliver(self, session_id: str, event: Event) -> None:
        """Keep an event; the session's emit lock gives the order."""
        self.events.append(event)

    def together(self) -> AbstractContextManager[None]:
        """Nothing goes out of here."""
        return nullcontext()

    def wait_for_room(self, session_id: str, cancel: CancelToken) -> None:
        """Wait until there is room or the token is set."""
        self.waiting.set()
        with cancel.on_cancel(self.room.set):
            assert self.room.wait(DEADLINE_S)


class RecordingLog:
    """An `agent.calls.TurnLog` that keeps the events; `on_emit` sees each before it is kept."""

    def __init__(self, on_emit: Callable[[Event], None] = lambda event: None) -> None:
        self.cancel = CancelToken()
        self.events: list[Event] = []
        self._on_emit = on_emit
        self._lock = threading.Lock()

    def emit(self, *events: Event) -> None:
        """Keep events."""
        for event in events:
            self._on_emit(event)
            with self._lock:
                self.events.append(event)

    def of(self, *kinds: type[Any]) -> list[Any]:
        """The events of some kinds, in order."""
        return [event for event in self.events if isinstance(event, kinds)]


Step = Iterable[ModelEvent | Exception | Callable[[], object]]


class ScriptedProvider:
    """Streams the scripted steps, one a request; an exception is raised, a function called."""

    name = "scripted"

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.requests: list[ModelRequest] = []
        self.closed = 0

    def stream(
        self,
        request: ModelRequest,
        cancel: CancelToken,
        before_wait: Callable[[], None] = nothing_waits,
    ) -> Generator[ModelEvent, None, None]:
        """Yield the next step."""
        self.requests.append(request)
        try:
            for item in self._steps.pop(0):
                if isinstance(item, Exception):
                    raise item
                if callable(item):
                    before_wait()
                    item()
                else:
                    yield item
        finally:
            self.closed += 1

    def context_window(self, model: str, cancel: CancelToken) -> int | None:
        """Not known."""
        return None


@attrs.frozen
class PathParams:
    """The parameters of a scripted tool."""

    path: str = parameter("a path")
    count: int = parameter("how many", default=1)


@attrs.define(eq=False)
class ScriptedTool:
    """A tool whose plan and outcome are given by functions; keeps the parameters it ran with."""

    name: str
    kind: ToolKind = ToolKind.READ
    planned: Callable[[PathParams], CallPlan] = lambda params: CallPlan(params.path)
    done: Callable[[PathParams, ToolContext], ToolOutcome] = lambda params, context: ToolOutcome(
        f"did {params.path}"
    )
    description: str = "scripted"
    params: type[Any] = PathParams
    ran: list[PathParams] = attrs.field(factory=list)

    def plan(self, params: PathParams, workspace: Any) -> CallPlan:
        """The scripted plan."""
        return self.planned(params)

    def run(self, params: PathParams, context: ToolContext) -> ToolOutcome:
        """The scripted outcome."""
        self.ran.append(params)
        return self.done(params, context)


class ScriptedClient:
    """A permission client that gives the scripted answers; a function is called for one."""

    def __init__(self, *answers: str | Callable[[CancelToken], str | None] | None) -> None:
        self._answers = list(answers)
        self._lock = threading.Lock()
        self.questions: list[PermissionQuestion] = []

    def ask(self, question: PermissionQuestion, cancel: CancelToken) -> str | None:
        """Give the next answer."""
        with self._lock:
            self.questions.append(question)
            answer = self._answers.pop(0)
        return answer(cancel) if callable(answer) else answer


class NoShell:
    """A shell for tests in which nothing is run."""

    def run(self, command: str, **_options: Any) -> ShellResult:
        """Nothing runs."""
        raise AssertionError(f"nothing was to be run: {command}")

    def any_running(self) -> bool:
        """Nothing does."""
        return False


@attrs.define
class Thrown:
    """What a thread ended with."""

    result: Any = None
    error: BaseException | None = None


class Background:
    """A function on a named thread of its own; `result` waits for it and raises what it raised."""

    def __init__(self, function: Callable[[], Any], name: str = "test-background") -> None:
        self._outcome = Thrown()
        self._function = function
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome.result = self._function()
        except BaseException as error:  # noqa: BLE001 (raised again by result)
            self._outcome.error = error

    def ended_within(self, seconds: float) -> bool:
        """Whether it ends in that time."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def result(self) -> Any:
        """Its result, or what it raised."""
        assert self.ended_within(DEADLINE_S), "the thread did not end"
        if self._outcome.error is not None:
            raise self._outcome.error
        return self._outcome.result


def together(functions: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run functions on threads of their own that start at the same moment; their results."""
    barrier = threading.Barrier(len(functions))

    def held(function: Callable[[], Any]) -> Any:
        barrier.wait(DEADLINE_S)
        return function()

    threads = [
        Background(lambda function=function: held(function), f"test-together-{number}")
        for number, function in enumerate(functions)
    ]
    return [thread.result() for thread in threads]
