"""The dispatcher: what each line is answered, and that nothing a client sends ends it."""

from __future__ import annotations

import logging
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.errors import InvalidParamsError, InvalidRequestError, ParseError, SessionBusyError
from term2_acp.rpc.calls import BatchAnswer, Call, Deferred
from term2_acp.rpc.dispatcher import MAX_BATCH, Dispatcher
from term2_acp.rpc.engine import Engine
from term2_acp.rpc.inbox import Inbox, Received, Rejected
from term2_acp.rpc.outbound import OutboundRequests
from term2_acp.rpc.workers import WorkerPool
from tests.unit.doubles import DEADLINE_S, Background, Sent, together

INITIALIZE = {"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {}}


class ScriptedHandshake:
    """Answers `initialize` with a fixed result, or raises; then serves the given handlers."""

    def __init__(self, handlers, outcome=None, loaded=None):
        self._handlers = handlers
        self._outcome = outcome or {"protocolVersion": 2}
        self._loaded = loaded

    def answer(self, params):
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def engine(self):
        if self._loaded is not None:
            raise self._loaded
        return Engine(self._handlers)


class Desk:
    """A dispatcher with real queues and pools, and what it sent."""

    def __init__(self, handlers=None, *, pools=None, **handshake):
        self.inbox = Inbox()
        self.sent = Sent()
        self.outbound = OutboundRequests(self.sent)
        self.pools = pools or (
            WorkerPool("turn", max_threads=4, max_queued=10),
            WorkerPool("request", max_threads=4, max_queued=10),
        )
        self.handlers = {"echo": lambda call, params: params, **(handlers or {})}
        self.dispatcher = Dispatcher(
            self.inbox,
            self.sent,
            self.outbound,
            ScriptedHandshake(self.handlers, **handshake),
            self.pools,
        )

    def receive(self, *messages):
        for message in messages:
            self.inbox.put(Received(message, 1))

    def finish(self):
        """Dispatch what was received, wait for the workers; what was sent."""
        self.inbox.put_end("over")
        assert self.dispatcher.run() == "over"
        for pool in self.pools:
            assert pool.join(DEADLINE_S)
        return self.sent.messages


def exchange(*messages, handlers=None, initialized=True, **options):
    """The answers to some messages, without that of `initialize`."""
    desk = Desk(handlers, **options)
    if initialized:
        desk.receive(INITIALIZE)
    desk.receive(*messages)
    return desk.finish()[1 if initialized else 0 :]


def request(request_id=1, method="echo", **members):
    """A request, well-formed unless told otherwise."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, **members}


def error(response):
    """Id and code of an error response, whose shape is judged."""
    assert {"jsonrpc", "id", "error"} == set(response)
    assert {"code", "message"} == set(response["error"])
    assert isinstance(response["error"]["message"], str)
    return response["id"], response["error"]["code"]


def result(request_id, value):
    """A successful response."""
    return {"jsonrpc": "2.0", "id": request_id, "result": value}


IDS = ["1", 1, "", 0, -1, 2**53 + 1, 10**30, None, "\ufffd"]


@pytest.mark.parametrize("request_id", IDS)
def test_an_id_is_echoed_with_its_type(request_id):
    """Strings, integers of any size and null, in results and in errors."""
    answers = exchange(request(request_id), request(request_id, "unknown"))
    assert result(request_id, {}) == answers[0]
    assert type(answers[0]["id"]) is type(request_id)
    assert (request_id, -32601) == error(answers[1])


@pytest.mark.parametrize("request_id", [True, False, 1.5, 1.0, {}, [], [1], {"id": 1}])
def test_any_other_type_of_id_is_refused(request_id):
    """It is -32600 with id null, and the method is not called."""
    called = []
    (answer,) = exchange(
        request(request_id), handlers={"echo": lambda call, params: called.append(params)}
    )
    assert (None, -32600) == error(answer)
    assert [] == called


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"id": 1, "method": "echo"}, (1, -32600)),
        (request(jsonrpc="1.0"), (1, -32600)),
        (request(jsonrpc=2.0), (1, -32600)),
        (request(jsonrpc=None), (1, -32600)),
        (request(method=None), (1, -32600)),
        (request(method=5), (1, -32600)),
        (request(params=5), (1, -32600)),
        (request(params="x"), (1, -32600)),
        (request(params=False), (1, -32600)),
        (request(params=[1]), (1, -32602)),
        ({"jsonrpc": "2.0", "id": 1}, (1, -32600)),
        ({"jsonrpc": "2.0", "id": []}, (None, -32600)),
        ({"jsonrpc": "2.0"}, (None, -32600)),
        ({}, (None, -32600)),
        (5, (None, -32600)),
        ("x", (None, -32600)),
        (None, (None, -32600)),
        (True, (None, -32600)),
        ([], (None, -32600)),
    ],
)
def test_a_malformed_request_is_refused_with_its_id_where_there_is_one(message, expected):
    """The stream goes on behind it."""
    answers = exchange(message, request("after"))
    assert expected == error(answers[0])
    assert [result("after", {})] == answers[1:]


def test_null_params_are_none_and_unknown_members_are_ignored():
    """What JSON-RPC leaves open is taken kindly."""
    answers = exchange(
        request(1, params=None), request(2, params={"a": 1}, extra=[], result="x", error=None)
    )
    assert [result(1, {}), result(2, {"a": 1})] == answers


def test_nothing_is_answered_before_initialize():
    """Also what does not exist; after it, a second one is refused."""
    answers = exchange(
        request(1),
        request(2, "nothing"),
        request(3, "$/cancel_request", params={"requestId": 1}),
        INITIALIZE,
        INITIALIZE,
        initialized=False,
    )
    assert [(1, -32600), (2, -32600), (3, -32600)] == [error(answer) for answer in answers[:3]]
    assert result("init", {"protocolVersion": 2}) == answers[3]
    assert ("init", -32600) == error(answers[4])


def test_a_refused_initialize_can_be_sent_again():
    """Nothing was negotiated by it."""
    answers = exchange(
        INITIALIZE,
        request(1),
        initialized=False,
        outcome=InvalidParamsError("protocolVersion is missing"),
    )
    assert [("init", -32602), (1, -32600)] == [error(answer) for answer in answers]


@pytest.mark.parametrize("member", ["outcome", "loaded"])
def test_a_fault_in_loading_is_an_internal_error(member, caplog):
    """Its text stays on stderr, and the dispatcher goes on."""
    with caplog.at_level(logging.ERROR):
        answers = exchange(
            INITIALIZE, request(1), initialized=False, **{member: ValueError("secret")}
        )
    codes = [answer["error"]["code"] for answer in answers if "error" in answer]
    assert -32603 in codes
    assert "secret" not in str(answers)
    assert "secret" in caplog.text


NOTIFICATIONS = st.fixed_dictionaries(
    {"method": st.sampled_from(["echo", "session/cancel", "$/cancel_request", "x", "initialize"])},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "1.0", 2, None]),
        "params": st.one_of(
            st.none(),
            st.integers(),
            st.lists(st.integers(), max_size=2),
            st.dictionaries(st.sampled_from(["requestId", "sessionId"]), st.none() | st.text()),
        ),
        "result": st.none(),
    },
)


@settings(deadline=None, max_examples=60)
@given(st.lists(NOTIFICATIONS, max_size=5), st.booleans())
def test_a_notification_gets_no_answer(notifications, in_batch):
    """Whatever is wrong with it, and also in a batch of them."""

    def cancel(call, params):
        raise InvalidParamsError("sessionId is missing")

    messages = [notifications] if in_batch and notifications else notifications
    assert [] == exchange(*messages, handlers={"session/cancel": cancel})


def test_a_request_method_without_an_id_does_nothing():
    """Only a cancel may come as a notification."""
    called = []
    handlers = {
        "session/prompt": lambda call, params: called.append("prompt"),
        "session/cancel": lambda call, params: called.append("cancel"),
    }
    messages = [{"jsonrpc": "2.0", "method": method, "params": {}} for method in handlers]
    assert [] == exchange(*messages, handlers=handlers)
    assert ["cancel"] == called


def test_a_batch_gets_one_answer_with_an_element_for_each_request():
    """It is judged element by element; what gets no answer leaves no gap."""
    (answer,) = exchange(
        [
            request(1),
            5,
            {"jsonrpc": "2.0", "method": "session/cancel", "params": {}},
            request(True),
            {"jsonrpc": "2.0", "id": 77, "result": "an answer"},
            request(2, "session/prompt"),
            request(3, "unknown"),
            [request(4)],
            request("5", params={"a": 1}),
        ],
        handlers={"session/cancel": lambda call, params: {}},
    )
    assert result(1, {}) == answer[0]
    assert result("5", {"a": 1}) == answer[-1]
    assert [(None, -32600), (None, -32600), (2, -32600), (3, -32601), (None, -32600)] == [
        error(element) for element in answer[1:-1]
    ]


def test_a_batch_waits_for_its_slow_elements_and_keeps_its_order():
    """One answer, when the last element is done; what comes behind it is not held up."""
    release = threading.Event()

    def slow(call, params):
        return Deferred(lambda: {"slow": release.wait(DEADLINE_S)})

    def let_go(call, params):
        release.set()
        return {}

    answers = exchange(
        [request(1, "slow"), request(2)],
        request(3, "let_go"),
        handlers={"slow": slow, "let_go": let_go},
    )
    assert result(3, {}) == answers[0]
    assert [[result(1, {"slow": True}), result(2, {})]] == answers[1:]


def test_a_batch_has_a_bound():
    """More elements than that are refused as a whole."""
    answers = exchange([request(n) for n in range(MAX_BATCH + 1)], [request(1)] * MAX_BATCH)
    assert (None, -32600) == error(answers[0])
    assert MAX_BATCH == len(answers[1])


def test_answers_of_the_client_get_no_answer_and_reach_whoever_asked():
    """Also one with an error, and one that nobody asked for."""
    desk = Desk()
    pending = desk.outbound.send("session/request_permission", {})
    desk.receive(
        {"jsonrpc": "2.0", "id": 99, "result": 1},
        {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}},
        {"jsonrpc": "2.0", "id": pending.request_id, "result": "yes"},
    )
    assert 1 == len(desk.finish())
    assert "yes" == pending.wait(Call(1, "m", print).cancel).result


def test_a_line_that_could_not_be_read_is_answered_with_id_null():
    """The reader's error comes in its place among the others."""
    desk = Desk()
    desk.receive(INITIALIZE)
    desk.inbox.put(Rejected(ParseError("not JSON")))
    desk.inbox.put(Rejected(InvalidRequestError("too long")))
    desk.receive(request(1))
    answers = desk.finish()
    assert [(None, -32700), (None, -32600)] == [error(answer) for answer in answers[1:3]]
    assert result(1, {}) == answers[3]


@pytest.mark.parametrize("foreground", [True, False])
def test_slow_work_is_answered_from_a_worker(foreground):
    """By its result, by its error, or early by itself, but once."""
    names = []

    def working(outcome):
        def run(call):
            names.append(threading.current_thread().name)
            if outcome == "early":
                call.respond("early")
                return "late"
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return lambda call, params: Deferred(lambda: run(call), foreground=foreground)

    handlers = {
        "value": working({"a": 1}),
        "early": working("early"),
        "busy": working(SessionBusyError("s")),
        "fault": working(ValueError("secret")),
    }
    answers = exchange(*(request(name, name) for name in handlers), handlers=handlers)
    by_id = {answer["id"]: answer for answer in answers}
    assert len(answers) == 4
    assert result("value", {"a": 1}) == by_id["value"]
    assert result("early", "early") == by_id["early"]
    assert ("busy", -32000) == error(by_id["busy"])
    assert ("fault", -32603) == error(by_id["fault"])
    assert "secret" not in str(answers)
    kind = "term2-turn-" if foreground else "term2-request-"
    assert all(name.startswith(kind) for name in names)


def test_work_that_finds_no_thread_is_refused():
    """The dispatcher never waits for one."""
    release = threading.Event()
    pools = tuple(WorkerPool(name, max_threads=1, max_queued=0) for name in ("turn", "request"))

    def slow(call, params):
        return Deferred(lambda: release.wait(DEADLINE_S))

    def let_go(call, params):
        release.set()

    answers = exchange(
        request(1, "slow"),
        request(2, "slow"),
        request(3, "let_go"),
        handlers={"slow": slow, "let_go": let_go},
        pools=pools,
    )
    assert [(2, -32603)] == [error(answer) for answer in answers if "error" in answer]
    assert [1, 2, 3] == sorted(answer["id"] for answer in answers)


def test_handlers_are_called_in_the_order_of_the_lines():
    """A cancel right behind its prompt finds the prompt admitted."""
    seen = []

    def admit(call, params):
        seen.append((call.method, call.request_id))
        return Deferred(lambda: None)

    handlers = {"session/prompt": admit, "session/cancel": admit, "session/close": admit}
    messages = [request(n, method) for n, method in enumerate([*handlers] * 3)]
    exchange(*messages, handlers=handlers)
    assert [(message["method"], message["id"]) for message in messages] == seen


class Pending:
    """A method that waits until its request is cancelled, with a deadline."""

    def __init__(self):
        self.waiting = threading.Semaphore(0)
        self.calls = {}

    def __call__(self, call, params):
        self.calls[params["name"]] = call

        def run():
            self.waiting.release()
            return {"cancelled": call.cancel.wait(DEADLINE_S)}

        return Deferred(run)


@pytest.mark.parametrize("own", ["1", 1, None, ""])
def test_a_cancel_request_reaches_the_request_of_that_very_id(own):
    """Not one whose id is only like it, and it gets no answer as a notification."""
    pending = Pending()
    desk = Desk({"wait": pending})
    others = [other for other in ("1", 1, None, "", 0) if other is not own]
    desk.receive(INITIALIZE, request(own, "wait", params={"name": "own"}))
    for other in [*others, True, 1.0, [], {}]:
        notification = {"jsonrpc": "2.0", "method": "$/cancel_request"}
        desk.receive({**notification, "params": {"requestId": other}})
    desk.receive({"jsonrpc": "2.0", "method": "$/cancel_request"}, request("mark"))
    thread = Background(desk.finish)
    desk.sent.wait_for(2)
    assert result("mark", {}) == desk.sent.messages[1]
    assert not pending.calls["own"].cancel.cancelled
    desk.dispatcher.cancel_in_flight()
    assert result(own, {"cancelled": True}) == thread.result()[2]

    desk = Desk({"wait": pending})
    desk.receive(INITIALIZE, request(own, "wait", params={"name": "own"}))
    desk.receive({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": own}})
    assert [result(own, {"cancelled": True})] == desk.finish()[1:]


def test_a_cancel_request_with_an_id_is_answered():
    """Also when it names nothing that is pending; it must name something."""
    answers = exchange(
        request(1, "$/cancel_request", params={"requestId": "gone"}),
        request(2, "$/cancel_request", params={}),
        request(3, "$/cancel_request", params={"requestId": 1.5}),
    )
    assert result(1, {}) == answers[0]
    assert [(2, -32602), (3, -32602)] == [error(answer) for answer in answers[1:]]


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(["2.0", "echo", "session/prompt", "$/cancel_request", "initialize"]),
        st.text(max_size=3),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(
                st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]),
                st.text(max_size=2),
            ),
            inner,
            max_size=6,
        ),
    ),
    max_leaves=15,
)


@settings(deadline=None, max_examples=100)
@given(st.lists(VALUES, max_size=4))
def test_garbage_never_ends_the_dispatcher(messages):
    """At most one answer a line, each a response or an array of them; a good request follows."""

    def prompt(call, params):
        return Deferred(dict, foreground=True)

    answers = exchange(*messages, request("after"), handlers={"session/prompt": prompt})
    assert result("after", {}) in answers
    assert len(answers) <= len(messages) + 1
    for answer in answers:
        for response in answer if isinstance(answer, list) else [answer]:
            assert "2.0" == response["jsonrpc"]
            assert type(response["id"]) in (str, int, type(None))
            assert ("result" in response) != ("error" in response)


def test_of_many_answers_to_a_request_one_is_sent():
    """Whoever comes first wins, from whatever thread."""
    for _ in range(20):
        sent = []
        call = Call(1, "m", sent.append)
        together(
            [
                lambda call=call: call.respond("a"),
                lambda call=call: call.fail(InvalidParamsError("b")),
                lambda call=call: call.respond("c"),
            ]
        )
        assert 1 == len(sent)


@settings(deadline=None, max_examples=50)
@given(st.permutations(range(5)))
def test_a_batch_is_answered_in_its_own_order_once(order):
    """However its elements finish."""
    sent = []
    answer = BatchAnswer(sent.append)
    slots = [answer.slot() for _ in range(5)]
    answer.done()
    for number in order:
        assert not sent
        slots[number]({"n": number})
    assert [[{"n": number} for number in range(5)]] == sent
