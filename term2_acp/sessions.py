"""Live sessions: their turns, their log, and the registry that owns them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs

from term2_acp.agent.cancel import Cancelled, CancelToken
from term2_acp.agent.context import CONTEXT_EVENTS, Conversation, Past
from term2_acp.errors import SessionBusyError, SessionNotFoundError, StoreError
from term2_acp.eventlog import (
    Event,
    PromptBlock,
    SessionState,
    StateChanged,
    StopReason,
    TitleSet,
    ToolCallEnded,
    ToolStatus,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from term2_acp.identifiers import new_id
from term2_acp.openwork import OpenWork
from term2_acp.titles import title_of

if TYPE_CHECKING:
    from term2_acp.agent.calls import Surroundings
    from term2_acp.agent.model import ModelMessage
    from term2_acp.store import SessionRecord, Store

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Sink(Protocol):
    """Shows events to the client, projected to the negotiated version."""

    def deliver(self, session_id: str, event: Event) -> None:
        """Queue what the client is to see of an event; never waits."""
        ...

    def together(self) -> AbstractContextManager[object]:
        """What is delivered in the block goes out at its end."""
        ...

    def wait_for_room(self, session_id: str, cancel: CancelToken) -> None:
        """Wait while the session has too much queued, until `cancel` is set."""
        ...


@attrs.define(eq=False)
class Turn:
    """
    One prompt being answered. `cancel` stops it; `settled` is set after its last event.

    As a `TurnLog` it hands events on to its session.
    """

    session: Session
    turn_id: str
    prompt: tuple[PromptBlock, ...]
    cancel: CancelToken = attrs.Factory(CancelToken)
    settled: threading.Event = attrs.Factory(threading.Event)

    def emit(self, *events: Event) -> None:
        """Append and show events; see `agent.calls.TurnLog`."""
        self.session.emit(events, self.cancel)

    def messages(self) -> tuple[ModelMessage, ...]:
        """The conversation so far, for the next request."""
        return self.session.conversation(Conversation.messages)

    def past(self) -> Past:
        """What a compaction would stand for."""
        return self.session.conversation(Conversation.past)

    def used_tokens(self) -> int:
        """Tokens in the context as the last step reported them."""
        return self.session.conversation(lambda conversation: conversation.used_tokens)


@attrs.frozen
class Position:
    """
    Where a replay of a live session ends: the log's position and the turn's state there.

    `owed` are the ends that were shown, but could not be stored yet.
    """

    seq: int
    state: SessionState | None
    owed: tuple[Event, ...] = ()


class Session:
    """
    A session that is live in this process.

    The emit lock makes the log's order the order on the wire: it is held while
    events are appended and queued, never while anybody waits for the client. The
    turn slot is taken on the dispatcher and freed under the emit lock, so that the
    next prompt's first event comes after this one's last.

    Args:
        surroundings: what its tool calls share.
        release: gives up what the session holds outside of the log; called by the
            registry once the session is closed.
    """

    def __init__(
        self,
        record: SessionRecord,
        store: Store,
        sink: Sink,
        surroundings: Surroundings,
        release: Callable[[], None],
    ) -> None:
        self.session_id = record.session_id
        self.cwd = record.cwd
        self.surroundings = surroundings
        self.release = release
        self._store = store
        self._sink = sink
        self._emit_lock = threading.Lock()
        self._slot_lock = threading.Lock()
        self._seq = record.last_seq
        # Nothing before it is in the model's context.
        self._context_from = record.context_from or 1
        self._titled = record.title is not None
        self._turn: Turn | None = None
        self._state: SessionState | None = None
        self._open_work = OpenWork()
        # The end of a turn that could not be stored; stored with the next beginning.
        self._owed: list[Event] = []
        # What is to be shown after a replay although it is not in the log.
        self._unlogged: list[Event] = []
        self._conversation: Conversation | None = None
        self._closed = False
        # Set when the session is being closed; ends a replay that is under way.
        self.closing = CancelToken()
        # A replay holds live updates back until its response is out.
        self._held = False
        self._unheld = threading.Condition()

    # --- the turn

    def admit(self, prompt: tuple[PromptBlock, ...]) -> Turn:
        """
        Take the turn slot; called on the dispatcher.

        Raises:
            SessionBusyError: another prompt has it.
            SessionNotFoundError: the session is being closed.
        """
        with self._slot_lock:
            if self._closed:
                raise SessionNotFoundError(self.session_id)
            if self._turn is not None:
                raise SessionBusyError(self.session_id)
            self._turn = Turn(self, new_id("turn"), prompt)
            return self._turn

    def refuse(self, turn: Turn) -> None:
        """An admitted prompt cannot be run after all: nothing of it was stored or shown."""
        self._release(turn)
        turn.settled.set()

    def cancel(self) -> None:
        """Cancel the turn, if there is one; called on the dispatcher."""
        with self._slot_lock:
            turn = self._turn
        if turn is not None:
            turn.cancel.cancel()

    def begin(self, turn: Turn, accepted: Callable[[], None]) -> None:
        """
        Store the prompt and show that the turn runs.

        `accepted` is called between the state and the user's message (spec section 5).

        Raises:
            StoreError: nothing was stored or shown; the slot is free again.
        """
        events: list[Event] = [
            TurnStarted(turn.turn_id),
            UserMessage(new_id("msg"), turn.prompt),
        ]
        if not self._titled:
            events.append(TitleSet(title_of(turn.prompt)))
        with self._unheld_emit_lock(CancelToken()):
            try:
                self._append([*self._owed, *events], turn.cancel)
            except BaseException:
                self._release(turn)
                turn.settled.set()
                raise
            self._owed.clear()
            self._titled = True
            self._show(events[:1])
            accepted()
            self._show(events[1:])

    def end(self, turn: Turn, reason: StopReason, detail: str | None = None) -> StoreError | None:
        """
        Close the turn: its open calls, then its one last event, then the slot.

        Returns what kept the end from being stored, as which the turn has then ended,
        whatever `reason` says; a cancelled one ends as that all the same.
        """
        failure = None
        with self._emit_lock:
            if self._turn is not turn:
                # Abandoned by a close; the next resume ends it as interrupted.
                turn.settled.set()
                return None
            status = ToolStatus.CANCELLED if reason is StopReason.CANCELLED else ToolStatus.FAILED
            text = f"The call ended with the turn ({reason})."
            events = self._open_work.ends(status, text)
            events.append(TurnEnded(turn.turn_id, reason, detail))
            try:
                self._append(events, turn.cancel)
            except StoreError as error:
                logger.error("the end of a turn was not stored: %s", error.message)
                self._owed = list(events)
                if reason is not StopReason.CANCELLED:
                    failure = error
                    events[-1] = TurnEnded(turn.turn_id, StopReason.ERROR)
                self._observe(events)
                if self._held:
                    self._unlogged += events
            self._release(turn)
            self._show(events)
        turn.settled.set()
        return failure

    def emit(self, events: Sequence[Event], cancel: CancelToken) -> None:
        """
        Append events and show them, in order; see `agent.calls.TurnLog`.

        Raises:
            Cancelled: the session was closed under the turn.
            StoreError: they are neither stored nor shown.
        """
        if not all(isinstance(event, ToolCallEnded | StateChanged) for event in events):
            self._sink.wait_for_room(self.session_id, cancel)
            self._wait_unheld(cancel)
        with self._emit_lock:
            if self._closed and self._turn is None:
                raise Cancelled
            self._append(events, cancel)
            self._show(events)

    def conversation(self, read: Callable[[Conversation], T]) -> T:
        """Read the model's context; it is folded from the log once and kept up to date."""
        with self._emit_lock:
            if self._conversation is None:
                conversation = Conversation()
                for _seq, event in self._store.read(
                    self.session_id, self._context_from - 1, self._seq, CONTEXT_EVENTS
                ):
                    conversation.apply(event)
                self._conversation = conversation
            return read(self._conversation)

    # --- replay

    def history(self, upto: Position) -> Iterator[Event]:
        """The events up to a position of the log, read a few at a time."""
        for _seq, event in self._store.read(self.session_id, upto=upto.seq):
            yield event
        yield from upto.owed

    @contextmanager
    def hold(self, cancel: CancelToken) -> Iterator[Position]:
        """
        Hold live updates back for a replay up to the position that is given.

        Afterwards what was logged meanwhile is shown. One replay at a time.

        Raises:
            Cancelled: `cancel` was set while another replay held them.
        """
        with self._unheld_emit_lock(cancel):
            self._held = True
            position = Position(self._seq, self._state, tuple(self._owed))
        try:
            yield position
        finally:
            with self._emit_lock:
                with self._unheld:
                    self._held = False
                    self._unheld.notify_all()
                unlogged, self._unlogged = self._unlogged, []
                try:
                    missed = self._store.read(self.session_id, position.seq, self._seq)
                    self._show([event for _seq, event in missed])
                finally:
                    self._show(unlogged)

    # --- the end

    def start_closing(self) -> Turn | None:
        """Refuse further prompts, cancel the turn and return it; on the dispatcher."""
        with self._slot_lock:
            self._closed = True
            turn = self._turn
        self.closing.cancel()
        if turn is not None:
            turn.cancel.cancel()
        return turn

    def finish_closing(self, turn: Turn | None, timeout_s: float) -> bool:
        """
        Wait for the turn and a replay to end; whether they did in time.

        A turn that did not is abandoned: nothing of it is stored or shown any more.
        """
        settled = turn is None or turn.settled.wait(timeout_s)
        if turn is not None and not settled:
            self._release(turn)
        with self._unheld:
            return self._unheld.wait_for(lambda: not self._held, timeout_s) and settled

    # --- inside

    def _append(self, events: Sequence[Event], cancel: CancelToken) -> None:
        self._store.append(self.session_id, self._seq + 1, events, hurried=lambda: cancel.cancelled)
        self._seq += len(events)
        self._observe(events)

    def _observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if self._conversation is not None:
                self._conversation.apply(event)
            self._open_work.apply(event)
            if isinstance(event, StateChanged):
                self._state = event.state
            elif isinstance(event, TurnStarted):
                self._state = SessionState.RUNNING
            elif isinstance(event, TurnEnded):
                self._state = None

    def _show(self, events: Sequence[Event]) -> None:
        if not self._held and events:
            with self._sink.together():
                for event in events:
                    self._sink.deliver(self.session_id, event)

    def _release(self, turn: Turn) -> None:
        with self._slot_lock:
            if self._turn is turn:
                self._turn = None

    def _wait_unheld(self, cancel: CancelToken) -> None:
        if self._held:
            with cancel.on_cancel(self._wake), self._unheld:
                self._unheld.wait_for(lambda: not self._held or cancel.cancelled)

    @contextmanager
    def _unheld_emit_lock(self, cancel: CancelToken) -> Iterator[None]:
        """
        The emit lock while no replay is under way; `_held` changes only under that lock.

        Raises:
            Cancelled: `cancel` was set while a replay was waited for.
        """
        while True:
            self._wait_unheld(cancel)
            cancel.raise_if_cancelled()
            with self._emit_lock:
                if not self._held:
                    yield
                    return

    def _wake(self) -> None:
        with self._unheld:
            self._unheld.notify_all()
