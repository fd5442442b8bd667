"""The loop: what the model streams becomes events, calls are run, and every end has its reason."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.agent.calls import CallRunner, Surroundings
from term2_acp.agent.cancel import Cancelled
from term2_acp.agent.context import Conversation
from term2_acp.agent.loop import AgentLoop, LoopSettings
from term2_acp.agent.model import (
    AssistantTurn,
    Finish,
    FinishReason,
    ProviderError,
    StateDelta,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolResult,
    ToolSpec,
    Usage,
    UserTurn,
)
from term2_acp.agent.ports import ToolOutcome
from term2_acp.errors import StoreError
from term2_acp.eventlog import (
    AgentText,
    AgentThought,
    Compacted,
    StepEnded,
    StopReason,
    TextBlock,
    ToolCallCreated,
    ToolCallEnded,
    TurnStarted,
    UsageReported,
    UserMessage,
)
from term2_acp.files.ledger import ReadLedger
from term2_acp.permissions import Permissions
from term2_acp.redaction import Redactor
from term2_acp.surrogates import replace_lone_surrogates
from term2_acp.workspace import Workspace
from tests.unit.doubles import (
    NoShell,
    RecordingLog,
    ScriptedClient,
    ScriptedProvider,
    ScriptedTool,
)

STOP = Finish(FinishReason.STOP)
CALLS = Finish(FinishReason.TOOL_CALLS)


class TurnDouble(RecordingLog):
    """A log that is read as a conversation, too."""

    def __init__(self, on_emit=lambda event: None):
        super().__init__(on_emit)
        self._prompt = [TurnStarted("t"), UserMessage("m", (TextBlock("do it"),))]

    def _conversation(self):
        conversation = Conversation()
        for event in [*self._prompt, *self.events]:
            conversation.apply(event)
        return conversation

    def messages(self):
        return self._conversation().messages()

    def past(self):
        return self._conversation().past()

    def used_tokens(self):
        return self._conversation().used_tokens


class Run:
    """One turn of scripted steps with a scripted tool."""

    def __init__(self, *steps, on_emit=lambda event: None, tool=None, log=None, **settings):
        self.log = log or TurnDouble(on_emit)
        self.provider = ScriptedProvider(*steps)
        self.tool = tool or ScriptedTool("look")
        surroundings = Surroundings(
            session_id="s",
            workspace=Workspace("/project"),
            permissions=Permissions("/project", (), "/home/user"),
            ledger=ReadLedger(),
            shell=NoShell(),
            tools={self.tool.name: self.tool},
            client=ScriptedClient(),
            redactor=Redactor({}),
        )
        self._calls = CallRunner(surroundings, self.log)
        self._loop = AgentLoop(
            self.provider, LoopSettings(**{"model": "m", "system": "s", "tools": (), **settings})
        )

    def __call__(self):
        return self._loop.run(self.log, self._calls)


def asking(path="a", index=0, call_id="call_0", name="look"):
    """A whole call in one piece."""
    return ToolCallDelta(index, call_id, name, json.dumps({"path": path}))


def test_an_answer_ends_the_turn():
    """Text is shown as it comes, then the step ends."""
    run = Run([TextDelta("Hel"), TextDelta(""), TextDelta("lo"), STOP])
    assert run() is StopReason.END_TURN
    texts = run.log.of(AgentText)
    assert ["Hel", "lo"] == [event.text for event in texts]
    assert 1 == len({event.message_id for event in texts})
    assert StepEnded("stop", (), "scripted") == run.log.events[-1]


class TogetherDouble(TurnDouble):
    """A log that keeps what was logged in one go together."""

    def __init__(self):
        super().__init__()
        self.emitted = []

    def emit(self, *events):
        self.emitted.append([event.text for event in events if isinstance(event, AgentText)])
        super().emit(*events)


def looped(*step):
    """The texts of one step, grouped as they were logged."""
    log = TogetherDouble()
    Run(step, log=log)()
    return [texts for texts in log.emitted if texts]


def test_what_arrives_together_is_logged_together():
    """Pieces up to the next wait for the model are one append; none waits for a later one."""
    waits = []

    def wait():
        waits.append(True)

    pieces = [TextDelta(text) for text in "abcd"]
    step = [*pieces[:2], wait, pieces[2], wait, wait, pieces[3], STOP]
    assert [["a", "b"], ["c"], ["d"]] == looped(*step)


def test_what_arrives_together_is_bounded():
    """A model that never lets us wait is shown all the same."""
    groups = looped(*(TextDelta("x") for _ in range(1000)), STOP)
    assert 1000 == sum(map(len, groups))
    assert max(map(len, groups)) <= 100


def test_what_arrived_with_a_fault_is_shown_first():
    """It is in the log before the turn ends, so it is not asked for again."""
    run = Run([TextDelta("Hel"), ProviderError("broke", retryable=True)], [TextDelta("no"), STOP])
    with pytest.raises(ProviderError):
        run()
    assert ["Hel"] == [event.text for event in run.log.of(AgentText)]
    assert 1 == len(run.provider.requests)


def test_thought_and_answer_are_messages_of_their_own():
    """Each change begins a new one; ids are never reused."""
    run = Run(
        [
            ThoughtDelta("a"),
            ThoughtDelta("b"),
            TextDelta("c"),
            ThoughtDelta("d"),
            TextDelta("e"),
            STOP,
        ]
    )
    run()
    shown = run.log.of(AgentText, AgentThought)
    assert [AgentThought, AgentThought, AgentText, AgentThought, AgentText] == list(
        map(type, shown)
    )
    assert shown[0].message_id == shown[1].message_id
    assert 4 == len({event.message_id for event in shown})


UNITS = st.sampled_from(["a", "\ud83d", "\ude00", "\ud800", "🙂", ""])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.lists(UNITS, max_size=3).map("".join)), max_size=6))
def test_a_character_split_over_pieces_is_shown_whole(pieces):
    """Runs of a message are joined before lone surrogates are replaced; none is ever shown."""
    deltas = [ThoughtDelta(text) if thought else TextDelta(text) for thought, text in pieces]
    run = Run([*deltas, STOP])
    run()
    runs = []
    for thought, text in pieces:
        if runs and runs[-1][0] == thought:
            runs[-1][1] += text
        else:
            runs.append([thought, text])
    expected = [[thought, replace_lone_surrogates(text)] for thought, text in runs if text]
    shown = []
    for event in run.log.of(AgentText, AgentThought):
        thought = isinstance(event, AgentThought)
        event.text.encode()
        if shown and shown[-1][0] == event.message_id:
            shown[-1][2] += event.text
        else:
            shown.append([event.message_id, thought, event.text])
    assert expected == [[thought, text] for _message_id, thought, text in shown]


def test_calls_are_run_and_their_results_told():
    """The next request holds the step and, right after it, the result."""
    run = Run(
        [TextDelta("looking"), StateDelta({"sig": 1}), asking("x"), CALLS],
        [TextDelta("done"), STOP],
    )
    assert run() is StopReason.END_TURN
    first, second = run.provider.requests
    assert (UserTurn("do it"),) == first.messages
    _, assistant, result = second.messages
    assert isinstance(assistant, AssistantTurn)
    assert {"sig": 1} == assistant.state
    assert ToolResult(assistant.tool_calls[0].call_id, "look", "did x") == result
    order = [type(event) for event in run.log.events]
    assert order.index(StepEnded) < order.index(ToolCallCreated) < order.index(ToolCallEnded)


def test_the_request_says_what_was_set():
    """Model, effort, system prompt and tools."""
    spec = ToolSpec("look", "looks", {})
    run = Run([STOP], model="big", system="be kind", tools=(spec,), effort="low")
    run()
    (request,) = run.provider.requests
    assert ("big", "be kind", (spec,), "low") == (
        request.model,
        request.system,
        request.tools,
        request.effort,
    )


def test_calls_that_come_in_pieces_are_put_together():
    """By their index, whatever comes between, in the model's order."""
    run = Run(
        [
            ToolCallDelta(1, "b", "look", '{"pa'),
            ToolCallDelta(0, "a", "look", '{"path"'),
            TextDelta("meanwhile"),
            ToolCallDelta(1, arguments='th": "second"}'),
            ToolCallDelta(0, arguments=': "first"}'),
            CALLS,
        ],
        [STOP],
    )
    run()
    calls = run.log.of(StepEnded)[0].calls
    assert ["first", "second"] == [json.loads(call.arguments)["path"] for call in calls]
    assert ["first", "second"] == sorted(params.path for params in run.tool.ran)


def test_a_call_has_an_id_of_its_own_in_the_session():
    """Also if the model gives each call the same one."""
    step = [asking("a"), asking("b", 1), CALLS]
    run = Run(step, step, step, [STOP])
    run()
    ids = [event.tool_call_id for event in run.log.of(ToolCallCreated)]
    assert 6 == len(ids) == len(set(ids))
    assert sorted(ids) == sorted(event.tool_call_id for event in run.log.of(ToolCallEnded))


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (FinishReason.LENGTH, StopReason.MAX_TOKENS),
        (FinishReason.REFUSAL, StopReason.REFUSAL),
    ],
)
def test_a_step_that_was_cut_off_runs_no_call(reason, expected):
    """Its arguments may be half read; the context has no call without a result."""
    run = Run([TextDelta("a"), asking(), Finish(reason)])
    assert run() is expected
    assert [] == run.tool.ran
    assert () == run.log.of(StepEnded)[0].calls


@pytest.mark.parametrize("text", [[], [TextDelta("I will")]])
def test_a_stream_without_its_end_runs_no_call(text):
    """It is a fault, and is not tried again once something was shown."""
    run = Run([*text, asking()], [asking("again"), CALLS], [STOP])
    if text:
        with pytest.raises(ProviderError, match="broke off"):
            run()
        assert [] == run.log.of(StepEnded)
        assert [] == run.tool.ran
    else:
        assert run() is StopReason.END_TURN
        assert ["again"] == [params.path for params in run.tool.ran]


def test_a_retryable_fault_is_tried_again_and_others_are_not():
    """Nothing of the first try is left, and the number of tries is bounded."""
    again = ProviderError("busy", retryable=True, retry_after_s=0)
    run = Run([again], [asking("lost"), again], [TextDelta("ok"), STOP])
    assert run() is StopReason.END_TURN
    assert [] == run.tool.ran
    assert 3 == run.provider.closed
    run = Run(*[[again]] * 10)
    with pytest.raises(ProviderError, match="busy"):
        run()
    assert 5 == len(run.provider.requests)
    run = Run([ProviderError("no such model")], [STOP])
    with pytest.raises(ProviderError, match="no such model"):
        run()
    run = Run([TextDelta("shown"), again], [STOP])
    with pytest.raises(ProviderError, match="busy"):
        run()
    assert 1 == len(run.provider.requests)


def test_a_turn_has_a_bound_of_model_calls():
    """It ends with a reason of its own."""
    steps = [[asking(f"path {number}"), CALLS] for number in range(10)]
    run = Run(*steps, max_turn_requests=4)
    assert run() is StopReason.MAX_TURN_REQUESTS
    assert 4 == len(run.provider.requests)
    assert 4 == len(run.log.of(ToolCallEnded))


def test_a_pause_asks_the_model_again():
    """It has more to say."""
    run = Run([TextDelta("one"), Finish(FinishReason.PAUSE)], [TextDelta("two"), STOP])
    assert run() is StopReason.END_TURN
    assert "one" == run.provider.requests[1].messages[-1].text


def test_an_empty_step_ends_the_turn():
    """A model that says nothing is done."""
    run = Run([STOP])
    assert run() is StopReason.END_TURN
    assert [] == run.log.of(AgentText, AgentThought)


@pytest.mark.parametrize("where", ["before", "in the stream", "in a call", "after the stream"])
def test_a_cancel_ends_the_turn_where_it_is(where):
    """No later step is asked for, no later call runs, and the stream is closed."""
    run = None

    def cancel():
        run.log.cancel.cancel()

    def cancelling(params, context):
        cancel()
        return ToolOutcome("done all the same")

    steps = {
        "before": [[TextDelta("never"), STOP]],
        "in the stream": [[TextDelta("a"), cancel, TextDelta("never"), STOP]],
        "in a call": [
            [asking("first"), asking("never", 1, name="do"), CALLS],
            [TextDelta("never"), STOP],
        ],
        "after the stream": [[TextDelta("a"), asking("never"), CALLS, cancel]],
    }[where]
    tool = ScriptedTool("look", done=cancelling)
    run = Run(*steps, tool=tool)
    if where == "before":
        cancel()
    with pytest.raises(Cancelled):
        run()
    assert "never" not in str(run.log.of(AgentText))
    assert ["first"] * (where == "in a call") == [params.path for params in tool.ran]
    assert run.provider.closed == len(run.provider.requests) == (where != "before")


def test_the_use_of_the_window_is_told_where_its_size_is_known():
    """What the model read and wrote; without a size there is nothing to tell."""
    step = [Usage(100, 20, 30), STOP]
    run = Run(step, window=lambda cancel: 1000)
    run()
    assert [UsageReported(120, 1000)] == run.log.of(UsageReported)
    run = Run(step)
    run()
    assert [] == run.log.of(UsageReported)


def test_a_full_window_is_compacted_before_the_next_step():
    """The model goes on from a summary that has the user's request."""
    run = Run(
        [Usage(850, 10), asking("x"), CALLS],
        [TextDelta("what was done"), STOP],
        [TextDelta("ok"), STOP],
        window=lambda cancel: 1000,
    )
    assert run() is StopReason.END_TURN
    (compacted,) = run.log.of(Compacted)
    assert "what was done" in compacted.summary
    prompt = UserTurn("do it")
    assert (UserTurn(compacted.summary), prompt) == run.provider.requests[-1].messages
    assert ["ok"] == [event.text for event in run.log.of(AgentText)]


def test_a_request_that_is_too_long_is_compacted_once():
    """A second refusal of the kind ends the turn."""
    overflow = ProviderError("too long", context_overflow=True)
    run = Run([overflow], [TextDelta("short"), STOP], [TextDelta("ok"), STOP])
    assert run() is StopReason.END_TURN
    run = Run([overflow], [TextDelta("short"), STOP], [overflow])
    with pytest.raises(ProviderError, match="too long"):
        run()


def test_a_log_that_cannot_be_written_ends_the_turn():
    """Nothing is asked for that could not be stored."""

    def refuse(event):
        raise StoreError("the disk is full")

    run = Run([TextDelta("a"), asking(), CALLS], on_emit=refuse)
    with pytest.raises(StoreError):
        run()
    assert [] == run.tool.ran
    assert 1 == run.provider.closed
