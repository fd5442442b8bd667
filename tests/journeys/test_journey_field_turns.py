"""
Faults that users met in programs like this one: turns, the wire, sessions and the model.

Each test is one kind of fault, tried as it was met. `test_field_reports` has the whole list.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.harness.client import Client
from tests.harness.home import SOURCE, Home
from tests.harness.messages import conversation, encode, notification, prompt_params
from tests.harness.processes import processes_with, wait_until_gone
from tests.harness.versions import Editor
from tests.models.chat import ChatServer, chat_chunk
from tests.models.configuration import KINDS, configure
from tests.models.http import Reply, Then, json_reply
from tests.models.messages import message_stream
from tests.models.steps import Call, ScriptedStep

# What must come at once; the rest is for a loaded machine.
SOON = 5.0
KEY = "sk-local-not-shown-anywhere"
SEPARATORS = "a\u2028b\u2029c\u0085d\x0be\x1cf"

VERSIONS = pytest.mark.parametrize("version", [2, 1])


class Stage:
    """A scripted model and the servers that ask it, one for each version, used by many tests."""

    def __init__(self, root):
        self.chat = ChatServer(wants_reasoning=True)
        self.home = Home.create(root)
        self.project = self.home.project()
        configure(self.home, "openai-compatible", self.chat, max_turn_requests=5)
        self._editors = {}

    def begin(self, version):
        """An editor of a version with a new session: `(editor, session)`."""
        editor = self._editors.get(version)
        if editor is None or not editor.client.healthy:
            editor = Editor.begin(Client(self.home, LOCAL_API_KEY=KEY), version)
            self._editors[version] = editor
        editor.client.permissions.forget()
        return editor, editor.open_session(self.project)

    def close(self):
        """End everything and judge it."""
        for editor in self._editors.values():
            editor.client.close()
        self.chat.close()
        assert self.chat.faults == []


@pytest.fixture(name="stage", scope="module")
def _stage(tmp_path_factory):
    stage = Stage(tmp_path_factory.mktemp("stage"))
    yield stage
    stage.close()


def shell(command):
    """A step that asks for a command."""
    return ScriptedStep(thought="I run it.", calls=(Call.of("shell", command=command),))


def messages(updates):
    """The texts of what the agent said, one for each update."""
    contents = [u.body["content"] for u in updates if u.kind.startswith("agent_message")]
    return [(one[0] if isinstance(one, list) else one)["text"] for one in contents]


def said(editor, session):
    """What the agent said so far."""
    return "".join(messages(editor.client.updates(session)))


@VERSIONS
def test_a_cancel_behind_its_prompt_settles_before_the_service_answers(stage, version):
    """Prompt and cancel in one write, while the service sends not even its headers."""
    editor, session = stage.begin(version)
    stage.chat.reply(Reply(before_headers=Then.STALL))
    reply, message = editor.client.prepare("session/prompt", prompt_params(session, "hi"))
    cancel = notification("session/cancel", {"sessionId": session})
    editor.client.send_raw(encode(message) + encode(cancel))
    assert editor.settled(session, reply, SOON) == "cancelled"
    stage.chat.forget_script()
    stage.chat.step(ScriptedStep(text="Back."))
    assert editor.run(session, "again") == "end_turn"
    assert "Back." in said(editor, session)


@VERSIONS
def test_a_cancel_during_silence_after_two_deltas_settles_at_once(stage, version):
    """The socket stays open and nothing more comes."""
    editor, session = stage.begin(version)
    stage.chat.stream(chat_chunk({"content": "One "}), chat_chunk({"content": "two"}), Then.STALL)
    reply = editor.prompt(session, "hi")
    editor.client.wait_for(lambda: said(editor, session) == "One two", "the two deltas")
    editor.client.cancel(session)
    assert editor.settled(session, reply, SOON) == "cancelled"
    stage.chat.step(ScriptedStep(text="Back."))
    assert editor.run(session, "again") == "end_turn"


@VERSIONS
def test_a_turn_that_was_loaded_while_it_runs_is_still_cancelled(stage, marker, version):
    """The load attaches to the running turn; the cancel then stops it and its command."""
    editor, session = stage.begin(version)
    editor.client.permissions.allow_all()
    stage.chat.step(shell(f"sleep {marker}"))
    reply = editor.prompt(session, "sleep")
    editor.client.wait_for(
        lambda: "in_progress" in editor.statuses(session).values(), "the running command"
    )
    assert "result" in editor.load(session, stage.project).response()
    editor.client.cancel(session)
    assert editor.settled(session, reply, SOON) == "cancelled"
    wait_until_gone(marker, SOON)
    stage.chat.step(ScriptedStep(text="Back."))
    assert editor.run(session, "again") == "end_turn"


@VERSIONS
def test_every_call_ends_before_its_turn_does(stage, version):
    """Done, denied, unknown, malformed, last of the turn, before a fault and cancelled."""
    editor, session = stage.begin(version)
    editor.client.permissions.policy = lambda _question: "reject"
    for call in (
        Call.of("read_file", path="README.md"),
        Call.of("shell", command="true"),
        Call.of("no_such_tool"),
        Call("read_file", '{"path": '),
        Call.of("read_file", path="src/teapot.py"),
    ):
        stage.chat.step(ScriptedStep(thought="I call.", calls=(call,)))
    assert "max" in editor.run(session, "all kinds")
    stage.chat.step(
        ScriptedStep(thought="I look.", calls=(Call.of("read_file", path="README.md"),))
    )
    stage.chat.reply(json_reply(401, {"error": {"message": "bad key"}}))
    assert "cancelled" != editor.run(session, "then it dies") != "end_turn"
    editor.client.permissions.policy = None
    stage.chat.step(shell("true"))
    reply = editor.prompt(session, "never answered")
    editor.client.wait_for(
        lambda: any(
            question.session == session and not question.answered
            for question in editor.client.permissions.requests
        ),
        "the question",
    )
    editor.client.cancel(session)
    assert editor.settled(session, reply, SOON) == "cancelled"
    aborted = "cancelled" if version == 2 else "failed"
    ends = ["completed", "failed", "failed", "failed", "completed", "completed", aborted]
    assert ends == list(editor.statuses(session).values())


EDITOR = """
    import sys, threading
    from pathlib import Path
    from tests.harness.client import Client
    from tests.harness.home import Home
    client = Client(Home(Path(sys.argv[1]), sys.argv[2]))
    client.initialize()
    client.permissions.allow_all()
    session = client.new_session(sys.argv[3])
    client.run(session, "/say before")
    client.prompt(session, "/shell echo started; sleep " + sys.argv[4])
    client.wait_update(lambda update: update.kind == "terminal_output_chunk")
    print(session, flush=True)
    threading.Event().wait()
"""


def test_a_killed_editor_leaves_no_server_and_no_command(home, start, project, marker):
    """SIGKILL of the client: all is gone in seconds, and the next server takes the session up."""
    argv = [str(home.root), home.mark, str(project), marker]
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(EDITOR), *argv],
        stdout=subprocess.PIPE,
        cwd=SOURCE,
        text=True,
    ) as editor:
        session = editor.stdout.readline().strip()
        assert processes_with(marker)
        editor.send_signal(signal.SIGKILL)
    wait_until_gone(marker)
    wait_until_gone(home.mark)
    client = start()
    client.initialize()
    items = conversation(client.replay(session, project)).items
    assert [item[2]["status"] for item in items if item[0] == "call"] in (["cancelled"], ["failed"])
    client.still_works(session)


def test_what_a_library_prints_stays_off_stdout(start, home, tmp_path):
    """By print, on descriptor 1 and at exit, from the first late import to the end by SIGTERM."""
    hook = """
        import atexit, os, sys, threading
        def tell(word):
            print("noise:", word, flush=True)
            os.write(1, b"more noise\\n")
        class Noisy:
            def find_spec(self, name, path=None, target=None):
                if name in ("jsonrpcserver", "cattrs", "sqlite3"):
                    tell(name)
        sys.meta_path.insert(0, Noisy())
        atexit.register(tell, "exit")
    """
    (tmp_path / "noisy").mkdir()
    (tmp_path / "noisy" / "sitecustomize.py").write_text(textwrap.dedent(hook))
    client = start(
        PYTHONPATH=f"{tmp_path / 'noisy'}:{SOURCE}", PYTHONWARNINGS="always", TERM2_LOG="debug"
    )
    client.initialize()
    client.still_works(client.new_session(home.project()))
    client.process.send_signal(signal.SIGTERM)
    assert client.wait_exit() == 0
    for word in ("jsonrpcserver", "exit"):
        assert f"noise: {word}\n" in client.stderr


def test_separators_are_the_same_live_and_replayed(stage):
    """From the client, raw in the model's stream and from tools; in the next process too."""
    editor, session = stage.begin(2)
    editor.client.permissions.allow_all()
    (stage.project / "odd.txt").write_text(SEPARATORS, newline="")
    calls = (Call.of("shell", command="cat odd.txt"), Call.of("read_file", path="odd.txt"))
    stage.chat.step(ScriptedStep(thought=SEPARATORS, text=SEPARATORS, calls=calls))
    stage.chat.step(ScriptedStep(text="Done."))
    assert editor.run(session, f"<{SEPARATORS}>") == "end_turn"
    live = conversation(editor.client.updates(session))
    assert (SEPARATORS.encode(), {"exitCode": 0}) in live.terminals.values()
    told = json.dumps(stage.chat.requests[-1].body["messages"], ensure_ascii=False)
    assert told.count(json.dumps(SEPARATORS, ensure_ascii=False)[1:-1]) >= 4
    editor.client.close_session(session)
    assert live == conversation(editor.client.replay(session, stage.project))


def test_a_long_session_is_loaded_whole_and_in_order(start, project):
    """60 turns with tools; in a fresh process a load tells all of them, a resume none."""
    client = start()
    client.initialize()
    session = client.new_session(project)
    for number in range(60):
        client.run(session, f"/read README.md\n/say turn {number}")
    client.close()
    expected = [f"turn {number}" for number in range(60)]
    for version in (2, 1):
        editor = Editor.begin(start(), version)
        silent = {"sessionId": session, "cwd": str(project)}
        assert editor.client.request("session/resume", silent).result() == {}
        editor.client.sync()
        assert editor.client.updates(session) == []
        editor.client.request("session/close", {"sessionId": session}).result()
        reply = editor.load(session, project)
        assert "result" in reply.response()
        updates = [u for u in editor.client.updates(session) if u.seq < reply.seq]
        assert expected == messages(updates)
        assert 60 == len(editor.statuses(session))
        editor.client.close()


@VERSIONS
def test_a_session_that_is_not_there_is_neither_found_nor_made(start, home, project, version):
    """Unknown, empty, a path, closed: not found, and no file more than before."""
    editor = Editor.begin(start(), version)
    closed = editor.open_session(project)
    assert editor.run(closed, "/say x") == "end_turn"
    editor.client.request("session/close", {"sessionId": closed}).result()

    def files():
        return {path for path in Path(home.root).rglob("*") if "sessions.db" not in path.name}

    before = files()
    for name in ("unknown", "", "../../x", closed):
        prompt = prompt_params(name, "/say x")
        assert editor.client.request("session/prompt", prompt).code() == -32002
        assert editor.client.request("session/close", {"sessionId": name}).code() == -32002
        if name != closed:
            assert editor.load(name, project).code() == -32002
            resume = {"sessionId": name, "cwd": str(project)}
            assert editor.client.request("session/resume", resume).code() == -32002
    assert before == files()
    listed = editor.client.request("session/list", {}).result()["sessions"]
    assert [closed] == [info["sessionId"] for info in listed]


def test_no_lone_surrogate_gets_into_a_request(stage):
    """From a tool's arguments, a split pair, the client and a file name; also after a reload."""
    editor, session = stage.begin(2)
    with open(bytes(stage.project) + b"/odd-\xff.txt", "wb") as file:
        file.write(b"x")
    calls = (Call("grep", r'{"pattern": "\ud99c"}'), Call.of("glob", pattern="odd*"))
    stage.chat.step(ScriptedStep(thought="t", calls=calls))
    delta = b'data: {"choices":[{"index":0,"delta":{"content":"\\u%s"}}]}\n\n'
    stage.chat.stream(delta % b"d83d", delta % b"de00", chat_chunk({}, "stop"), b"data: [DONE]\n\n")
    reply = editor.client.expect("odd", "session/prompt", session=session)
    message = {"jsonrpc": "2.0", "id": "odd", "method": "session/prompt"}
    params = prompt_params(session, "<\ud800>")
    editor.client.send_raw(json.dumps({**message, "params": params}).encode() + b"\n")
    assert editor.settled(session, reply) == "end_turn"
    assert said(editor, session) == "\U0001f600"
    editor.client.close_session(session)
    assert "odd-\ufffd.txt" in str(editor.client.replay(session, stage.project))
    stage.chat.step(ScriptedStep(text="Fine."))
    assert editor.client.run(session, "again").text == "Fine."
    sent = stage.chat.requests[-1].body["messages"]
    assert "<\ufffd>" in str(sent)
    assert "\U0001f600" in str(sent)
    assert "odd-\ufffd.txt" in str(sent)


THREE = (
    Call.of("read_file", path="README.md"),
    Call.of("shell", command="sleep 600"),
    Call.of("read_file", path="src/teapot.py"),
)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_interrupted_calls_and_blank_answers_leave_an_acceptable_history(
    home, start, project, kind
):
    """
    Three calls, cancelled in the second, then again and killed; nothing said, only blanks.

    The service refuses calls without exactly one result, blank blocks and calls whose
    reasoning was left out or changed.
    """
    model = KINDS[kind](wants_reasoning=True) if kind == "openai-compatible" else KINDS[kind]()
    configure(home, kind, model)
    three = ScriptedStep(thought="Three at once.", calls=THREE)
    client = start(LOCAL_API_KEY=KEY)
    client.initialize()
    client.permissions.allow_all()
    session = client.new_session(project)
    terminals = client.record.life(session).terminals
    for number in (1, 2):
        model.step(three)
        client.prompt(session, f"three, {number}").result()
        client.wait_for(lambda: not all(terminals.values()), "the running command")
        if number == 1:
            client.cancel(session)
            assert client.wait_idle(session, SOON) == "cancelled"
            model.step(ScriptedStep())
            model.step(ScriptedStep(thought="Blank.", text=" \n", calls=THREE[:1]))
            model.step(ScriptedStep(thought="Only a thought."))
            assert client.run(session, "nothing").stop_reason == "end_turn"
            assert client.run(session, "blanks").stop_reason == "end_turn"
    client.kill()
    client = start(LOCAL_API_KEY=KEY)
    client.initialize()
    client.replay(session, project)
    model.step(ScriptedStep(text="Fine."))
    assert client.run(session, "again").text == "Fine."
    assert "Three at once." in model.requests[-1].raw.decode() or kind == "openai"
    model.close()
    assert model.faults == []


def test_a_cut_message_of_any_service_runs_nothing(home, start, project):
    """A stream without `message_stop`, after half of a call's arguments: no clean end."""
    model = KINDS["anthropic"]()
    configure(home, "anthropic", model)
    client = start(LOCAL_API_KEY=KEY)
    client.initialize()
    client.permissions.allow_all()
    session = client.new_session(project)
    whole = ScriptedStep(text="I touch.", calls=(Call.of("shell", command="touch A"),))
    stream = b"".join(message_stream(whole))
    model.stream(stream[: stream.index(b"touch A") + 4], Then.CUT)
    assert client.run(session, "touch").stop_reason == "_term2_error"
    model.stream(stream[: stream.index(b"event: message_stop")])
    assert client.run(session, "touch").stop_reason == "_term2_error"
    assert not (project / "A").exists()
    model.step(ScriptedStep(text="Fine."))
    assert client.run(session, "again").text == "Fine."
    model.close()
    assert model.faults == []


def test_the_error_of_a_prompt_names_the_cause_and_no_key(stage):
    """In version 1 too it says what the service said, and what to do."""
    editor, session = stage.begin(1)
    stage.chat.reply(json_reply(401, {"error": {"message": f"bad key {KEY}"}}))
    error = editor.prompt(session, "hi").error()
    assert error["code"] == -32603
    assert "LOCAL_API_KEY" in error["message"]
    assert KEY not in json.dumps(error) + editor.client.stderr
    stage.chat.step(ScriptedStep(text="Fine."))
    assert editor.run(session, "again") == "end_turn"
