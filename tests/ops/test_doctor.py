"""`term2 doctor`: every check is made and reported, whatever else is broken."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

import term2_acp
from term2_acp.doctor import command
from term2_acp.doctor.report import Check, Report, failed
from term2_acp.doctor.table import table
from term2_acp.store import Store
from tests.harness.home import SOURCE
from tests.models.chat import ChatServer
from tests.models.http import json_reply

NAMES = ["versions", "configuration", "provider", "service", "sandbox", "store", "diagnostics"]
KEY = "sk-local-Zx81QpLmT5yRw3-not-shown"
EVERY_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def run(home, *args, **environment):
    return subprocess.run(
        [sys.executable, "-m", "term2_acp", "doctor", *args],
        capture_output=True,
        text=True,
        check=False,
        cwd=SOURCE,
        env=home.environment(**environment),
        timeout=60,
    )


def report(home, **environment):
    """The exit status and the checks by name."""
    ended = run(home, "--json", **environment)
    value = json.loads(ended.stdout)
    assert list(value) == ["format", "term2", "ok", "checks"]
    assert (value["format"], value["term2"]) == (1, term2_acp.__version__)
    assert [check["name"] for check in value["checks"]] == NAMES
    for check in value["checks"]:
        assert list(check) == ["name", "status", "summary", "findings", "facts"]
    assert ended.returncode == (0 if value["ok"] else 1)
    assert "Traceback" not in ended.stderr
    return ended.returncode, {check["name"]: check for check in value["checks"]}


@pytest.fixture(name="service")
def _service():
    server = ChatServer(models={"data": [{"id": "test-model"}, {"id": "other"}]})
    yield server
    server.close()


def configure(home, service, model="test-model"):
    home.configure(
        f'provider = "local"\nmodel = "{model}"\n[providers.local]\nkind = "openai-compatible"\n'
        f'base_url = "{service.base_url}"\napi_key_env = "LOCAL_API_KEY"\n'
    )


def test_a_machine_on_which_all_is_well(home, service):
    """Exit status 0, every check with its facts; the service was asked once, with the key."""
    configure(home, service)
    trace = home.root / "trace"
    status, checks = report(home, LOCAL_API_KEY=KEY, TERM2_TRACE=str(trace))
    assert status == 0, checks
    assert checks["diagnostics"]["facts"]["trace_file"] == str(trace)
    assert not trace.exists()
    assert {check["status"] for check in checks.values()} <= {"ok", "warning"}
    assert (
        checks["provider"]["facts"]
        | {
            "provider": "local",
            "model": "test-model",
            "base_url": service.base_url,
            "api_key_env": "LOCAL_API_KEY",
            "api_key_is_set": True,
        }
        == checks["provider"]["facts"]
    )
    assert checks["service"]["facts"]["http_status"] == 200
    assert checks["service"]["facts"]["lists_model"] is True
    assert checks["sandbox"]["facts"]["available"] is True
    assert checks["versions"]["facts"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert checks["versions"]["facts"]["openai"]
    (asked,) = service.requests
    assert (asked.method, asked.path) == ("GET", "/v1/models")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    # It only looked: the store is made by the first session.
    assert not (home.state / "term2").exists()


def test_the_shape_is_the_documented_one(home):
    """The example in docs/ops.md has the checks and facts that are printed."""
    text = (SOURCE / "docs" / "ops.md").read_text(encoding="utf-8")
    example = json.loads(re.search(r"```json\n(\{\n  \"format\".*?)```", text, re.DOTALL)[1])
    documented = {check["name"]: check for check in example["checks"]}
    assert list(documented) == NAMES
    home.configure('provider = "ollama"\n[providers.ollama]\nbase_url = "http://127.0.0.1:1/v1"\n')
    Store(str(home.state / "term2")).close()
    _, checks = report(home)
    for name in NAMES:
        shown, real = documented[name]["facts"], checks[name]["facts"]
        if name == "versions":
            # The packages are only begun with.
            assert list(shown)[:-1] == list(real)[: len(shown) - 1]
            assert set(shown) <= set(real)
        else:
            assert list(shown) == list(real), name
        for fact, value in real.items():
            if value is not None and shown.get(fact) is not None:
                assert type(shown[fact]) is type(value), fact


def test_everything_is_broken_at_once(home):
    """A file that is no TOML, a newer store, no bwrap, wrong variables: each is reported."""
    home.configure("provider = \n")
    folder = home.state / "term2"
    folder.mkdir()
    make_store = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])"
    subprocess.run(
        [
            sys.executable,
            "-c",
            make_store,
            folder / "sessions.db",
            "CREATE TABLE t (x); PRAGMA user_version = 99",
        ],
        check=True,
    )
    missing = str(home.root / "missing" / "file")
    status, checks = report(
        home, PATH=str(home.root), TERM2_LOG="loud", TERM2_TRACE=missing, TERM2_LOG_FILE=missing
    )
    assert status == 1
    found = {
        name: " ".join(f"{finding['message']} {finding['remedy']}" for finding in check["findings"])
        for name, check in checks.items()
    }
    assert "line 1, column 12" in found["configuration"]
    assert checks["provider"]["status"] == checks["service"]["status"] == "skipped"
    assert "bwrap" in found["sandbox"]
    assert "install bubblewrap" in found["sandbox"]
    assert "newer term2 (schema 99" in found["store"]
    assert "chmod 600" in found["store"]
    assert "'loud'" in found["diagnostics"]
    assert found["diagnostics"].count(missing) == 2
    for name in ("configuration", "sandbox", "store", "diagnostics"):
        assert checks[name]["status"] == "failed"


def test_the_table_says_what_to_do_and_no_key(home, service):
    """People get a line a check, the fault and the remedy; a service that quotes a key is cut."""
    configure(home, service)
    service.models = None
    service.judge = lambda _request: json_reply(401, {"error": {"message": f"bad key {KEY}"}})
    ended = run(home, LOCAL_API_KEY=KEY)
    assert (ended.returncode, ended.stderr) == (1, "")
    for name in NAMES:
        assert f" {name} " in ended.stdout
    assert "FAILED   service" in ended.stdout
    assert "refused the API key" in ended.stdout
    assert "LOCAL_API_KEY" in ended.stdout
    assert KEY not in ended.stdout
    assert "\033" not in ended.stdout


def test_a_fault_of_a_check_is_reported_like_any_other():
    """A check that raises has failed, by its name; those after it are made."""

    def broken():
        raise LookupError("what nobody thought of")

    check = command.guarded("store", broken)
    (finding,) = check.findings
    assert (check.name, check.status) == ("store", "failed")
    assert "LookupError: what nobody thought of" in finding.message


def test_names_of_files_do_not_reach_the_terminal_raw():
    """What would move a cursor is shown as an escape; colours are there only where asked for."""
    text = "a\033[2Jb"
    shown = Report("1", (Check("store", text, (failed(text, text),)),))
    plain = table(shown, width=80, colour=False)
    assert "\033" not in plain
    assert plain.count(r"a\x1b[2Jb") == 3
    assert "\033[31mFAILED\033[0m" in table(shown, width=80, colour=True)


@pytest.mark.parametrize(
    ("args", "named"), [(["--jsn"], "--jsn"), (["--json", "x"], "'x'"), (["x"], "'x'")]
)
def test_it_takes_nothing_else(home, args, named):
    """A wrong argument is named on one line, with exit status 1."""
    ended = run(home, *args)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert named in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_reader_that_goes_away_is_no_fault(home):
    """`term2 doctor | true`: no traceback."""
    ended = subprocess.run(
        ["sh", "-c", '"$0" -m term2_acp doctor | true', sys.executable],
        capture_output=True,
        check=False,
        cwd=SOURCE,
        env=home.environment(PATH=EVERY_PATH),
        timeout=60,
    )
    assert ended.stderr == b""
