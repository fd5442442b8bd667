"""Time-outs and cancels of each provider, whatever it waits for."""

from __future__ import annotations

import gc
import socket
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from term2_acp.agent.cancel import Cancelled, CancelToken
from term2_acp.agent.model import (
    Finish,
    FinishReason,
    ModelEvent,
    ProviderError,
    TextDelta,
    UserTurn,
)
from term2_acp.errors import StoreError
from tests.models.http import DEADLINE_S, Reply, Then, Until
from tests.models.steps import ScriptedStep
from tests.providers.conftest import Service, request

# A request that is not interrupted would wait for this long.
LONG_S = 60.0


class Consumer:
    """Reads an answer on a thread of its own, as a turn does."""

    def __init__(self, service: Service, **options: object) -> None:
        self.cancel = CancelToken()
        self.events: list[ModelEvent] = []
        self.error: BaseException | None = None
        self.first = threading.Event()
        self._provider = service.provider(**{"idle_timeout_s": LONG_S, **options})
        self._thread = threading.Thread(target=self._run, name="consumer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for event in self._provider.stream(request(UserTurn("Hello")), self.cancel):
                self.events.append(event)
                self.first.set()
        except BaseException as error:  # noqa: BLE001 (the test looks at it)
            self.error = error

    def join(self) -> None:
        """Wait for the end of the answer."""
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()

    def cancel_and_join(self) -> None:
        """Cancel, and see the provider give up long before any time-out."""
        self.cancel.cancel()
        self.join()
        assert isinstance(self.error, Cancelled)


def _begun(service: Service) -> bytes:
    """The first events of an answer, with some text."""
    events = service.format.encode(ScriptedStep(text="Hello there"))
    last = next(index for index, event in enumerate(events) if b"Hello" in event)
    return b"".join(events[: last + 1])


def test_a_cancel_before_the_request_sends_nothing(service):
    """A token that is set already ends the step before it begins."""
    cancel = CancelToken()
    cancel.cancel()
    with pytest.raises(Cancelled):
        next(service.provider().stream(request(UserTurn("Hello")), cancel))
    assert [] == service.server.requests


def test_a_cancel_ends_the_wait_for_the_headers(service):
    """A service that says nothing at all is left at once."""
    service.server.reply(Reply(before_headers=Then.STALL))
    consumer = Consumer(service)
    service.server.wait_for_requests(1)
    consumer.cancel_and_join()
    service.server.wait_for_hang_up()


def test_a_cancel_ends_the_wait_in_the_middle_of_a_stream(service):
    """A stream that went silent is left at once, with what it said kept."""
    service.stream(_begun(service), Then.STALL)
    consumer = Consumer(service)
    assert consumer.first.wait(DEADLINE_S)
    consumer.cancel_and_join()
    assert [] != consumer.events
    service.server.wait_for_hang_up()


@pytest.mark.parametrize("status", [400, 503])
def test_a_cancel_ends_the_wait_for_an_error_text(service, status):
    """An error whose text does not come is left at once."""
    service.server.reply(Reply((b"{", Then.STALL), status, "application/json"))
    consumer = Consumer(service)
    service.server.wait_for_requests(1)
    consumer.cancel_and_join()


def test_a_cancel_ends_a_step_whose_consumer_is_busy(service):
    """A cancel between two events is noticed at the next one."""
    service.stream(_begun(service), Then.STALL)
    cancel = CancelToken()
    events = service.provider(idle_timeout_s=LONG_S).stream(request(UserTurn("Hello")), cancel)
    next(events)
    cancel.cancel()
    with pytest.raises(Cancelled):
        list(events)


def test_a_consumer_that_goes_away_closes_the_connection(service):
    """Closing the generator hangs up."""
    service.stream(_begun(service), Then.STALL)
    events = service.provider().stream(request(UserTurn("Hello")), CancelToken())
    next(events)
    events.close()
    service.server.wait_for_hang_up()


def test_a_cancel_of_one_step_leaves_another_alone(service):
    """Two steps of one provider share nothing that a cancel ends."""
    go_on = threading.Event()
    whole = b"".join(service.format.encode(ScriptedStep(text="Hello there")))
    service.stream(Until(go_on), whole)
    other = Consumer(service)
    service.server.wait_for_requests(1)
    service.server.reply(Reply(before_headers=Then.STALL))
    consumer = Consumer(service)
    service.server.wait_for_requests(2)
    consumer.cancel_and_join()
    go_on.set()
    other.join()
    assert other.error is None
    assert Finish(FinishReason.STOP) == other.events[-1]


@pytest.mark.parametrize("before_headers", [True, False])
def test_silence_is_a_fault_that_names_the_limit(service, before_headers):
    """A service that is silent for too long ends the step; it is not asked again."""
    begun = b"" if before_headers else _begun(service)
    reply = Reply(before_headers=Then.STALL) if before_headers else Reply((begun, Then.STALL))
    service.server.reply(reply)
    with pytest.raises(ProviderError) as caught:
        service.ask(idle_timeout_s=0.1)
    assert "0.1 seconds" in caught.value.message
    assert "stream_idle_timeout_s" in caught.value.message
    assert not caught.value.retryable


def test_the_time_of_the_consumer_is_not_silence(service):
    """A consumer may hold an event for longer than the service may be silent."""
    events = service.format.encode(ScriptedStep(text="Hello there"))
    service.stream(*events)
    got = service.provider(idle_timeout_s=0.2).stream(request(UserTurn("Hello")), CancelToken())
    seen = [next(got)]
    # Nothing happens meanwhile; only time passes.
    threading.Event().wait(0.5)
    seen.extend(got)
    assert Finish(FinishReason.STOP) == seen[-1]


def test_comments_end_the_silence(service):
    """Every byte counts as a sign of life, also that of a comment."""
    pauses = [threading.Event(), threading.Event()]
    timers = [threading.Timer(0.6 * (n + 1), pause.set) for n, pause in enumerate(pauses)]
    for timer in timers:
        timer.start()
    events = service.format.encode(ScriptedStep(text="Hello there"))
    service.stream(Until(pauses[0]), b": wait\n\n", Until(pauses[1]), *events)
    # The service is silent for longer than this in all, but never at once.
    assert Finish(FinishReason.STOP) == service.ask(idle_timeout_s=1.1)[-1]
    for timer in timers:
        timer.join()


@contextmanager
def _deaf_listener() -> Iterator[str]:
    """An address where connections are neither made nor refused."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        try:
            # What does not fit into the queue of the listener waits without an answer.
            for _ in range(4):
                client = socket.socket()
                client.setblocking(False)
                client.connect_ex(listener.getsockname())
                waiting.append(client)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            for client in waiting:
                client.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux leaves a connect without an answer")
def test_a_cancel_leaves_a_connect_behind(service):
    """A connect that hangs is left to its own thread; the step ends at once."""
    cancel = CancelToken()
    timer = threading.Timer(0.3, cancel.cancel)
    with _deaf_listener() as url:
        events = service.provider(base_url=url).stream(request(UserTurn("Hello")), cancel)
        timer.start()
        begun = time.monotonic()
        with pytest.raises(Cancelled):
            next(events)
    # The connect itself would have taken its whole time-out of 10 s.
    assert time.monotonic() - begun < 5
    timer.join()


def test_a_lone_piece_is_told_of_before_the_next_is_waited_for(service):
    """Whoever keeps what arrived together hears when there is no more, on its own thread."""
    go_on = threading.Event()
    events = service.format.encode(ScriptedStep(text="Hello"))
    service.stream(*events[:-2], Until(go_on), *events[-2:])
    got: list[str] = []
    thread = threading.current_thread()

    def before_wait() -> None:
        assert threading.current_thread() is thread
        if "".join(got) == "Hello":
            go_on.set()

    answer = service.provider().stream(request(UserTurn("Hello")), CancelToken(), before_wait)
    # Only if it is told of does the answer go on.
    got.extend(event.text for event in answer if isinstance(event, TextDelta))
    assert go_on.is_set()


def test_what_goes_wrong_before_a_wait_is_no_fault_of_the_service(service):
    """A log that cannot be written ends the turn as that, whatever the SDK makes of errors."""
    service.stream(_begun(service), Then.STALL)
    got: list[str] = []

    def before_wait() -> None:
        if got:
            raise StoreError("the disk is full")

    answer = service.provider().stream(request(UserTurn("Hello")), CancelToken(), before_wait)
    with pytest.raises(StoreError, match="the disk is full"):
        got.extend(event.text for event in answer if isinstance(event, TextDelta))
    service.server.wait_for_hang_up()


class Owner:
    """Somebody who is told of waits."""

    def before_wait(self) -> None:
        """Nothing to do."""


def test_an_answer_keeps_nothing_of_who_asked(service):
    """The SDK's objects live on until a garbage collection; a session must not, with them."""
    service.step(text="Hello")
    owner = Owner()
    alive = weakref.ref(owner)
    provider = service.provider()
    gc.disable()
    try:
        list(provider.stream(request(UserTurn("Hello")), CancelToken(), owner.before_wait))
        del owner
        assert alive() is None
    finally:
        gc.enable()
