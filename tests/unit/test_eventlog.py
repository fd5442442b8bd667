"""Events and their rows: everything comes back as it was written, and names are for ever."""

from __future__ import annotations

import json
import re
from typing import get_args

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.agent.ports import (
    DiffContent,
    FileChange,
    Location,
    PlanEntry,
    PlanPriority,
    PlanStatus,
    TerminalContent,
    TextContent,
    ToolKind,
)
from term2_acp.errors import StoreError
from term2_acp.eventlog import (
    AgentText,
    AgentThought,
    Compacted,
    Event,
    LinkBlock,
    Notice,
    PermissionAnswered,
    PermissionAsked,
    PlannedCall,
    PlanUpdated,
    ResourceBlock,
    SessionCreated,
    SessionState,
    StateChanged,
    StepEnded,
    StopReason,
    SystemPromptSet,
    TerminalExited,
    TerminalOpened,
    TerminalOutput,
    TextBlock,
    TitleSet,
    ToolCallCreated,
    ToolCallEnded,
    ToolCallShowed,
    ToolCallStarted,
    ToolStatus,
    TurnEnded,
    TurnStarted,
    UsageReported,
    UserMessage,
)
from term2_acp.eventrows import DamagedRowError, event_from_row, event_to_row

WORDS = st.one_of(st.text(max_size=6), st.sampled_from(["", "\0", "\u2028", "🙂", "\ufffd"]))
IDS = st.text(max_size=4)
NUMBERS = st.integers(-(2**63), 2**63)
JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), NUMBERS, st.floats(allow_nan=False, allow_infinity=False), WORDS
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=8,
)


def maybe(strategy):
    """The value, or none."""
    return st.none() | strategy


def some(strategy):
    """A tuple of a few."""
    return st.lists(strategy, max_size=3).map(tuple)


LOCATIONS = some(st.builds(Location, WORDS, maybe(st.integers(1, 9))))
CONTENT = some(
    st.one_of(
        st.builds(TextContent, WORDS),
        st.builds(TerminalContent, IDS),
        st.builds(DiffContent, some(st.builds(FileChange, WORDS, maybe(WORDS), maybe(WORDS)))),
    )
)
BLOCKS = some(
    st.one_of(
        st.builds(TextBlock, WORDS),
        st.builds(
            LinkBlock, WORDS, WORDS, maybe(WORDS), maybe(WORDS), maybe(WORDS), maybe(NUMBERS)
        ),
        st.builds(ResourceBlock, WORDS, WORDS, maybe(WORDS)),
    )
)
KINDS = st.sampled_from(list(ToolKind))
STRATEGIES = {
    SessionCreated: st.builds(SessionCreated, WORDS),
    TurnStarted: st.builds(TurnStarted, IDS),
    UserMessage: st.builds(UserMessage, IDS, BLOCKS),
    AgentText: st.builds(AgentText, IDS, WORDS),
    AgentThought: st.builds(AgentThought, IDS, WORDS),
    Notice: st.builds(Notice, IDS, WORDS),
    StepEnded: st.builds(
        StepEnded, WORDS, some(st.builds(PlannedCall, IDS, WORDS, WORDS)), WORDS, JSON
    ),
    ToolCallCreated: st.builds(ToolCallCreated, IDS, WORDS, WORDS, KINDS, JSON, LOCATIONS),
    ToolCallStarted: st.builds(ToolCallStarted, IDS),
    ToolCallShowed: st.builds(ToolCallShowed, IDS, CONTENT),
    ToolCallEnded: st.builds(
        ToolCallEnded, IDS, st.sampled_from(list(ToolStatus)), WORDS, CONTENT, LOCATIONS
    ),
    TerminalOpened: st.builds(TerminalOpened, IDS, WORDS, WORDS),
    TerminalOutput: st.builds(TerminalOutput, IDS, st.binary(max_size=30)),
    TerminalExited: st.builds(TerminalExited, IDS, maybe(NUMBERS), maybe(WORDS)),
    PermissionAsked: st.builds(PermissionAsked, IDS, some(WORDS)),
    PermissionAnswered: st.builds(PermissionAnswered, IDS, maybe(WORDS)),
    StateChanged: st.builds(StateChanged, st.sampled_from(list(SessionState))),
    PlanUpdated: st.builds(
        PlanUpdated,
        some(
            st.builds(
                PlanEntry,
                WORDS,
                st.sampled_from(list(PlanPriority)),
                st.sampled_from(list(PlanStatus)),
            )
        ),
    ),
    Compacted: st.builds(Compacted, WORDS),
    SystemPromptSet: st.builds(SystemPromptSet, WORDS),
    UsageReported: st.builds(UsageReported, NUMBERS, NUMBERS),
    TitleSet: st.builds(TitleSet, WORDS),
    TurnEnded: st.builds(TurnEnded, IDS, st.sampled_from(list(StopReason)), maybe(WORDS)),
}
NAMES = {cls: re.sub("(?<!^)([A-Z])", r"_\1", cls.__name__).lower() for cls in STRATEGIES}


def test_every_kind_of_event_is_tested_here():
    """A new one needs a strategy, and so a row that can be read again."""
    assert set(get_args(Event)) == set(STRATEGIES)


@settings(deadline=None, max_examples=300)
@given(st.one_of(*STRATEGIES.values()))
def test_an_event_comes_back_from_its_row_as_it_was(event):
    """With every member and its type; the row is one strict JSON object under a stable name."""
    name, text = event_to_row(event)
    restored = event_from_row(name, text)
    assert event == restored
    assert type(event) is type(restored)
    assert NAMES[type(event)] == name
    assert isinstance(json.loads(text), dict)


SURROGATES = st.sampled_from(["\ud800", "a\udfffb", "\ud83d\ude00", "\udcff"])


@given(SURROGATES, SURROGATES)
def test_lone_surrogates_are_stored_as_replacement_characters(one, other):
    """No row holds one, wherever it was: in texts, in what a model sent, in names of members."""
    event = ToolCallCreated("c", one, other, ToolKind.READ, {one: [other]}, (Location("/" + one),))
    name, text = event_to_row(event)
    text.encode()
    restored = event_from_row(name, text)
    assert restored.name == event_from_row(*event_to_row(AgentText("m", one))).text
    assert next(iter(restored.raw_input.values()))[0] == restored.title
    assert "\ud800" not in str(attrs.asdict(restored))


def test_a_kind_of_a_newer_version_is_skipped():
    """A downgrade reads the rest of the log."""
    assert event_from_row("hologram_shown", '{"x": 1}') is None
    assert event_from_row("hologram_shown", "not even JSON") is None


def test_members_of_a_newer_version_are_ignored():
    """A downgrade reads what it knows of an event."""
    assert TurnStarted("t") == event_from_row("turn_started", '{"turn_id":"t","colour":"red"}')


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("agent_text", ""),
        ("agent_text", "{"),
        ("agent_text", "[]"),
        ("agent_text", "null"),
        ("agent_text", '{"text":"x"}'),
        ("turn_ended", '{"turn_id":"t","stop_reason":"vanished"}'),
        ("terminal_output", '{"terminal_id":"t","data":"\u20ac"}'),
        ("user_message", '{"message_id":"m","content":[{"type":"hologram"}]}'),
        ("user_message", '{"message_id":"m","content":5}'),
        ("tool_call_created", '{"tool_call_id":"c"}'),
        ("agent_text", "[" * 100_000),
    ],
)
def test_a_damaged_row_is_an_error_that_names_the_kind(name, text):
    """A half-written or foreign row never comes through as something else."""
    with pytest.raises(DamagedRowError, match=name):
        event_from_row(name, text)


@pytest.mark.parametrize("raw", [float("inf"), float("nan")])
def test_what_json_cannot_say_is_not_stored(raw):
    """A StoreError, not a row that the next reader cannot read."""
    with pytest.raises(StoreError, match="tool_call_created"):
        event_to_row(ToolCallCreated("c", "n", "t", ToolKind.READ, {"a": raw}))


@pytest.mark.parametrize("raw", [1e308, -0.0, 2**70])
def test_a_row_is_strict_json(raw):
    """What a model sends as arguments is stored so that every reader can read it."""
    _name, text = event_to_row(ToolCallCreated("c", "n", "t", ToolKind.READ, {"a": raw}))

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    "depth",
    [
        100,
        pytest.param(
            400,
        ),
    ],
)
def test_whatever_a_model_can_send_can_be_stored(depth):
    """Nested arguments that were parsed can be written, or a StoreError says that they cannot."""
    raw = json.loads("[" * depth + "]" * depth)
    event = ToolCallCreated("c", "n", "t", ToolKind.READ, raw)
    try:
        row = event_to_row(event)
    except StoreError:
        return
    assert raw == event_from_row(*row).raw_input
