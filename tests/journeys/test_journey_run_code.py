"""Spec sections 7 and 8: code that calls tools, each call judged and asked on its own."""

from __future__ import annotations

import base64
import time

import pytest

from tests.harness.messages import tool_calls
from tests.harness.processes import processes_with, wait_until_gone

# The specification says within 1 s; the rest is for a loaded machine.
SOON = 5.0


@pytest.fixture(name="client")
def _client(shared):
    """The shared connection; a test of a server's end starts one of its own."""
    return shared


@pytest.fixture(name="session")
def _session(guest_session):
    return guest_session


def code_prompt(code):
    """A prompt for the offline model that runs code of several lines."""
    return f"/code <<END\n{code.strip()}\nEND"


def shown(updates):
    """What the terminals showed, together."""
    chunks = [u.body["data"] for u in updates if u.kind == "terminal_output_chunk"]
    return b"".join(base64.b64decode(chunk) for chunk in chunks).decode(errors="replace")


def calls_of(client, session):
    """Each call of the session as (name, status), in order."""
    calls = tool_calls(client.updates(session)).values()
    return [(call["name"], call["status"]) for call in calls]


def approve_code_only(client):
    """Approve the code itself, and leave every other question open."""
    client.permissions.policy = lambda request: (
        "approve" if request.tool_call["name"] == "run_code" else None
    )


def test_nested_calls_are_shown_like_any_other(client, session, project):
    """Each with an id, a title, its input and its own end; the code gets its text."""
    client.permissions.allow_all()
    turn = client.run(
        session,
        code_prompt(
            "text = tools.read_file(path='README.md')\n"
            "print(len(text) > 0, 'made' in tools.create_file(path='made.txt', content='m\\n'))\n"
            "print(tools.shell(command='cat made.txt'))"
        ),
    )
    assert turn.stop_reason == "end_turn"
    outer, read, create, shell = turn.calls
    assert [call["name"] for call in turn.calls] == [
        "run_code",
        "read_file",
        "create_file",
        "shell",
    ]
    assert {call["status"] for call in turn.calls} == {"completed"}
    assert len({call["toolCallId"] for call in turn.calls}) == 4
    assert (outer["kind"], "read_file" in outer["rawInput"]["code"]) == ("execute", True)
    assert read["rawInput"] == {"path": "README.md"}
    assert create["content"][0]["type"] == "diff"
    assert shell["content"][0]["type"] == outer["content"][0]["type"] == "terminal"
    assert shell["content"][0]["terminalId"] != outer["content"][0]["terminalId"]
    assert "True True\nm\n" in shown(turn.updates)
    assert (project / "made.txt").read_text() == "m\n"
    # Asked for the code and for the shell command, each under its own id.
    asked = [
        request.tool_call["toolCallId"]
        for request in client.permissions.requests
        if request.session == session
    ]
    assert asked == [outer["toolCallId"], shell["toolCallId"]]


def test_nothing_runs_before_the_code_is_allowed(client, session, project):
    """A denial of the code makes no file and no nested call; the code was shown."""
    client.prompt(session, "/code tools.create_file(path='never', content='')").result()
    request = client.permissions.next()
    assert "never" in request.tool_call["rawInput"]["code"]
    assert request.options == {"approve": "allow_once", "reject": "reject_once"}
    client.permissions.answer(request, "reject")
    assert client.wait_idle(session) == "end_turn"
    assert calls_of(client, session) == [("run_code", "failed")]
    assert not (project / "never").exists()


def test_a_denied_nested_call_is_an_exception_in_the_code(client, session, project):
    """The code goes on, the denied call failed, nothing of it happened."""
    approve_code_only(client)
    client.prompt(
        session,
        code_prompt(
            "try:\n    tools.shell(command='touch never')\n"
            "except ToolFailed as e:\n    print('refused:', 'denied' in str(e))"
        ),
    ).result()
    client.permissions.next()
    request = client.permissions.next()
    assert request.tool_call["name"] == "shell"
    client.permissions.answer(request, "reject")
    assert client.wait_idle(session) == "end_turn"
    assert calls_of(client, session) == [("run_code", "completed"), ("shell", "failed")]
    assert "refused: True" in shown(client.updates(session))
    assert not (project / "never").exists()


@pytest.mark.parametrize("path", [".env", ".vscode/settings.json", ".envrc", "sub/.envrc"])
@pytest.mark.parametrize("answer", ["approve", "reject"])
def test_a_nested_edit_of_a_protected_path_is_asked_on_its_own(
    client, session, project, path, answer
):
    """What was approved stays after the code's end; the code itself cannot touch it."""
    target = project / path
    target.parent.mkdir(exist_ok=True)
    target.write_text("old\n")
    approve_code_only(client)
    client.prompt(
        session,
        code_prompt(
            f"try:\n    tools.search_replace(path={path!r}, replacements=[dict("
            "search_content='old', replace_content='new')])\n"
            "except ToolFailed as e:\n    print('refused')\n"
            "try:\n"
            f"    open({path!r}, 'a').write('by the code')\n"
            "except OSError as e:\n    print('read-only')"
        ),
    ).result()
    client.permissions.next()
    request = client.permissions.next()
    assert request.options == {"approve": "allow_once", "reject": "reject_once"}
    client.permissions.answer(request, answer)
    assert client.wait_idle(session) == "end_turn"
    expected = "new\n" if answer == "approve" else "old\n"
    # The top level is read-only to code, .env is not (section 7's table).
    if path in (".vscode/settings.json", ".envrc"):
        assert "read-only" in shown(client.updates(session))
    else:
        expected += "by the code"
    assert target.read_text() == expected
    assert [name for name in target.parent.iterdir() if "displaced" in name.name] == []


def test_a_protected_file_can_be_made_by_a_nested_call(client, session, project):
    """Also below a folder that is not there, which the sandbox stands in for meanwhile."""
    client.permissions.allow_all()
    client.run(
        session, "/code tools.create_file(path='.github/workflows/ci.yml', content='on: push')"
    )
    assert (project / ".github/workflows/ci.yml").read_text() == "on: push"


def test_a_name_that_the_sandbox_keeps_free_is_not_made_by_a_nested_call(client, session, project):
    """Made meanwhile, the code could write to it; the call says what to do instead."""
    client.permissions.allow_all()
    turn = client.run(session, "/code tools.create_file(path='.envrc', content='x')")
    assert "a name that the sandbox keeps free while a command or code runs" in shown(turn.updates)
    assert not (project / ".envrc").exists()
    client.run(session, "/create .envrc <<x")
    assert (project / ".envrc").read_text() == "x\n"


def test_a_cancel_takes_an_open_nested_question_back(client, session, project, marker):
    """Code and call end as cancelled, a late answer does nothing, no process is left."""
    approve_code_only(client)
    forked = f"echo child; sleep {marker}; true"
    client.prompt(
        session,
        code_prompt(
            f"import subprocess\nsubprocess.Popen(['sh', '-c', {forked!r}])\n"
            "tools.shell(command='touch never')\nopen('never', 'w')"
        ),
    ).result()
    client.permissions.next()
    request = client.permissions.next()
    client.wait_for(lambda: "child" in shown(client.updates(session)), "the child's output")
    assert processes_with(marker)
    begun = time.monotonic()
    client.cancel(session)
    assert client.wait_idle(session, SOON) == "cancelled"
    assert time.monotonic() - begun < SOON
    client.wait_for(lambda: request.cancelled, "$/cancel_request")
    wait_until_gone(marker, SOON)
    assert calls_of(client, session) == [("run_code", "cancelled"), ("shell", "cancelled")]
    client.permissions.answer(request, "approve")
    client.still_works(session)
    assert not (project / "never").exists()


def test_a_question_whose_code_has_ended_is_taken_back(client, session, project):
    """The turn goes on and is shown as running again."""
    approve_code_only(client)
    client.prompt(
        session,
        code_prompt(
            "import os, threading, time\n"
            "ask = lambda: tools.shell(command='touch never')\n"
            "threading.Thread(target=ask, daemon=True).start()\n"
            "while not os.path.exists('go'):\n    time.sleep(0.01)"
        ),
    ).result()
    client.permissions.next()
    request = client.permissions.next()
    (project / "go").touch()
    client.wait_for(lambda: request.cancelled, "$/cancel_request")
    assert client.wait_idle(session) == "end_turn"
    assert calls_of(client, session) == [("run_code", "completed"), ("shell", "cancelled")]
    states = [u.body["state"] for u in client.updates(session) if u.kind == "state_update"]
    assert states[-3:] == ["requires_action", "running", "idle"]
    client.permissions.answer(request, "approve")
    client.still_works(session)
    assert not (project / "never").exists()


def test_a_cancel_stops_a_nested_command_and_code_that_never_ends(client, session, marker):
    """The whole tree of both sandboxes is gone."""
    client.permissions.allow_all()
    client.prompt(session, f"/code tools.shell(command='echo on; sleep {marker}; true')").result()
    client.wait_update(lambda u: u.kind == "terminal_output_chunk", what="the command's output")
    assert processes_with(marker)
    client.cancel(session)
    assert client.wait_idle(session, SOON) == "cancelled"
    wait_until_gone(marker, SOON)
    client.prompt(session, f"/code print('on {marker}')\\nwhile True: pass").result()
    client.wait_for(lambda: f"on {marker}" in shown(client.updates(session)), "the code's output")
    client.cancel(session)
    assert client.wait_idle(session, SOON) == "cancelled"
    wait_until_gone(marker, SOON)
    client.still_works(session)


@pytest.mark.parametrize("how", ["kill", "eof", "close"])
def test_nothing_outlives_the_server_or_the_session(start, project, how, marker):
    """Code with a nested command, when the server is killed, its client or its session ends."""
    client = start()
    client.initialize()
    session = client.new_session(project)
    client.permissions.allow_all()
    forked = f"echo child; sleep {marker}; true"
    client.prompt(
        session,
        code_prompt(
            f"import subprocess\nsubprocess.Popen(['sh', '-c', {forked!r}])\n"
            f"tools.shell(command='echo on; sleep {marker}; true')"
        ),
    ).result()
    for word in ("child\n", "on\n"):
        client.wait_for(lambda word=word: word in shown(client.updates(session)), f"output {word}")
    assert len(processes_with(marker)) >= 2
    if how == "kill":
        client.kill()
    elif how == "eof":
        client.eof()
        assert client.wait_exit() == 0
    else:
        client.close_session(session)
    wait_until_gone(marker, SOON)


def test_a_killed_turn_is_closed_with_its_nested_calls(home, start, project, marker):
    """After a resume every call has ended, and the next prompt works."""
    client = start()
    client.initialize()
    client.permissions.allow_all()
    session = client.new_session(project)
    client.prompt(session, f"/code tools.shell(command='echo on; sleep {marker}; true')").result()
    client.wait_update(lambda u: u.kind == "terminal_output_chunk", what="the command's output")
    client.kill()
    wait_until_gone(marker, SOON)
    client = start()
    client.initialize()
    calls = tool_calls(client.replay(session, project)).values()
    assert [(call["name"], call["status"]) for call in calls] == [
        ("run_code", "failed"),
        ("shell", "failed"),
    ]
    client.still_works(session)


def test_much_output_is_bounded(client, session):
    """50 MB: the user is shown both ends, the turn goes on."""
    client.permissions.allow_all()
    turn = client.run(session, "/code for i in range(50): print('x' * 10**6)", timeout=60)
    assert turn.stop_reason == "end_turn"
    assert "bytes omitted" in shown(turn.updates)
    assert len(shown(turn.updates)) < 2_000_000
    client.still_works(session)


def test_code_that_floods_the_client_with_calls_is_bounded(client, session):
    """A thousand calls and no more; the session works afterwards."""
    client.permissions.allow_all()
    turn = client.run(
        session,
        code_prompt(
            "refused = 0\n"
            "for _ in range(1100):\n"
            "    try:\n        tools.read_file(path='README.md', start_line=1, end_line=1)\n"
            "    except ToolFailed:\n        refused += 1\n"
            "print('refused', refused)"
        ),
        timeout=90,
    )
    assert "refused 100\n" in shown(turn.updates)
    assert len(turn.calls) == 1001
    client.still_works(session)


def test_bad_nested_calls_fail_and_name_what_is_wrong(client, session):
    """Unknown tools, wrong parameters and run_code itself; the code goes on."""
    client.permissions.allow_all()
    turn = client.run(
        session,
        code_prompt(
            "for name, arguments in [('nope', {}), ('read_file', {}), ('glob', {'pattern': 1}),\n"
            "                        ('run_code', {'code': '1'})]:\n"
            "    try:\n        getattr(tools, name)(**arguments)\n"
            "    except ToolFailed as e:\n        print('-', e)"
        ),
    )
    told = shown(turn.updates)
    for part in (
        "There is no tool 'nope'. The tools are: apply_patch, create_file,",
        "path is missing",
        "pattern must be a string, not 1",
        "run_code cannot be called by code",
    ):
        assert part in told
    assert [(call["name"], call["status"]) for call in turn.calls] == [
        ("run_code", "completed"),
        ("nope", "failed"),
        ("read_file", "failed"),
        ("glob", "failed"),
    ]


def test_version_1_shows_nested_calls_too(start, project):
    """As tool_call and tool_call_update."""
    client = start()
    client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}}).result()
    client.permissions.allow_all()
    session = client.request("session/new", {"cwd": str(project), "mcpServers": []}).result()[
        "sessionId"
    ]
    prompt = [{"type": "text", "text": "/code tools.create_file(path='n', content='x')"}]
    answer = client.request("session/prompt", {"sessionId": session, "prompt": prompt}).result()
    assert answer["stopReason"] == "end_turn"
    titles = [u.body["title"] for u in client.updates(session) if u.kind == "tool_call"]
    assert titles == ["Run Python: tools.create_file(path='n', content='x')", "Create n"]
    assert (project / "n").read_text() == "x"
