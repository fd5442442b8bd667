"""Spec section 6: what version 1 is told of a turn, member by member."""

from __future__ import annotations

import json

import pytest

from tests.harness.client import Client
from tests.harness.editor import (
    begin,
    final,
    load,
    of,
    open_session,
    prompt,
    run,
    said,
    still_works,
    text,
)
from tests.harness.home import Home
from tests.models.chat import ChatServer
from tests.models.steps import Call, ScriptedStep

TOKEN = "tok-4f9c1d7be2aa"
MIB = 1 << 20


@pytest.fixture(scope="module", name="home_of_all")
def _home_of_all(tmp_path_factory):
    return Home.create(tmp_path_factory.mktemp("version1"))


@pytest.fixture(scope="module", name="editor_of_all")
def _editor_of_all(home_of_all):
    client = Client(home_of_all, SERVICE_TOKEN=TOKEN)
    begin(client)
    yield client
    client.close()


@pytest.fixture(name="editor")
def _editor(editor_of_all):
    # No question of an earlier test is taken for one of this.
    editor_of_all.permissions.forget()
    return editor_of_all


@pytest.fixture(name="folder")
def _folder(editor, request):
    return editor.home.project(request.node.name)


@pytest.fixture(name="session")
def _session(editor, folder):
    return open_session(editor, folder)


@pytest.fixture(name="chat")
def _chat():
    server = ChatServer()
    yield server
    server.close()
    assert server.faults == []


@pytest.fixture(name="modelled")
def _modelled(home, start, project, chat):
    """A client and a session whose model is scripted: `modelled(**settings)`."""

    def modelled(**settings):
        home.configure(
            "\n".join(
                [
                    'provider = "local"',
                    'model = "m"',
                    *(f"{name} = {json.dumps(value)}" for name, value in settings.items()),
                    "[providers.local]",
                    'kind = "openai-compatible"',
                    f'base_url = "{chat.base_url}"',
                    'models = [{ id = "m", context_window = 100000 }]',
                ]
            )
        )
        client = start()
        begin(client)
        return client, open_session(client, project)

    return modelled


def test_a_turn_is_told_in_order_and_in_full(editor, session, folder):
    """Title, thought, call with all its members, text; then the response and nothing more."""
    reason, updates = run(editor, session, "/think hm\n/read README.md\n/say done")
    assert reason == "end_turn"
    title, thought, call, started, ended, message = [update.body for update in updates]
    assert title == {"sessionUpdate": "session_info_update", "title": "/think hm"}
    assert thought == {
        "sessionUpdate": "agent_thought_chunk",
        "content": {"type": "text", "text": "hm"},
        "messageId": thought["messageId"],
    }
    path = str(folder / "README.md")
    assert call == {
        "sessionUpdate": "tool_call",
        "toolCallId": call["toolCallId"],
        "title": "Read README.md",
        "name": "read_file",
        "kind": "read",
        "status": "pending",
        "locations": [{"path": path}],
        "rawInput": {"path": "README.md"},
    }
    assert started == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": call["toolCallId"],
        "status": "in_progress",
    }
    (content,) = ended.pop("content")
    assert ended == {**started, "status": "completed"}
    assert content["type"] == "content"
    assert "A small program that pours tea." in content["content"]["text"]
    assert message["content"] == {"type": "text", "text": "done"}
    assert len({thought["messageId"], message["messageId"], call["toolCallId"]}) == 3
    still_works(editor, session)


def test_every_tool_has_the_kind_that_an_editor_draws(editor, session):
    """read, search, edit, execute and think, each with its title and place."""
    editor.permissions.allow_all()
    _, updates = run(
        editor,
        session,
        "/read README.md\n/grep tea\n/create a.txt <<x\n/replace a.txt x => y\n/shell true\n"
        "/code print(1)\n/plan A",
    )
    calls = final(updates)
    assert [(call["name"], call["kind"]) for call in calls] == [
        ("read_file", "read"),
        ("grep", "search"),
        ("create_file", "edit"),
        ("search_replace", "edit"),
        ("shell", "execute"),
        ("run_code", "execute"),
        ("update_plan", "think"),
    ]
    assert {call["status"] for call in calls} == {"completed"}
    assert calls[3]["locations"][0]["line"] == 1


def test_what_a_model_says_comes_as_messages_with_usage(modelled, chat):
    """Deltas of one message share its messageId; usage and title come before the response."""
    editor, session = modelled()
    words = "Tea needs water, leaves and time."
    look = Call.of("grep", pattern="x")
    chat.step(ScriptedStep(thought="Let me think.", text=words, calls=(look,)))
    chat.step(ScriptedStep(text="Second message."))
    reason, updates = run(editor, session, "hi")
    assert reason == "end_turn"
    assert said(updates, "agent_thought_chunk") == "Let me think."
    texts: dict[str, str] = {}
    for body in of(updates, "agent_message_chunk"):
        texts[body["messageId"]] = texts.get(body["messageId"], "") + body["content"]["text"]
    assert list(texts.values()) == [words, "Second message."]
    usage = [(one["size"], one["used"] > 0) for one in of(updates, "usage_update")]
    assert usage == [(100_000, True)] * len(usage)
    assert usage
    (title,) = of(updates, "session_info_update")
    assert title["title"] == "hi"


def test_every_end_of_a_turn_has_its_stop_reason(modelled, chat):
    """The model was cut off, refused, said nothing, or was asked too often."""
    editor, session = modelled(max_turn_requests=2)
    for step, reason in (
        (ScriptedStep(text="Cut o", finish="length"), "max_tokens"),
        (ScriptedStep(text="I will not.", finish="content_filter"), "refusal"),
        (ScriptedStep(), "end_turn"),
        (ScriptedStep(text="Fine."), "end_turn"),
    ):
        chat.step(step)
        assert run(editor, session, "hi")[0] == reason
    for number in range(2):
        chat.step(ScriptedStep(calls=(Call.of("grep", pattern=f"x{number}"),)))
    assert run(editor, session, "hi")[0] == "max_turn_requests"


def test_the_output_of_a_command_is_text_of_its_call(editor, session):
    """While it runs, and what there was when it is cancelled; no terminal is named."""
    editor.permissions.allow_all()
    reply = prompt(editor, session, "/shell echo one; echo two >&2; sleep 600")
    editor.wait_update(
        lambda u: u.kind == "tool_call_update" and "two" in json.dumps(u.body.get("content")),
        session=session,
    )
    assert not reply.done
    editor.notify("session/cancel", {"sessionId": session})
    assert reply.result(5) == {"stopReason": "cancelled"}
    (call,) = final(editor.updates(session))
    assert call["status"] == "failed"
    assert {part["type"] for part in call["content"]} == {"content"}
    assert call["content"][0]["content"]["text"].startswith("one\ntwo\n")


def test_long_output_keeps_both_ends_and_is_the_same_in_a_load(editor, session, folder):
    """What is left out is where it says, live and loaded, however the bytes came."""
    editor.permissions.allow_all()
    lines = [f"{number:06}{'x' * 90}" for number in range(2000)]
    show = "seq -f '%06g' {} {} | sed s/$/" + "x" * 90 + "/"
    # The second part is seen when the first was already too long.
    show = f"{show.format(0, 1499)}; sleep 0.3; {show.format(1500, 1999)}"
    _, live = run(editor, session, f"/shell {show}")
    editor.request("session/close", {"sessionId": session}).result()
    (call,), (loaded,) = final(live), final(load(editor, session, folder))
    words = call["content"][0]["content"]["text"]
    head, _, rest = words.partition("\n[... ")
    count, _, tail = rest.partition(" bytes omitted ...]\n")
    whole = "\n".join(lines) + "\n"
    assert len(head) + int(count) + len(tail) == len(whole)
    assert (whole.startswith(head), whole.endswith(tail)) == (True, True)
    assert len(head) == len(tail) == 32 * 1024
    assert loaded["content"] == call["content"]


def test_secrets_are_told_as_little_as_in_version_2(editor, session):
    """In the arguments, the question, the output and the replay; the command has the real one."""
    reply = prompt(editor, session, f"/shell test {TOKEN} = {TOKEN[:4]}{TOKEN[4:]} && echo {TOKEN}")
    question = editor.permissions.next()
    assert TOKEN not in json.dumps(question.params)
    assert "[REDACTED]" in question.tool_call["rawInput"]["command"]
    editor.permissions.answer(question, "approve")
    assert reply.result() == {"stopReason": "end_turn"}
    (call,) = final(editor.updates(session))
    assert call["status"] == "completed"
    # The title is the user's own words.
    told = [u.body for u in editor.updates(session) if u.kind != "session_info_update"]
    assert TOKEN not in json.dumps(told)
    assert call["content"][0]["content"]["text"].startswith("[REDACTED]\n")


def test_a_question_tells_what_will_be_done_and_what_can_be_answered(editor, session, folder):
    """The open call with its arguments and place; grants are offered where there may be some."""
    outside = folder.parent / "outside.txt"
    reply = prompt(editor, session, f"/create {outside} <<x")
    question = editor.permissions.next()
    (created,) = of(editor.updates(session), "tool_call")
    call = question.tool_call
    for member in ("toolCallId", "title", "kind", "rawInput", "locations", "name"):
        assert call[member] == created[member], member
    assert call["locations"] == [{"path": str(outside)}]
    assert call["rawInput"] == {"path": str(outside), "content": "x\n"}
    assert question.options == {
        "approve": "allow_once",
        "allow-edit-file-session": "allow_always",
        "allow-edit-folder-session": "allow_always",
        "reject": "reject_once",
    }
    assert all(option["name"] for option in question.params["options"])
    editor.permissions.answer(question, "allow-edit-file-session")
    assert reply.result() == {"stopReason": "end_turn"}
    reason, updates = run(editor, session, f"/replace {outside} x => y")
    assert (reason, outside.read_text()) == ("end_turn", "y\n")
    assert len([q for q in editor.permissions.requests if q.session == session]) == 1
    assert final(updates)[0]["content"][0]["newText"] == "y\n"


def test_plans_replace_each_other_and_edits_are_diffs_of_whole_texts(modelled, chat, project):
    """A new file's oldText is null, a deleted one's newText empty; a huge file has its change."""
    editor, session = modelled()
    plans = [
        [{"content": "A", "priority": "high", "status": "in_progress"}],
        [
            {"content": "A", "priority": "high", "status": "completed"},
            {"content": "B", "priority": "low", "status": "pending"},
        ],
    ]
    (project / "old.txt").write_text("gone\n", encoding="utf-8")
    line = "0123456789abcdef\n"
    huge = line * (MIB // len(line) + 1)
    (project / "huge.txt").write_text(huge + "last\n" + line, encoding="utf-8")
    operations = [
        {"type": "create_file", "path": "new.txt", "diff": "+fresh"},
        {"type": "delete_file", "path": "old.txt", "diff": ""},
        {"type": "update_file", "path": "huge.txt", "diff": "@@\n-last\n+end"},
    ]
    for entries in plans:
        chat.step(ScriptedStep(calls=(Call.of("update_plan", entries=entries),)))
    chat.step(ScriptedStep(calls=(Call.of("apply_patch", operations=operations),)))
    chat.step(ScriptedStep(text="Done."))
    _, updates = run(editor, session, "plan and patch")
    assert [plan["entries"] for plan in of(updates, "plan")] == plans
    call = final(updates)[-1]
    assert call["status"] == "completed", call
    new, old, changed = [part for part in call["content"] if part["type"] == "diff"]
    texts = [(part["path"], part["oldText"], part["newText"]) for part in (new, old)]
    assert texts == [
        (str(project / "new.txt"), None, "fresh\n"),
        (str(project / "old.txt"), "gone\n", ""),
    ]
    assert changed["oldText"].replace("last\n", "end\n") == changed["newText"]
    assert changed["oldText"].endswith("last\n" + line)
    assert len(changed["oldText"]) < 10_000


def test_a_load_tells_what_was_told_live(editor, session, folder):
    """Every block of the prompt, thoughts, texts, calls as they ended and plans, in their order."""
    editor.permissions.allow_all()
    blocks = [
        *text("/think hm\n/read README.md\n/replace src/kettle.py 100 => 96\n/plan A; B"),
        *text("/shell echo seen; exit 3\n/say done"),
        {"type": "resource_link", "name": "b", "uri": "file:///b", "mimeType": "text/plain"},
        {
            "type": "resource",
            "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "words"},
        },
    ]
    _, live = run(editor, session, blocks)
    editor.request("session/close", {"sessionId": session}).result()
    replayed = load(editor, session, folder)
    assert [body["content"] for body in of(replayed, "user_message_chunk")] == blocks
    assert len({body["messageId"] for body in of(replayed, "user_message_chunk")}) == 1
    for kind in ("agent_thought_chunk", "agent_message_chunk"):
        assert said(replayed, kind) == said(live, kind)
        assert {b["messageId"] for b in of(replayed, kind)} == {
            b["messageId"] for b in of(live, kind)
        }
    assert of(replayed, "plan") == of(live, "plan")
    assert [strip(call) for call in final(replayed)] == [strip(call) for call in final(live)]
    order = [u.kind for u in live if u.kind not in ("session_info_update", "tool_call_update")]
    assert merged(u.kind for u in replayed[len(blocks) :]) == merged(order)


def strip(call):
    """A call without the kind of the update that told it last."""
    return {name: value for name, value in call.items() if name != "sessionUpdate"}


def merged(kinds):
    """Neighbouring chunks are one message."""
    short = []
    for kind in kinds:
        if not (short and short[-1] == kind and kind.endswith("_chunk")):
            short.append(kind)
    return short


def test_a_pending_load_is_ended_by_a_cancel_request(editor, session, folder):
    """A replay that the client does not read in time can be given up: -32800."""
    for _ in range(2):
        run(editor, session, "/say ok\n" + "x" * (12 * MIB), timeout=60)
    editor.process.pause_reading()
    params = {"sessionId": session, "cwd": str(folder), "mcpServers": []}
    reply = editor.request("session/load", params)
    editor.notify("$/cancel_request", {"requestId": reply.expected.id})
    editor.process.resume_reading()
    assert reply.code(timeout=60) == -32800
    still_works(editor, session)
