"""Live sessions: one turn at a time, one order for log and client, nothing lost or doubled."""

from __future__ import annotations

import contextlib
import sqlite3
import threading

import pytest

from term2_acp.agent.calls import Surroundings
from term2_acp.agent.cancel import Cancelled, CancelToken
from term2_acp.agent.context import Conversation
from term2_acp.agent.model import AssistantTurn, UserTurn
from term2_acp.agent.ports import ToolKind
from term2_acp.errors import SessionBusyError, SessionNotFoundError, StoreError
from term2_acp.eventlog import (
    AgentText,
    SessionState,
    StateChanged,
    StopReason,
    TextBlock,
    TitleSet,
    ToolCallCreated,
    ToolCallEnded,
    ToolStatus,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from term2_acp.files.ledger import ReadLedger
from term2_acp.permissions import Permissions
from term2_acp.redaction import Redactor
from term2_acp.replay import AgentMessageItem, items
from term2_acp.sessions import Session
from term2_acp.store import Store
from term2_acp.workspace import Workspace
from tests.unit.doubles import (
    DEADLINE_S,
    MOMENT_S,
    Background,
    NoShell,
    RecordingSink,
    ScriptedClient,
    together,
)

PROMPT = (TextBlock("Fix the bug"),)


class Desk:
    """A live session on a real store, with what the client was shown."""

    def __init__(self, directory):
        self.store = Store(directory)
        self.sink = RecordingSink()
        self.released = []
        self.store.create_session("s", "/project")
        self.session = self.open()

    def open(self):
        """A live session of what is stored."""
        surroundings = Surroundings(
            session_id="s",
            workspace=Workspace("/project"),
            permissions=Permissions("/project", (), "/home/user"),
            ledger=ReadLedger(),
            shell=NoShell(),
            tools={},
            client=ScriptedClient(),
            redactor=Redactor({}),
        )
        return Session(
            self.store.find("s"),
            self.store,
            self.sink,
            surroundings,
            lambda: self.released.append(True),
        )

    def begin(self, prompt=PROMPT):
        """A turn that runs."""
        turn = self.session.admit(prompt)
        self.session.begin(turn, lambda: None)
        return turn

    def log(self):
        """What is stored."""
        return [event for _seq, event in self.store.read("s")]


@pytest.fixture(name="desk")
def _desk(tmp_path):
    """A new session."""
    desk = Desk(str(tmp_path / "state"))
    yield desk
    desk.store.close()


def kinds(events):
    """The kinds of some events."""
    return [type(event) for event in events]


def test_a_turn_is_stored_and_shown_from_its_start_to_its_end(desk):
    """The answer comes between the state and the user's message; the log has the same order."""
    turn = desk.session.admit(PROMPT)
    desk.session.begin(turn, lambda: desk.sink.events.append("accepted"))
    turn.emit(AgentText("m", "done"))
    desk.session.end(turn, StopReason.END_TURN)
    shown = desk.sink.events
    assert "accepted" == shown.pop(1)
    assert [TurnStarted, UserMessage, TitleSet, AgentText, TurnEnded] == kinds(shown)
    assert shown == desk.log()[1:]
    assert turn.settled.is_set()


def test_a_second_prompt_is_refused_until_the_turn_has_ended(desk):
    """Also while the first is only admitted; the title is set once."""
    turn = desk.session.admit(PROMPT)
    with pytest.raises(SessionBusyError):
        desk.session.admit(PROMPT)
    desk.session.begin(turn, lambda: None)
    with pytest.raises(SessionBusyError):
        desk.session.admit(PROMPT)
    desk.session.end(turn, StopReason.END_TURN)
    desk.begin()
    assert 1 == kinds(desk.log()).count(TitleSet)
    assert 2 == kinds(desk.log()).count(TurnStarted)


def test_of_many_prompts_at_once_one_is_admitted(desk):
    """Whatever thread they come from."""

    def admit():
        try:
            return desk.session.admit(PROMPT)
        except SessionBusyError:
            return None

    assert 1 == len([turn for turn in together([admit] * 6) if turn])


def test_the_slot_is_free_when_the_end_was_shown(desk):
    """A prompt that is sent upon the idle state is never refused."""
    admitted = []
    turn = desk.begin()
    plain_deliver = desk.sink.deliver

    def deliver(session_id, event):
        plain_deliver(session_id, event)
        if isinstance(event, TurnEnded):
            admitted.append(desk.session.admit(PROMPT))

    desk.sink.deliver = deliver
    desk.session.end(turn, StopReason.END_TURN)
    assert 1 == len(admitted)


def test_a_prompt_that_cannot_be_stored_is_refused_and_frees_the_slot(desk):
    """Nothing of it was shown or kept, and the next one is taken."""
    with contextlib.closing(Store(desk.store.path.removesuffix("/sessions.db"))) as other:
        other.append("s", 2, [AgentText("m", "somebody else wrote")])
    turn = desk.session.admit(PROMPT)
    accepted = []
    with pytest.raises(StoreError):
        desk.session.begin(turn, lambda: accepted.append(True))
    assert [] == accepted
    assert [] == desk.sink.events
    assert 2 == len(desk.log())
    desk.session.admit(PROMPT)


def test_a_close_does_not_wait_for_a_prompt_that_was_refused(desk):
    """The prompt was admitted, the close came behind it, then the store failed."""
    turn = desk.session.admit(PROMPT)
    assert turn is desk.session.start_closing()
    desk.store.close()
    with pytest.raises(StoreError):
        desk.session.begin(turn, lambda: None)
    assert desk.session.finish_closing(turn, 2 * MOMENT_S)


def test_the_end_is_shown_although_it_cannot_be_stored(desk):
    """The client does not wait for ever, the slot is free, and the next resume closes the turn."""
    turn = desk.begin()
    turn.emit(ToolCallCreated("c", "n", "t", ToolKind.READ, {}))
    desk.store.close()
    with pytest.raises(StoreError):
        turn.emit(AgentText("m", "not stored"))
    desk.session.end(turn, StopReason.END_TURN)
    assert [
        ToolCallCreated("c", "n", "t", ToolKind.READ, {}),
        ToolCallEnded("c", ToolStatus.FAILED, "The call ended with the turn (end_turn)."),
        TurnEnded(turn.turn_id, StopReason.ERROR),
    ] == desk.sink.events[3:]
    assert turn.settled.is_set()
    desk.session.admit(PROMPT)


def test_the_end_is_shown_after_a_replay_although_it_cannot_be_stored(desk):
    """What was held back is read from the log, and this is not in it."""
    turn = desk.begin()
    with contextlib.suppress(StoreError), desk.session.hold(CancelToken()):
        desk.store.close()
        desk.session.end(turn, StopReason.END_TURN)
    assert TurnEnded in kinds(desk.sink.events)


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (StopReason.CANCELLED, ToolStatus.CANCELLED),
        (StopReason.ERROR, ToolStatus.FAILED),
        (StopReason.END_TURN, ToolStatus.FAILED),
    ],
)
def test_open_calls_end_before_the_turn(desk, reason, status):
    """And only the open ones, once."""
    turn = desk.begin()
    for name in ("open", "ended", "open too"):
        turn.emit(ToolCallCreated(name, "n", "t", ToolKind.READ, {}))
    turn.emit(ToolCallEnded("ended", ToolStatus.COMPLETED, "done"))
    desk.session.end(turn, reason)
    last = desk.sink.events[-3:]
    assert [ToolCallEnded, ToolCallEnded, TurnEnded] == kinds(last)
    assert [("open", status), ("open too", status)] == [
        (event.tool_call_id, event.status) for event in last[:2]
    ]
    assert desk.log()[-3:] == last


def test_a_cancel_reaches_the_turn_and_nothing_else(desk):
    """An idle session has none; the next turn is not cancelled."""
    desk.session.cancel()
    turn = desk.session.admit(PROMPT)
    assert not turn.cancel.cancelled
    desk.session.cancel()
    assert turn.cancel.cancelled
    desk.session.begin(turn, lambda: None)
    desk.session.end(turn, StopReason.CANCELLED)
    assert not desk.begin().cancel.cancelled


def test_what_is_shown_is_stored_before(desk):
    """Nothing reaches the client that is not in the log."""
    stored = []
    plain_deliver = desk.sink.deliver

    def deliver(session_id, event):
        stored.append(event in desk.log())
        plain_deliver(session_id, event)

    desk.sink.deliver = deliver
    turn = desk.begin()
    turn.emit(AgentText("m", "a"), AgentText("m", "b"))
    desk.session.end(turn, StopReason.END_TURN)
    assert stored
    assert all(stored)


def test_what_cannot_be_stored_is_not_shown(desk):
    """A refused append leaves the client, the context and the position as they were."""
    turn = desk.begin()
    before = list(desk.sink.events), turn.messages()
    path = desk.store.path
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
    with pytest.raises(StoreError):
        turn.emit(AgentText("m", "x"))
    assert before == (list(desk.sink.events), turn.messages())
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TRIGGER refuse")
    turn.emit(AgentText("m", "y"))
    assert AgentText("m", "y") == desk.log()[-1]


def test_threads_of_a_turn_write_one_order(desk):
    """The log's order is the order on the wire."""
    turn = desk.begin()

    def write(name):
        for number in range(40):
            turn.emit(AgentText(name, str(number)))

    together([lambda: write("a"), lambda: write("b"), lambda: write("c")])
    desk.session.end(turn, StopReason.END_TURN)
    assert desk.log()[1:] == desk.sink.events
    assert 120 == kinds(desk.sink.events).count(AgentText)


def test_a_producer_waits_for_the_client_without_holding_anything(desk):
    """Ends and states pass, a cancel lets the producer go, and its event is not lost."""
    turn = desk.begin()
    desk.sink.room.clear()
    desk.sink.waiting.clear()
    producer = Background(lambda: turn.emit(AgentText("m", "waits")))
    assert desk.sink.waiting.wait(DEADLINE_S)
    turn.emit(StateChanged(SessionState.REQUIRES_ACTION))
    turn.emit(ToolCallEnded("c", ToolStatus.COMPLETED, "done"))
    assert not producer.ended_within(MOMENT_S)
    desk.session.cancel()
    producer.result()
    desk.session.end(turn, StopReason.CANCELLED)
    assert [StateChanged, ToolCallEnded, AgentText, TurnEnded] == kinds(desk.sink.events[3:])


def test_the_context_is_the_fold_of_the_log(desk):
    """Read once and kept up to date, and the same for a session that is opened again."""
    turn = desk.begin()
    assert (UserTurn("Fix the bug"),) == turn.messages()
    turn.emit(AgentText("m", "done"))
    desk.session.end(turn, StopReason.END_TURN)
    expected = (UserTurn("Fix the bug"), AssistantTurn(text="done"))
    assert expected == desk.session.conversation(Conversation.messages)
    assert expected == desk.open().conversation(Conversation.messages)


# --- replay


def replayed(desk, position):
    """What a client is told of the history: one text a message."""
    return [
        "".join(item.texts) if isinstance(item, AgentMessageItem) else type(item)
        for item in items(desk.session.history(position))
    ]


def test_a_replay_and_what_is_live_meanwhile_are_everything_once(desk):
    """Other threads go on; each event is in the replay or comes after it, in order."""
    turn = desk.begin()
    enough = threading.Semaphore(0)
    stop = threading.Event()

    def write(name):
        number = 0
        while not stop.is_set():
            turn.emit(StateChanged(SessionState.RUNNING))
            turn.emit(AgentText(f"{name}{number}", f"{name}{number}"))
            number += 1
            enough.release()
        return number

    writers = [Background(lambda name=name: write(name)) for name in "abc"]
    for _ in range(10):
        for _ in range(3):
            assert enough.acquire(timeout=DEADLINE_S)
        with desk.session.hold(CancelToken()) as position:
            shown_before = list(desk.sink.events)
            history = list(desk.session.history(position))
            assert history[1:] == shown_before
            assert shown_before == desk.sink.events
    stop.set()
    for thread in writers:
        thread.result()
    desk.session.end(turn, StopReason.END_TURN)
    assert desk.log()[1:] == desk.sink.events


def test_live_updates_wait_until_the_replay_is_over(desk):
    """Text waits with its producer; ends and states are stored, and shown afterwards."""
    turn = desk.begin()
    turn.emit(AgentText("m", "before"))
    with desk.session.hold(CancelToken()) as position:
        producer = Background(lambda: turn.emit(AgentText("m2", "after")))
        turn.emit(ToolCallEnded("c", ToolStatus.COMPLETED, "done"))
        turn.emit(StateChanged(SessionState.REQUIRES_ACTION))
        assert not producer.ended_within(MOMENT_S)
        assert [UserMessage, "before"] == replayed(desk, position)
        assert AgentText("m", "before") == desk.sink.events[-1]
    producer.result()
    assert [ToolCallEnded, StateChanged, AgentText] == kinds(desk.sink.events[-3:])


def test_the_position_says_what_the_turn_is_doing(desk):
    """Running, waiting for the user, or nothing."""

    def state():
        with desk.session.hold(CancelToken()) as position:
            return position.state

    assert state() is None
    turn = desk.begin()
    assert state() is SessionState.RUNNING
    turn.emit(StateChanged(SessionState.REQUIRES_ACTION))
    assert state() is SessionState.REQUIRES_ACTION
    desk.session.end(turn, StopReason.END_TURN)
    assert state() is None


def test_a_turn_that_ends_during_a_replay_is_shown_as_ended(desk):
    """Its end comes after the replay."""
    turn = desk.begin()
    with desk.session.hold(CancelToken()):
        desk.session.end(turn, StopReason.END_TURN)
        assert TurnEnded not in kinds(desk.sink.events)
    assert [TurnEnded] == kinds(desk.sink.events[3:])


def test_a_replay_that_fails_lets_the_session_go_on(desk):
    """What was held back is shown all the same."""
    turn = desk.begin()
    with pytest.raises(ValueError, match="the client"), desk.session.hold(CancelToken()):
        turn.emit(StateChanged(SessionState.REQUIRES_ACTION))
        raise ValueError("the client")
    assert StateChanged in kinds(desk.sink.events)
    turn.emit(AgentText("m", "goes on"))


def test_one_replay_at_a_time_and_a_cancel_ends_the_wait(desk):
    """The second starts when the first is over, or never."""
    cancel = CancelToken()

    def hold(token):
        with desk.session.hold(token) as position:
            return position

    with desk.session.hold(CancelToken()):
        patient = Background(lambda: hold(CancelToken()))
        hasty = Background(lambda: hold(cancel))
        assert not patient.ended_within(MOMENT_S)
        assert not hasty.ended_within(MOMENT_S)
        cancel.cancel()
        with pytest.raises(Cancelled):
            hasty.result()
    assert desk.store.find("s").last_seq == patient.result().seq


class Announcing(CancelToken):
    """A token that says when a wait on it is over."""

    def __init__(self):
        super().__init__()
        self.passed = threading.Event()

    @contextlib.contextmanager
    def on_cancel(self, callback):
        with super().on_cancel(callback):
            yield
        self.passed.set()


def test_an_end_that_two_replays_held_back_is_shown_once(desk):
    """The second begins as the first lets go; what the first held back is not lost between."""
    turn = desk.begin()
    token = Announcing()
    plain_read = desk.store.read

    def read(*arguments):
        # The first replay lets go: the second one may take over before it shows anything.
        token.passed.wait(MOMENT_S)
        return plain_read(*arguments)

    def second():
        with desk.session.hold(token):
            return list(desk.sink.events)

    with desk.session.hold(CancelToken()):
        desk.session.end(turn, StopReason.END_TURN)
        waiting = Background(second)
        assert not waiting.ended_within(MOMENT_S)
        desk.store.read = read
    waiting.result()
    assert 1 == kinds(desk.sink.events).count(TurnEnded)


def test_a_new_prompt_waits_for_the_replay(desk):
    """Its state and its answer come after everything that was replayed."""
    order = []
    with desk.session.hold(CancelToken()):
        turn = desk.session.admit(PROMPT)
        beginning = Background(lambda: desk.session.begin(turn, lambda: order.append("accepted")))
        assert not beginning.ended_within(MOMENT_S)
        assert [] == order
        assert [] == desk.sink.events
    beginning.result()
    assert ["accepted"] == order
    assert [TurnStarted, UserMessage, TitleSet] == kinds(desk.sink.events)


# --- the close


def test_a_close_cancels_the_turn_and_waits_for_it(desk):
    """Prompts are refused from then on; what the turn still says is shown."""
    turn = desk.begin()
    assert turn is desk.session.start_closing()
    assert turn.cancel.cancelled
    assert desk.session.closing.cancelled
    with pytest.raises(SessionNotFoundError):
        desk.session.admit(PROMPT)
    closing = Background(lambda: desk.session.finish_closing(turn, DEADLINE_S))
    turn.emit(ToolCallEnded("c", ToolStatus.CANCELLED, "stopped"))
    desk.session.end(turn, StopReason.CANCELLED)
    assert closing.result() is True
    assert [ToolCallEnded, TurnEnded] == kinds(desk.sink.events[-2:])


def test_an_idle_session_closes_at_once(desk):
    """There is nothing to wait for."""
    assert desk.session.start_closing() is None
    assert desk.session.finish_closing(None, DEADLINE_S) is True


def test_an_abandoned_turn_neither_stores_nor_shows_anything_more(desk):
    """It is told to stop at its next event, and its end is left to the next resume."""
    turn = desk.begin()
    desk.session.start_closing()
    assert desk.session.finish_closing(turn, MOMENT_S) is False
    before = desk.log(), list(desk.sink.events)
    for event in (AgentText("m", "x"), ToolCallEnded("c", ToolStatus.FAILED, "x")):
        with pytest.raises(Cancelled):
            turn.emit(event)
    desk.session.end(turn, StopReason.CANCELLED)
    assert before == (desk.log(), desk.sink.events)
    assert turn.settled.is_set()
    assert desk.store.find("s").open_turn is not None


def test_a_close_ends_a_replay(desk):
    """It waits for the replay to notice."""
    inside = threading.Event()

    def replay():
        with desk.session.hold(CancelToken()):
            inside.set()
            assert desk.session.closing.wait(DEADLINE_S)

    replaying = Background(replay)
    assert inside.wait(DEADLINE_S)
    desk.session.start_closing()
    assert desk.session.finish_closing(None, DEADLINE_S) is True
    replaying.result()
