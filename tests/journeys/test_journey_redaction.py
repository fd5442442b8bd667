"""Spec section 7: what is secret reaches neither the log nor the wire, whatever holds it."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from tests.models.chat import ChatServer
from tests.models.http import json_reply
from tests.models.steps import Call, ScriptedStep, halves

MARKER = "[REDACTED]"
SECRET = "s3cr3t-of-the-environment"
PASSWORD = "hunter2-hunter2"
BODY = [f"MIIEpAIBAAKCAQEA7bq1c2d3e4f5g6h7i8j9k0lmnopqrstuv+/wxyz0{n}" for n in range(8)]
KEY = "\n".join(["-----BEGIN PRIVATE KEY-----", *BODY, "-----END PRIVATE KEY-----", ""])
ENV = f"DEBUG=1\nDB_PASSWORD={PASSWORD}\nUSER=me\n"


@pytest.fixture(name="client")
def _client(start):
    client = start(SERVICE_TOKEN=SECRET)
    client.initialize()
    client.permissions.allow_all()
    return client


def code(text):
    return f"/code <<END\n{text}\nEND"


def texts(turn):
    """What each call showed as text."""
    return [
        "".join(item["content"]["text"] for item in call["content"] if item["type"] == "content")
        for call in turn.calls
    ]


def assert_nowhere(client, home, *secrets):
    """No update, no question and no file of the state holds it; prompts are the user's own."""
    sent = [update.body for update in client.record.updates if update.kind != "user_message"]
    sent += [request.params for request in client.permissions.requests]
    files = [path.read_bytes() for path in home.state.rglob("*") if path.is_file()]
    assert files
    for secret in secrets:
        assert secret not in json.dumps(sent)
        for data in files:
            assert secret.encode() not in data


def test_a_dotenv_file_is_read_without_its_secrets(client, session, project, home):
    """Whole, in part and by searching, which cannot be used to guess them either."""
    (project / ".env").write_text(ENV)
    (project / ".env.local").write_text(f"API_KEY='{PASSWORD}'\n")
    (project / "other").write_text(f"PASSWORD={PASSWORD[:6]}\n")
    turn = client.run(session, "/read .env\n/grep PASSWORD|API_KEY\n/grep -hunter2\n/read other")
    read, found, guessed, other = texts(turn)
    assert "No line" in guessed
    assert read == f"DEBUG=1\nDB_PASSWORD={MARKER}\nUSER=me\n"
    assert f".env:2: DB_PASSWORD={MARKER}" in found
    assert f".env.local:1: API_KEY='{MARKER}'" in found
    assert PASSWORD[:6] in other
    # A link to such a file is read by the name that was given.
    (project / "settings").write_text(ENV)
    (project / "linked").mkdir()
    (project / "linked/.env").symlink_to(project / "settings")
    assert texts(client.run(session, "/read linked/.env")) == [read]
    assert_nowhere(client, home, PASSWORD)


def test_a_dotenv_file_is_edited_by_its_real_text(client, session, project, home):
    """The other lines change and the secret stays; diffs and near misses do not show it."""
    (project / ".env").write_text(ENV)
    prompt = "/replace .env DEBUG=1 => DEBUG=0\n/replace .env DB_PASSWRD= => X=\n"
    turn = client.run(session, prompt + f"/replace .env PASSWORD={MARKER} => PASSWORD=x")
    edited, missed, marked = turn.calls
    assert (project / ".env").read_text() == ENV.replace("DEBUG=1", "DEBUG=0")
    patch = edited["content"][0]["patch"]["text"]
    assert f"-DEBUG=1\n+DEBUG=0\n DB_PASSWORD={MARKER}\n" in patch
    assert [missed["status"], marked["status"]] == ["failed", "failed"]
    assert f"DB_PASSWORD={MARKER}" in texts(turn)[1]
    assert "stands for a credential that you were not shown" in texts(turn)[2]
    turn = client.run(
        session,
        code(
            "secret = 'hunter2'\n"
            "diff = f' DEBUG=0\\n DB_PASSWORD={secret}-{secret}\\n-USER=me\\n+USER=you\\n'\n"
            "tools.apply_patch(operations=[dict(type='update_file', path='.env', diff=diff)])"
        ),
    )
    assert (project / ".env").read_text().endswith(f"DB_PASSWORD={PASSWORD}\nUSER=you\n")
    assert [call["status"] for call in turn.calls] == ["completed", "completed"]
    assert_nowhere(client, home, PASSWORD)


def test_a_marker_is_not_written_over_a_secret(client, session, project):
    """The call fails and says why, and the file is as it was."""
    (project / ".env").write_text(ENV)
    turn = client.run(session, f"/read .env\n/replace .env USER=me => USER={MARKER}")
    assert turn.calls[1]["status"] == "failed"
    assert "writing it would destroy the real value" in texts(turn)[1]
    assert (project / ".env").read_text() == ENV


def test_no_part_of_a_private_key_is_shown(client, session, project, home):
    """From its second line on, a line of it, a search in it, and in a patch next to it."""
    (project / "id").write_text(f"first\n{KEY}last\n")
    prompt = "\n".join(
        [
            code("print(tools.read_file(path='id', start_line=3, end_line=11))"),
            "/grep MIIE",
            "/grep .",
            "/replace id last => end",
        ]
    )
    turn = client.run(session, prompt)
    calls = {call["name"]: call for call in turn.calls}
    assert calls["search_replace"]["status"] == "completed"
    assert f" {MARKER}\n-last\n+end\n" in calls["search_replace"]["content"][0]["patch"]["text"]
    assert (project / "id").read_text() == f"first\n{KEY}end\n"
    assert_nowhere(client, home, *(line[:30] for line in BODY), BODY[4])


def test_a_secret_in_a_path_is_told_nowhere(client, session, project, home):
    """Titles, places, diffs and the labels of options; the file gets its real name."""
    name = f"notes-{SECRET}.txt"
    outside = project.parent / SECRET
    outside.mkdir()
    turn = client.run(
        session,
        code(
            f"secret = {SECRET[:9]!r} + {SECRET[9:]!r}\n"
            "name = f'notes-{secret}.txt'\n"
            "tools.create_file(path=name, content='one')\n"
            "tools.read_file(path=name)\n"
            "tools.read_file(path=f'../{secret}/none')"
        ),
    )
    _, created, read, _ = turn.calls
    assert (project / name).read_text() == "one"
    assert created["title"] == f"Create notes-{MARKER}.txt"
    assert created["rawInput"]["path"] == f"notes-{MARKER}.txt"
    # Nothing can be opened by a redacted path, so it is no place to go to.
    assert (created.get("locations") or [], read.get("locations") or []) == ([], [])
    diff = created["content"][0]
    assert diff["changes"][0]["path"] == f"{project}/notes-{MARKER}.txt"
    assert f"+++ {project}/notes-{MARKER}.txt\n" in diff["patch"]["text"]
    _, request = client.permissions.requests
    labels = [option["name"] for option in request.params["options"]]
    assert f"Allow reading in {project.parent}/{MARKER} for this session" in labels
    assert_nowhere(client, home, SECRET)


def test_the_title_of_a_long_path_has_its_name(client, session, project):
    """Both ends are shown in 120 characters."""
    folder = "very-long-name-of-a-folder" * 9
    (call,) = client.run(session, f"/create {folder}/{folder}/name.txt <<x").calls
    assert call["status"] == "completed"
    assert len(call["title"]) == 120
    assert call["title"].startswith("Create very-long-name")
    assert call["title"].endswith("folder/name.txt")


def test_a_secret_split_over_chunks_of_output_is_not_shown(client, session, home):
    """Written in two halves with a pause that the reader of the pipe sees."""
    half = len(SECRET) // 2
    command = f"printf {SECRET[:half]}; sleep 0.3; printf '{SECRET[half:]} end'; false"
    turn = client.run(session, f"/shell {command}")
    (call,) = turn.calls
    assert call["rawOutput"]["text"].startswith(f"{MARKER} end\n[exit status 1 after ")
    assert_nowhere(client, home, SECRET)


def test_a_secret_split_over_chunks_of_a_model_reaches_the_tool_alone(home, start, project):
    """The file has it; log, wire and the model's next request do not; nor a fault that quotes."""
    with closing(ChatServer()) as chat:
        home.configure(
            f"""
            provider = "local"
            model = "m"
            [providers.local]
            kind = "openai-compatible"
            base_url = "{chat.base_url}"
            models = [{{ id = "m", context_window = 100000 }}]
            """
        )
        client = start(SERVICE_TOKEN=SECRET)
        client.initialize()
        session = client.new_session(project)
        # The double sends the arguments in two halves, which cut the secret in two.
        arguments = {"path": "made", "content": f"token {SECRET} " + "x" * len(SECRET)}
        assert not any(SECRET in half for half in halves(json.dumps(arguments)))
        chat.step(ScriptedStep(calls=(Call.of("create_file", **arguments),)))
        chat.reply(json_reply(400, {"error": {"message": f"what is {SECRET}?"}}))
        turn = client.run(session, "please")
        assert (project / "made").read_text() == arguments["content"]
        assert turn.stop_reason == "_term2_error"
        assert f"what is {MARKER}?" in turn.text
        assert f"token {MARKER} x" in json.dumps(chat.requests[-1].body)
        assert SECRET not in json.dumps(chat.requests[-1].body)
        assert_nowhere(client, home, SECRET)
        client.wait_for(lambda: "what is" in client.stderr, "the fault on stderr")
        assert SECRET not in client.stderr


def test_a_secret_that_a_cut_goes_through_is_told_nowhere_in_part(start, project, home):
    """Lines of a search, wrong values and wrong lines of a diff are shown as far as they fit."""
    words, token = "correct horse 7 battery staple", "ghp_" + "a1B2" * 9
    client = start(SERVICE_PASSWORD=words)
    client.initialize()
    client.permissions.allow_all()
    (project / "long.txt").write_text(f"needle {words * 40}\n")
    turn = client.run(
        client.new_session(project),
        code(
            f"words, token = {words[::-1]!r}[::-1], {token[::-1]!r}[::-1]\n"
            "wrong = [dict(type='update_file', path='a', diff='x' * 40 + ' ' + token)]\n"
            "for name, given in [\n"
            "    ('grep', dict(pattern='needle')),\n"
            "    ('shell', dict(command='true', sandbox=words * 9)),\n"
            "    ('shell', dict(command='true', timeout_s='x' * 40 + words)),\n"
            "    ('apply_patch', dict(operations=wrong)),\n"
            "]:\n"
            "    try: print(getattr(tools, name)(**given))\n"
            "    except ToolFailed as failed: print(failed)\n"
        ),
    )
    assert [call["status"] for call in turn.calls[1:]] == ["completed", *["failed"] * 3]
    assert MARKER in texts(turn)[1]
    assert_nowhere(client, home, words[:15], words[-13:], token[:12], token[-12:])
