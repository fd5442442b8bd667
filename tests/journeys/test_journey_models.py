"""Real work with each vendor's format over the real program (spec sections 2 and 5)."""

from __future__ import annotations

import json

import pytest

from tests.models.chat import ChatServer, chat_chunk
from tests.models.configuration import KINDS, MODEL, configure
from tests.models.http import Reply, Then, json_reply
from tests.models.steps import Call, ScriptedStep


@pytest.fixture(params=sorted(KINDS), name="kind")
def _kind(request):
    return request.param


@pytest.fixture(name="model")
def _model(kind):
    server = KINDS[kind]()
    yield server
    server.close()
    assert server.faults == []


@pytest.fixture(name="lent")
def _lent(lender, kind):
    """The shared server that asks a service of that kind."""
    yield lender.lend(kind)
    lender.take_back(kind)


@pytest.fixture(name="chat")
def _chat(lent_chat):
    """The shared Chat Completions model."""
    return lent_chat.service


@pytest.fixture(name="open_chat")
def _open_chat(home, start, project, lent_chat, open_session):
    """A session of a server that talks to `chat`: the shared one if it is to have no settings."""

    def open_chat(**settings):
        if not settings:
            return open_session(lent_chat.client)
        configure(home, "openai-compatible", lent_chat.service, **settings)
        client = start(LOCAL_API_KEY="sk-local-not-shown-anywhere")
        client.initialize()
        return client, client.new_session(project)

    return open_chat


def read(path: str) -> ScriptedStep:
    return ScriptedStep(thought="I look first.", calls=(Call.of("read_file", path=path),))


def test_a_long_session_survives_a_kill_in_the_middle(home, start, project, kind, model):
    """30 steps with 20 calls, killed and resumed: the vendor's rules accept every request."""
    configure(home, kind, model)
    client = start(LOCAL_API_KEY="sk-local")
    client.initialize()
    client.permissions.allow_all()
    session = client.new_session(project)
    for turn in range(5):
        model.step(read("README.md"))
        model.step(
            ScriptedStep(
                text="Two at once.",
                calls=(
                    Call.of("read_file", path="src/teapot.py"),
                    Call.of("grep", pattern="tea"),
                ),
            )
        )
        model.step(ScriptedStep(text=f"Turn {turn} done."))
        answer = client.run(session, f"please {turn}")
        assert answer.stop_reason == "end_turn"
        assert f"Turn {turn} done." in answer.text
    # The sixth is killed while its tool runs.
    model.step(ScriptedStep(calls=(Call.of("shell", command="sleep 600"),)))
    client.prompt(session, "sleep").result()
    client.wait_update(
        lambda update: update.body.get("command") == "sleep 600", session=session, what="the sleep"
    )
    client.kill()

    client = start(LOCAL_API_KEY="sk-local")
    client.initialize()
    client.permissions.allow_all()
    client.resume(session, project).result()
    for turn in range(7):
        model.step(read("README.md"))
        model.step(ScriptedStep(text=f"Again {turn}."))
        answer = client.run(session, f"go on {turn}")
        assert (answer.stop_reason, answer.text) == ("end_turn", f"Again {turn}.")
    assert model.faults == []


def test_thoughts_and_usage_are_shown(lent, open_session):
    """Reasoning comes as thoughts, text as messages, and usage with the window's size."""
    client, session = open_session(lent.client)
    lent.service.step(ScriptedStep(thought="Let me think.", text="Hello there."))
    answer = client.run(session, "hi")
    kinds = [update.kind for update in answer.updates]
    assert "agent_thought_chunk" in kinds
    assert answer.text == "Hello there."
    usage = [update.body for update in answer.updates if update.kind == "usage_update"]
    assert [(one["size"], one["used"] > 0) for one in usage] == [(100000, True)]


def test_a_silent_model_is_cancelled_at_once(lent, open_session):
    """A cancel during silence, before the headers or in the middle, settles the turn."""
    client, session = open_session(lent.client)
    stalls = (Reply(before_headers=Then.STALL), Reply((b": nothing yet\n\n", Then.STALL)))
    for number, reply in enumerate(stalls, 1):
        lent.service.reply(reply)
        client.prompt(session, "hi").result()
        lent.service.wait_for_requests(number)
        client.cancel(session)
        assert client.wait_idle(session, 5) == "cancelled"
    lent.service.step(ScriptedStep(text="Back."))
    assert client.run(session, "again").text == "Back."


FAULTS = {
    "401": (json_reply(401, {"error": {"message": "bad key"}}), "LOCAL_API_KEY"),
    "404": (json_reply(404, {"error": {"message": "no such model"}}), MODEL),
    "html": (Reply((b"<html>proxy</html>",), 200, "text/html", length=True), "text/html"),
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_refusal_ends_the_turn_with_words_for_the_user(open_chat, chat, fault):
    """`_term2_error`, with an agent message that names the cause, and no key anywhere."""
    reply, named = FAULTS[fault]
    client, session = open_chat()
    # A proxy's page may be gone in a moment, so it is asked for again; the others are final.
    chat.reply(*[reply] * (5 if fault == "html" else 1))
    answer = client.run(session, "hi", 60)
    assert answer.stop_reason == "_term2_error"
    assert named in answer.text
    assert "not-shown" not in answer.text + client.stderr
    if fault != "html":
        chat.step(ScriptedStep(text="Fine."))
        assert client.run(session, "again").text == "Fine."


def test_a_busy_service_is_asked_again(open_chat, chat):
    """429 with Retry-After and 503 are retried, visibly on stderr, and nothing is doubled."""
    client, session = open_chat()
    before = len(client.stderr)
    chat.reply(
        json_reply(429, {"error": {"message": "slow down"}}, ("Retry-After", "0")),
        json_reply(503, {"error": {"message": "overloaded"}}),
    )
    chat.step(ScriptedStep(text="At last."))
    answer = client.run(session, "hi", 30)
    assert (answer.stop_reason, answer.text) == ("end_turn", "At last.")
    assert "try 1 of 4" in client.stderr[before:]


def test_a_cancel_ends_the_pause_before_a_retry(open_chat, chat):
    """The service asks for a minute; the user does not wait for it."""
    client, session = open_chat()
    before = len(client.stderr)
    chat.reply(json_reply(429, {"error": {"message": "slow down"}}, ("Retry-After", "60")))
    client.prompt(session, "hi").result()
    chat.wait_for_requests(1)
    client.wait_for(lambda: "try 1 of 4" in client.stderr[before:], "the retry on stderr", 10)
    client.cancel(session)
    assert client.wait_idle(session, 3) == "cancelled"


def test_a_stream_that_breaks_off_is_not_repeated_once_shown(open_chat, chat):
    """What was shown in part ends the turn as an error; it is never doubled."""
    client, session = open_chat()
    chat.stream(chat_chunk({"role": "assistant", "content": "Half an ans"}), Then.CUT)
    answer = client.run(session, "hi", 30)
    assert answer.stop_reason == "_term2_error"
    assert answer.text.count("Half an ans") == 1
    assert len(chat.requests) == 1
    chat.step(ScriptedStep(text="Whole."))
    assert client.run(session, "again").text == "Whole."


def test_a_cut_tool_call_is_not_run(open_chat, chat, project):
    """Half-read arguments are neither repaired nor run, by a cut or by a length finish."""
    client, session = open_chat()
    function = {"name": "shell", "arguments": '{"command":"touch A'}
    call = {"index": 0, "id": "call_0", "type": "function", "function": function}
    begun = chat_chunk({"tool_calls": [call]})
    client.permissions.allow_all()
    for _ in range(5):
        chat.stream(begun, Then.CUT)
    answer = client.run(session, "hi", 60)
    assert answer.stop_reason == "_term2_error"
    chat.stream(begun, chat_chunk({}, "length"), b"data: [DONE]\n\n")
    assert client.run(session, "hi").stop_reason == "max_tokens"
    assert not (project / "A").exists()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (Call.of("no_such_tool", x=1), "read_file"),
        (Call("read_file", '{"path": '), "JSON"),
        (Call.of("read_file", path=5), "path"),
        (Call.of("read_file", path="README.md", nonsense=True), "nonsense"),
    ],
    ids=["unknown tool", "malformed", "wrong type", "extra"],
)
def test_a_wrong_call_fails_and_the_model_is_told(open_chat, chat, call, told):
    """A failed tool call that says what was wrong; the turn goes on."""
    client, session = open_chat()
    chat.step(ScriptedStep(calls=(call,)))
    chat.step(ScriptedStep(text="I see."))
    answer = client.run(session, "hi")
    assert (answer.stop_reason, answer.text) == ("end_turn", "I see.")
    assert [one["status"] for one in answer.calls] == ["failed"]
    results = [m for m in chat.requests[-1].body["messages"] if m["role"] == "tool"]
    assert told in results[-1]["content"]


def test_call_ids_are_unique_although_the_model_repeats_its_own(open_chat, chat):
    """A model that says `call_0` each time gives calls of their own to the client."""
    client, session = open_chat()
    ids = []
    for _ in range(2):
        chat.step(read("README.md"))
        chat.step(ScriptedStep(text="Read."))
        ids += [call["toolCallId"] for call in client.run(session, "hi").calls]
    assert len(set(ids)) == 2


def test_finish_reasons_are_told(open_chat, chat):
    """Length is max_tokens, a content filter is a refusal that the next request leaves out."""
    client, session = open_chat()
    chat.step(ScriptedStep(text="Cut o", finish="length"))
    assert client.run(session, "long").stop_reason == "max_tokens"
    chat.step(ScriptedStep(text="I will not.", finish="content_filter"))
    assert client.run(session, "forbidden thing").stop_reason == "refusal"
    chat.step(ScriptedStep(text="Sure."))
    assert client.run(session, "something else").stop_reason == "end_turn"
    sent = json.dumps(chat.requests[-1].body)
    assert "something else" in sent
    assert "long" in sent
    assert "forbidden thing" not in sent


def test_an_empty_answer_does_no_harm(open_chat, chat):
    """Nothing and white space are ends of a turn, and the next request is accepted."""
    client, session = open_chat()
    for step in (ScriptedStep(), ScriptedStep(text=" \n"), ScriptedStep(thought="Only thought.")):
        chat.step(step)
        assert client.run(session, "hi").stop_reason == "end_turn"
    chat.step(ScriptedStep(text="Fine."))
    assert client.run(session, "again").text == "Fine."
    assert chat.faults == []


def test_the_turn_is_bounded(open_chat, chat):
    """max_turn_requests model calls, then the turn ends and the next prompt works."""
    client, session = open_chat(max_turn_requests=3)
    for number in range(3):
        chat.step(ScriptedStep(calls=(Call.of("grep", pattern=f"x{number}"),)))
    assert client.run(session, "hi").stop_reason == "max_turn_requests"
    chat.step(ScriptedStep(text="Fine."))
    assert client.run(session, "again").text == "Fine."


def test_identical_failing_calls_are_told_and_then_end_the_turn(open_chat, chat):
    """The third failure says so to the model, three more end the turn."""
    client, session = open_chat()
    for _ in range(6):
        chat.step(read("missing.txt"))
    answer = client.run(session, "hi")
    assert answer.stop_reason == "max_turn_requests"
    assert len(answer.calls) == 6
    results = [m["content"] for m in chat.requests[-1].body["messages"] if m["role"] == "tool"]
    assert ["in a row" in result for result in results] == [False, False, True, True, True]


def test_a_request_that_is_too_long_is_compacted_once(open_chat, chat, project):
    """The summary keeps what the user asked and the touched files, also after a resume."""
    client, session = open_chat()
    chat.step(read("README.md"))
    chat.step(ScriptedStep(text="It is about tea."))
    client.run(session, "what is the README about?")
    too_long = {"error": {"message": "maximum context length", "code": "context_length_exceeded"}}
    chat.reply(json_reply(400, too_long))
    chat.step(ScriptedStep(text="Summary: the README is about tea."))
    chat.step(ScriptedStep(text="Done."))
    answer = client.run(session, "and now?")
    assert (answer.stop_reason, answer.text) == ("end_turn", "Done.")
    sent = json.dumps(chat.requests[-1].body["messages"])
    for kept in ("what is the README about?", "and now?", "README.md", "Summary: the README"):
        assert kept in sent
    assert [m["role"] for m in chat.requests[-1].body["messages"]].count("assistant") == 0
    client.close_session(session)
    client.resume(session, project).result()
    chat.step(ScriptedStep(text="Still here."))
    assert client.run(session, "and after a resume?").text == "Still here."
    assert "Summary: the README" in json.dumps(chat.requests[-1].body["messages"])


def test_the_project_says_how_it_wants_to_be_worked_on(open_chat, chat, project):
    """AGENTS.md is part of the system prompt; a link out of the workspace is not."""
    (project / "AGENTS.md").write_text("Always use tabs.\n")
    outside = project.parent / "outside.txt"
    outside.write_text("very private\n")
    (project / "CLAUDE.md").symlink_to(outside)
    client, session = open_chat()
    chat.step(ScriptedStep(text="Hi."))
    client.run(session, "hi")
    sent = json.dumps(chat.requests[0].body)
    assert "Always use tabs." in sent
    assert "very private" not in sent


def test_text_is_the_same_live_and_replayed(open_chat, chat, project):
    """Odd separators, and a surrogate pair that is split over two deltas."""
    client, session = open_chat()
    text = "a\u2028b\u2029c\u0085d\x0b\x1ce \U0001f600"
    chat.stream(
        b"".join(
            [
                chat_chunk({"role": "assistant", "content": text}),
                b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}\n\n',
                b'data: {"choices":[{"index":0,"delta":{"content":"\\ude00"}}]}\n\n',
                chat_chunk({}, "stop"),
                b"data: [DONE]\n\n",
            ]
        )
    )
    answer = client.run(session, "hi")
    assert answer.text == text + "\U0001f600"
    shown = [u for u in client.replay(session, project) if u.kind == "agent_message"]
    assert shown[-1].body["content"][0]["text"] == answer.text


def test_the_sdk_is_not_imported_before_initialize_is_answered(home, start, chat):
    """Even with a hosted provider configured, the answer comes without its SDK."""
    configure(home, "openai-compatible", chat)
    client = start(LOCAL_API_KEY="sk-local", PYTHONPROFILEIMPORTTIME="1")
    client.initialize()
    before = client.stderr
    assert "openai" not in before
    assert "term2_acp.rpc.reader" in before


def test_the_system_prompt_and_the_tools_stay_the_same(open_chat, chat, project):
    """Caches and signatures hang on them: also after a change of AGENTS.md and a resume."""
    client, session = open_chat()
    for text in ("one", "two", "three"):
        (project / "AGENTS.md").write_text(f"Say {text}.\n")
        chat.step(ScriptedStep(text=text))
        client.run(session, text)
        client.close_session(session)
        client.resume(session, project).result()
    bodies = [request.body for request in chat.requests]
    assert len({json.dumps(body["messages"][0]) for body in bodies}) == 1
    assert len({json.dumps(body["tools"]) for body in bodies}) == 1


def test_a_service_that_is_not_there_is_named(home, start, project):
    """Connect failures are retried, then the turn ends and says what cannot be reached."""
    chat = ChatServer()
    configure(home, "openai-compatible", chat)
    chat.close()
    client = start(LOCAL_API_KEY="sk-local")
    client.initialize()
    answer = client.run(client.new_session(project), "hi", 60)
    assert answer.stop_reason == "_term2_error"
    assert "local" in answer.text
    assert "try 4 of 4" in client.stderr


def test_a_model_that_falls_silent_ends_the_turn(open_chat, chat):
    """Before the first byte and in the middle: a named fault after stream_idle_timeout_s."""
    client, session = open_chat(stream_idle_timeout_s=1)
    half = chat_chunk({"role": "assistant", "content": "Half"})
    for reply in (Reply(before_headers=Then.STALL), Reply((half, Then.STALL))):
        chat.reply(reply)
        answer = client.run(session, "hi", 30)
        assert answer.stop_reason == "_term2_error"
        assert "1 s" in answer.text or "second" in answer.text
    chat.step(ScriptedStep(text="Back."))
    assert client.run(session, "again").text == "Back."


@pytest.mark.parametrize("status", [403, 500, 529])
def test_each_kind_gives_up_on_a_service_that_refuses(lent, open_session, status):
    """403 at once, 500 and 529 after four more tries; words for the user, and no key."""
    client, session = open_session(lent.client)
    body = {"error": {"message": "no", "type": "overloaded_error"}}
    tries = 1 if status == 403 else 5
    lent.service.reply(*[json_reply(status, body, ("Retry-After", "0"))] * tries)
    answer = client.run(session, "hi", 60)
    assert answer.stop_reason == "_term2_error"
    assert answer.text
    assert "not-shown" not in answer.text + client.stderr
    assert len(lent.service.requests) == tries


def test_a_conversation_near_the_end_of_its_window_is_compacted(home, start, project, chat):
    """Before the next step, with a summary that the model gives; the turn goes on."""
    configure(home, "openai-compatible", chat, window=20)
    client = start(LOCAL_API_KEY="sk-local")
    client.initialize()
    session = client.new_session(project)
    chat.step(read("README.md"))
    chat.step(ScriptedStep(text="Summary: tea."))
    chat.step(ScriptedStep(text="Done."))
    answer = client.run(session, "what is it about?")
    assert (answer.stop_reason, answer.text) == ("end_turn", "Done.")
    sent = json.dumps(chat.requests[-1].body["messages"])
    assert "Summary: tea." in sent
    assert "what is it about?" in sent


def test_a_compaction_that_fails_loses_nothing(home, start, project, chat):
    """A busy service is asked again; a refusal ends the turn, and the history is still there."""
    configure(home, "openai-compatible", chat, window=20)
    client = start(LOCAL_API_KEY="sk-local")
    client.initialize()
    session = client.new_session(project)
    chat.step(ScriptedStep(text="ANSWER-ONE"))
    client.run(session, "REQUEST-ONE")
    chat.reply(json_reply(401, {"error": {"message": "bad key"}}))
    assert client.run(session, "REQUEST-TWO").stop_reason == "_term2_error"
    chat.reply(json_reply(429, {"error": {"message": "busy"}}, ("Retry-After", "0")))
    chat.step(ScriptedStep(text="SUMMARY of ANSWER-ONE"))
    chat.step(ScriptedStep(text="Done."))
    long = "REQUEST-THREE " + "x" * 5000 + " THE-END"
    blocks = [
        {"type": "text", "text": long},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "ATTACHED"}},
    ]
    assert client.run(session, blocks, 30).text == "Done."
    assert "ANSWER-ONE" in json.dumps(chat.requests[-2].body)
    sent = json.dumps(chat.requests[-1].body["messages"])
    for kept in ("REQUEST-ONE", "REQUEST-TWO", "SUMMARY of ANSWER-ONE", "THE-END", "ATTACHED"):
        assert kept in sent


def test_every_request_survives_many_compactions(home, start, project, chat):
    """What the user asked is kept from one compaction to the next."""
    configure(home, "openai-compatible", chat, window=20)
    client = start(LOCAL_API_KEY="sk-local")
    client.initialize()
    session = client.new_session(project)
    for number in range(6):
        if number:
            chat.step(ScriptedStep(text=f"Summary {number}."))
        chat.step(ScriptedStep(text="ok"))
        client.run(session, f"REQUEST-{number} " + "y" * 500)
    sent = json.dumps(chat.requests[-1].body["messages"])
    assert [f"REQUEST-{number}" in sent for number in range(6)] == [True] * 6


def test_calls_of_one_step_with_the_same_id_stay_apart(open_chat, chat):
    """A server that says `call_0` for each call gets each of them run."""
    client, session = open_chat()
    for_path = '{{"path": "{}"}}'
    calls = [
        {
            "index": index,
            "id": "call_0",
            "type": "function",
            "function": {"name": "read_file", "arguments": for_path.format(path)},
        }
        for index, path in enumerate(("README.md", "src/teapot.py"))
    ]
    chat.stream(
        *(chat_chunk({"tool_calls": [call]}) for call in calls),
        chat_chunk({}, "tool_calls"),
        b"data: [DONE]\n\n",
    )
    chat.step(ScriptedStep(text="Both."))
    answer = client.run(session, "hi")
    assert [call["status"] for call in answer.calls] == ["completed", "completed"]


def test_events_of_a_wrong_shape_are_named(open_chat, chat):
    """JSON that is no event of the format ends the turn with words for the user."""
    client, session = open_chat()
    chat.stream(b"data: null\n\n", b"data: [DONE]\n\n")
    answer = client.run(session, "hi", 60)
    assert answer.stop_reason == "_term2_error"
    assert "cannot be read" in answer.text
    assert "Traceback" not in client.stderr


def test_the_key_is_a_secret_whatever_its_variable_is_called(home, start, project, chat):
    """A tool that meets it in a file shows neither the client nor the model what it is."""
    key = "Zx81QpLmT5yRw3kd-of-the-service"
    configure(home, "openai-compatible", chat)
    path = home.config / "term2" / "config.toml"
    path.write_text(path.read_text().replace("LOCAL_API_KEY", "LOCAL_AUTH"))
    (project / "notes.txt").write_text(f"the word is {key}\n")
    client = start(LOCAL_AUTH=key)
    client.initialize()
    chat.step(ScriptedStep(calls=(Call.of("read_file", path="notes.txt"),)))
    chat.step(ScriptedStep(text="Read."))
    answer = client.run(client.new_session(project), "read it")
    assert answer.text == "Read."
    first, second = chat.requests
    assert first.headers["authorization"] == f"Bearer {key}"
    assert b"the word is [REDACTED]" in second.raw
    assert key not in second.raw.decode()
    assert all(key not in json.dumps(update.body) for update in answer.updates)
