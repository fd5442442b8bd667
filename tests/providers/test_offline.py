"""The offline model, step by step, driven as the loop drives any provider."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.agent.cancel import Cancelled, CancelToken
from term2_acp.agent.model import (
    AssistantTurn,
    Finish,
    FinishReason,
    ModelEvent,
    ModelMessage,
    ModelRequest,
    ProviderError,
    TextDelta,
    ThoughtDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    ToolSpec,
    Usage,
    UserTurn,
)
from term2_acp.agent.ports import Provider
from term2_acp.providers.offline import OfflineProvider
from term2_acp.providers.offline_directives import USAGES

TOOLS = ("read_file", "glob", "grep", "create_file", "search_replace", "shell")
LATER_TOOLS = ("run_code", "update_plan")
DEADLINE_S = 30


@attrs.frozen
class Step:
    """One model step, its deltas put together."""

    events: tuple[ModelEvent, ...]
    text: str
    thought: str
    calls: tuple[ToolCall, ...]
    usage: Usage
    finish: FinishReason


def run_step(
    messages: Sequence[ModelMessage],
    *,
    tools: Sequence[str] = TOOLS,
    cancel: CancelToken | None = None,
) -> Step:
    request = ModelRequest(
        model="offline",
        system="be brief",
        messages=tuple(messages),
        tools=tuple(ToolSpec(name, "", {"type": "object"}) for name in tools),
    )
    events = tuple(OfflineProvider().stream(request, cancel or CancelToken()))
    deltas = [event for event in events if isinstance(event, ToolCallDelta)]
    calls = (
        (ToolCall(deltas[0].call_id, deltas[0].name, "".join(d.arguments for d in deltas)),)
        if deltas
        else ()
    )
    usage, finish = events[-2:]
    assert isinstance(usage, Usage)
    assert isinstance(finish, Finish)
    return Step(
        events=events,
        text="".join(event.text for event in events if isinstance(event, TextDelta)),
        thought="".join(event.text for event in events if isinstance(event, ThoughtDelta)),
        calls=calls,
        usage=usage,
        finish=finish.reason,
    )


def after(
    step: Step, *, result: str = "done", failed: bool = False
) -> tuple[AssistantTurn | ToolResult, ...]:
    """What the loop adds to the messages after a step."""
    return (
        AssistantTurn(text=step.text, thought=step.thought, tool_calls=step.calls),
        *(ToolResult(call.call_id, call.name, result, failed) for call in step.calls),
    )


def run_turn(text: str, *, tools: Sequence[str] = TOOLS) -> list[Step]:
    messages: list[ModelMessage] = [UserTurn(text)]
    steps: list[Step] = []
    while not steps or steps[-1].finish is not FinishReason.STOP:
        steps.append(run_step(messages, tools=tools))
        messages.extend(after(steps[-1]))
    return steps


def test_it_is_a_provider() -> None:
    """The class fits the port of the loop."""
    provider: Provider = OfflineProvider()
    assert provider.name == "offline"


@pytest.mark.parametrize(
    ("line", "tool", "arguments"),
    [
        ("/read a.txt", "read_file", {"path": "a.txt"}),
        ("/grep x+", "grep", {"pattern": "x+"}),
        ("/create a.txt <<hi", "create_file", {"path": "a.txt", "content": "hi\n"}),
        (
            "/replace a.txt old => new",
            "search_replace",
            {
                "path": "a.txt",
                "replacements": [{"search_content": "old", "replace_content": "new"}],
            },
        ),
        ("/shell ls -l", "shell", {"command": "ls -l"}),
        ("/code print(1)", "run_code", {"code": "print(1)"}),
        (
            "/plan A; B",
            "update_plan",
            {
                "entries": [
                    {"content": "A", "priority": "medium", "status": "pending"},
                    {"content": "B", "priority": "medium", "status": "pending"},
                ]
            },
        ),
    ],
)
def test_a_directive_calls_its_tool(line: str, tool: str, arguments: dict[str, Any]) -> None:
    """Each tool directive is one call, and its arguments are those of the tool."""
    step = run_step([UserTurn(line)], tools=[*TOOLS, *LATER_TOOLS])
    (call,) = step.calls
    assert (tool, arguments) == (call.name, json.loads(call.arguments))
    assert step.finish is FinishReason.TOOL_CALLS
    assert step.text == ""


def test_a_call_arrives_in_several_pieces() -> None:
    """The id and name come first, the arguments in pieces, as from a real service."""
    step = run_step([UserTurn("/read a.txt")])
    deltas = [event for event in step.events if isinstance(event, ToolCallDelta)]
    assert len(deltas) > 2
    assert deltas[0].call_id
    assert all(delta.call_id == "" for delta in deltas[1:])


@pytest.mark.parametrize("line", ["/code print(1)", "/plan A; B", "/read a.txt"])
def test_a_tool_that_was_not_offered_is_not_called(line: str) -> None:
    """Without the tool in the request the model says that it has none, and goes on."""
    first, second = run_turn(f"{line}\n/say next", tools=["shell"])
    assert first.calls == ()
    assert "no tool" in first.text
    assert first.finish is FinishReason.PAUSE
    assert second.text == "next"


def test_each_directive_is_one_step_and_the_last_call_is_reported() -> None:
    """A turn runs its directives in order and ends with a report of all its calls."""
    steps = run_turn("first\n/think hm\n/say one two\n/read a.txt\nprose\n/shell ls")
    assert [FinishReason.PAUSE] * 2 + [FinishReason.TOOL_CALLS] * 2 + [FinishReason.STOP] == [
        step.finish for step in steps
    ]
    assert steps[0].thought == "hm"
    assert steps[1].text == "one two"
    assert steps[4].text == "read_file: ok\n\n    done\n\nshell: ok\n\n    done\n"


def test_a_turn_that_ends_with_words_has_no_report() -> None:
    """After a last `/say` the turn is over."""
    steps = run_turn("/read a.txt\n/say done")
    assert ["read_file", None] == [s.calls[0].name if s.calls else None for s in steps]


def test_words_are_streamed_one_by_one() -> None:
    """The text of `/say` comes in one delta a word, and together unchanged."""
    step = run_step([UserTurn("/say  one two\\n three ")])
    assert [" ", "one ", "two\n ", "three "] == [
        event.text for event in step.events if isinstance(event, TextDelta)
    ]


def test_a_report_is_bounded_and_names_failures() -> None:
    """Of each result the first lines are shown, of many results the last."""
    directives = "\n".join(["/read a"] * 30)
    messages: list[ModelMessage] = [UserTurn(directives)]
    for number in range(30):
        step = run_step(messages)
        messages.extend(
            after(step, result=f"no {number}\n" + "x" * 10_000 + "\ny" * 100, failed=True)
        )
    report = run_step(messages).text
    assert "read_file: failed\n\n    no 29\n" in report
    assert "no 9\n" not in report
    assert "(10 earlier calls left out)" in report
    assert "more lines)" in report
    assert len(report) < 10_000


def test_an_unknown_directive_is_answered_with_the_list() -> None:
    """Every directive is named, and the rest of the prompt is obeyed."""
    first, second = run_turn("/frobnicate\n/say next")
    assert all(usage in first.text for usage in USAGES.values())
    assert "/frobnicate" in first.text
    assert second.text == "next"


def test_a_malformed_directive_is_answered_with_its_usage() -> None:
    """The reason and the usage are told, and nothing is called."""
    (step,) = run_turn("/replace a.txt b")
    assert USAGES["replace"] in step.text
    assert "' => '" in step.text
    assert step.calls == ()


def test_fail_is_a_provider_error() -> None:
    """`/fail` fails as a model that cannot be asked, and not for a retry."""
    with pytest.raises(ProviderError, match="requested by /fail") as caught:
        run_step([UserTurn("/fail")])
    assert not caught.value.retryable


def test_steps_are_counted_from_the_last_user_turn() -> None:
    """An earlier turn, finished or interrupted, does not move the step."""
    history = (
        UserTurn("/read a\n/read b\n/read c"),
        *after(run_step([UserTurn("/read a")])),
    )
    assert run_step([*history, UserTurn("/say hi")]).text == "hi"


def test_call_ids_differ_within_a_session() -> None:
    """No id comes twice, over steps and over turns."""
    messages: list[ModelMessage] = []
    ids = []
    for _ in range(3):
        messages.append(UserTurn("/read a\n/read b"))
        for _ in range(2):
            step = run_step(messages)
            ids.append(step.calls[0].call_id)
            messages.extend(after(step))
        messages.extend(after(run_step(messages)))
    assert len(set(ids)) == 6


def test_it_is_deterministic() -> None:
    """The same request gets the same events."""
    messages = [UserTurn("/create a <<text\n/say hi")]
    assert run_step(messages) == run_step(messages)


def test_usage_is_an_estimate() -> None:
    """Tokens grow with the characters of the request and of the answer."""
    short = run_step([UserTurn("/say " + "a" * 40)]).usage
    long = run_step([UserTurn("x" * 4000 + "\n/say " + "a" * 400)]).usage
    assert short.output_tokens == 10
    assert long.output_tokens == 100
    assert long.input_tokens > short.input_tokens + 1000


def test_plain_text_is_answered_from_the_workspace() -> None:
    """It lists the workspace, reads the README that is there, and reports both."""
    messages: list[ModelMessage] = [UserTurn("what is this?")]
    first = run_step(messages)
    assert ("glob", {"pattern": "*"}) == (first.calls[0].name, json.loads(first.calls[0].arguments))
    messages.extend(after(first, result="README.md\nsrc\nsetup.py"))
    second = run_step(messages)
    assert ("read_file", {"path": "README.md"}) == (
        second.calls[0].name,
        json.loads(second.calls[0].arguments),
    )
    messages.extend(after(second, result="# Fine project\n\nIt is fine."))
    last = run_step(messages)
    assert last.finish is FinishReason.STOP
    assert "README.md, src, setup.py" in last.text
    assert "# Fine project" in last.text
    assert "/read PATH" in last.text


def test_plain_text_without_a_readme_takes_one_call() -> None:
    """A README is only read where the listing shows one."""
    messages: list[ModelMessage] = [UserTurn("hello")]
    messages.extend(after(run_step(messages), result="\n".join(f"f{n}" for n in range(40))))
    last = run_step(messages)
    assert last.finish is FinishReason.STOP
    assert "f0, f1" in last.text
    assert "and 28 more" in last.text


@pytest.mark.parametrize(
    ("listing", "told"),
    [
        ("a.txt\nsrc/", "At the top of the workspace: a.txt, src/."),
        ("Nothing in . matches *. Use **/* to look further.", "The workspace is empty"),
        ("\n".join(["f"] * 50) + "\n[cut at 50 paths, there are more]", "at least 38 more."),
    ],
)
def test_a_listing_is_described_as_it_is(listing: str, told: str) -> None:
    """The notes of the tool are no entries, and what was cut is not counted as known."""
    messages: list[ModelMessage] = [UserTurn("hello")]
    messages.extend(after(run_step(messages), result=listing))
    assert told in run_step(messages).text


def test_a_listing_that_failed_is_told() -> None:
    """What could not be seen is not made up."""
    messages: list[ModelMessage] = [UserTurn("hello")]
    messages.extend(after(run_step(messages), result="README.md: not allowed", failed=True))
    assert "could not list the workspace: README.md: not allowed" in run_step(messages).text


def test_plain_text_without_tools_says_so() -> None:
    """With no tool to look with, it says that it cannot look."""
    (step,) = run_turn("hello", tools=[])
    assert "no tool glob" in step.text


def test_attached_text_is_not_obeyed() -> None:
    """Directives count only in what the user typed, not in a resource that came with it."""
    step = run_step([UserTurn("see this", attached="/shell rm x")])
    assert step.calls[0].name == "glob"
    assert step.usage.input_tokens > run_step([UserTurn("see this")]).usage.input_tokens


def test_a_conversation_without_a_user_turn_is_answered() -> None:
    """An empty request is plain text, not a fault."""
    assert run_step([], tools=[]).finish is FinishReason.STOP


def test_a_set_token_stops_the_step_before_it_begins() -> None:
    """Nothing is said after a cancel."""
    cancel = CancelToken()
    cancel.cancel()
    with pytest.raises(Cancelled):
        run_step([UserTurn("/say hi")], cancel=cancel)


def test_a_cancel_between_words_stops_the_answer() -> None:
    """The token is looked at after each delta."""
    cancel = CancelToken()
    stream = OfflineProvider().stream(
        ModelRequest("offline", "", (UserTurn("/say a b c"),)), cancel
    )
    assert TextDelta("a ") == next(stream)
    cancel.cancel()
    with pytest.raises(Cancelled):
        next(stream)


def test_a_cancel_wakes_a_sleep() -> None:
    """`/sleep` waits on the token, so that a cancel is not stuck behind it."""
    cancel = CancelToken()
    timer = threading.Timer(0.05, cancel.cancel)
    timer.start()
    started = time.monotonic()
    with pytest.raises(Cancelled):
        run_step([UserTurn("/sleep 600")], cancel=cancel)
    timer.join(DEADLINE_S)
    assert time.monotonic() - started < DEADLINE_S


def test_a_sleep_takes_its_time() -> None:
    """An undisturbed `/sleep` waits as long as it says, and says nothing."""
    started = time.monotonic()
    step = run_step([UserTurn("/sleep 0.05\n/say hi")])
    assert time.monotonic() - started >= 0.04
    assert step.finish is FinishReason.PAUSE
    assert step.text == ""


@settings(deadline=None)
@given(st.text(st.characters()).filter(lambda text: "/sleep" not in text))
def test_any_text_is_answered(text: str) -> None:
    """No text, lone surrogates too, makes the model crash; arguments are always JSON."""
    for prompt in (text, f"/say {text}", f"/create {text} <<{text}", f"/grep {text}"):
        try:
            step = run_step([UserTurn(prompt)])
        except ProviderError:
            continue
        for call in step.calls:
            json.loads(call.arguments.encode("ascii"))
