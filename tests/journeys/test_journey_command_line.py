"""Spec section 1: the command line, and a standard output that is the protocol's alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import term2_acp
from tests.harness.client import Client
from tests.harness.home import SOURCE
from tests.harness.messages import encode

PROGRAM = (sys.executable, "-m", "term2_acp")


def run(home, *args, command=PROGRAM, **environment):
    """Run the program to its end, with bytes on stdin that it is not to read."""
    return subprocess.run(
        [*command, *args],
        input="y\n1\n",
        capture_output=True,
        text=True,
        check=False,
        cwd=SOURCE,
        env=home.environment(**environment),
        timeout=30,
    )


@pytest.mark.parametrize(
    "args",
    [
        ["--auto-approve"],
        ["--auto-approve=true"],
        ["--yolo"],
        ["--unsandboxed"],
        ["--sandbox", "off"],
        ["--port", "1"],
        ["-p"],
        ["-x"],
        ["positional"],
        ["--", "positional"],
        ["--provider"],
        ["--model"],
        ["--effort"],
        ["--provider", "offline", "--auto-approve"],
        ["--effort", "extreme"],
        ["--effort", "HIGH"],
        ["--effort", ""],
        ["--provider", "no-such-provider"],
        ["--provider", ""],
        ["--model", "no-such-model"],
        ["--provider", "offline", "--model", "no-such-model"],
        ["--model", "no-such-provider/x"],
        ["--prov", "offline"],
        ["--provider", "offline", "extra"],
    ],
    ids=" ".join,
)
def test_what_is_no_option_is_refused(home, args):
    """Exit status 1, nothing on stdout, a diagnostic on stderr that is no traceback."""
    ended = run(home, "acp", *args)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.strip()
    assert "Traceback" not in ended.stderr


def test_the_diagnostic_is_one_line_and_names_the_option(home):
    """A user sees what was wrong at a glance."""
    ended = run(home, "acp", "--auto-approve")
    assert len(ended.stderr.splitlines()) == 1
    assert "--auto-approve" in ended.stderr


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh"])
def test_every_effort_is_accepted(start, effort):
    """The six words start a server; with `offline` they change nothing."""
    client = start("--provider", "offline", f"--effort={effort}")
    client.initialize()


def test_version_and_help_are_told_and_end(home):
    """`--version` and `--help` go to stdout with status 0."""
    version = run(home, "--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert term2_acp.__version__ in version.stdout
    told = run(home, "--help")
    assert told.returncode == 0
    for word in ("acp", "--provider", "--model", "--effort"):
        assert word in told.stdout


@pytest.mark.parametrize("command", ["chat", "doctor", "completion"])
def test_a_command_for_people_tells_its_usage(home, command):
    """`term2 acp` takes nothing but its three options; the others say what they take."""
    told = run(home, command, "--help")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == run(home, "--help").stdout
    assert run(home, "acp", "--help").returncode == 1


def test_an_unknown_command_is_refused(home):
    """What is no subcommand ends with a failure and an empty stdout."""
    for args in (["no-such-command"], ["--no-such-option"]):
        ended = run(home, *args)
        assert ended.returncode != 0
        assert ended.stdout == ""
        assert "Traceback" not in ended.stderr


def test_the_installed_command_is_the_same_program(home):
    """`term2` and `python -m term2_acp` are one."""
    script = shutil.which("term2", path=str(Path(sys.executable).parent))
    if script is None:
        pytest.skip("term2 is not installed in this environment")
    for args in (["--version"], ["acp", "--auto-approve"]):
        one, two = run(home, *args, command=[script]), run(home, *args)
        assert (one.returncode, one.stdout, one.stderr) == (two.returncode, two.stdout, two.stderr)
    client = Client(home, command=[script, "acp"])
    assert client.initialize()["protocolVersion"] == 2
    client.close()


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONWARNINGS": "always", "TERM2_LOG": "debug"},
        {"PYTHONDEVMODE": "1", "TERM2_LOG": "debug"},
        {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"},
        {"TERM2_LOG": "no-such-level"},
    ],
    ids=str,
)
def test_stdout_is_the_protocol_s_alone(start, project, environment):
    """Warnings, debug logs and other encodings do not reach it, from start to end."""
    client = start(**environment)
    client.initialize()
    session = client.new_session(project)
    client.permissions.allow_all()
    turn = client.run(session, "/say ünïcode \U0001f600\n/shell echo out; echo err >&2\nhello")
    assert turn.stop_reason == "end_turn"
    assert "ünïcode \U0001f600" in turn.text
    client.cancel(session)
    client.prompt(session, "/sleep 600").result()
    client.eof()
    assert client.wait_exit() == 0


@pytest.mark.parametrize("args", ["--version", "--help", "completion bash", "doctor", "chat"])
def test_output_that_cannot_be_written_is_told(home, project, args):
    """A full disk: one line on stderr and exit status 1; a pipe that nobody reads: no word."""
    ended = shell(home, project, f'"$0" "$@" {args} </dev/null >/dev/full')
    assert ended.returncode == 1
    assert "term2: the output cannot be written (No space left on device)" in ended.stderr
    assert "Traceback" not in ended.stderr
    piped = shell(home, project, f'"$0" "$@" {args} </dev/null | true')
    assert "Traceback" not in piped.stderr
    assert "Exception ignored" not in piped.stderr


def test_a_terminal_client_without_input_or_folder_is_no_traceback(home, project):
    """Closed standard input is its end; a folder that was removed is named as the fault."""
    ended = shell(home, project, '"$0" "$@" chat <&-')
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    gone = shell(home, project, 'mkdir gone; cd gone; rmdir ../gone; "$0" "$@" chat </dev/null')
    assert gone.returncode == 1
    assert "the current folder cannot be used" in gone.stderr
    assert "Traceback" not in gone.stderr


def shell(home, folder, line):
    """Run a line of sh in a folder, with the program as its $0 and $@."""
    return subprocess.run(
        ["sh", "-c", line, sys.executable, "-P", "-m", "term2_acp"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=home.environment(),
        timeout=60,
    )


@pytest.mark.parametrize(
    "streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full"]
)
def test_streams_that_are_closed_or_full_are_survived(home, streams):
    """Whatever an editor does to the standard streams: an end without a traceback or a hang."""
    hello = {"jsonrpc": "2.0", "id": 1, "method": "session/list"}
    ended = subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {streams}', *PROGRAM, "acp"],
        input=encode(hello),
        capture_output=True,
        check=False,
        cwd=SOURCE,
        env=home.environment(),
        timeout=30,
    )
    assert b"Traceback" not in ended.stderr
    if ">&-" not in streams.split():
        assert ended.returncode == 0
    if streams in ("2>&-", "2>/dev/full"):
        assert json.loads(ended.stdout)["error"]["code"] == -32600


def test_a_working_directory_of_any_kind_does_not_matter(start, home, project):
    """The server takes the workspace from the session, not from where it was started."""
    (home.root / "elsewhere").mkdir()
    client = start(cwd=home.root / "elsewhere")
    client.initialize()
    session = client.new_session(project)
    turn = client.run(session, "/read README.md")
    assert [call["status"] for call in turn.calls] == ["completed"]
