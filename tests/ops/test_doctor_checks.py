"""The single checks of the doctor, on a store and a service of every kind."""

from __future__ import annotations

import configparser
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from term2_acp import config
from term2_acp.doctor import configuration, network, storage, versions
from term2_acp.doctor.report import Status
from term2_acp.schema import SCHEMA_VERSION
from term2_acp.selection import Selection
from term2_acp.store import Store
from tests.models.chat import ChatServer
from tests.models.http import Reply, Then, json_reply

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-local-Zx81QpLmT5yRw3-not-shown"


def facts(check):
    return {fact.name: fact.value for fact in check.facts}


def told(check):
    return " ".join(f"{finding.message} {finding.remedy}" for finding in check.findings)


@pytest.fixture(name="folder")
def _folder(tmp_path):
    """The state directory, with a session in the store."""
    folder = tmp_path / "state"
    store = Store(str(folder))
    store.create_session("s", "/w")
    store.close()
    return folder


def test_a_good_store_is_described_and_left_alone(folder):
    """Size, schema, sessions, integrity and modes; no file is made or changed."""
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    check = storage.check(str(folder))
    assert check.status == Status.OK, told(check)
    assert facts(check) | {
        "folder_mode": "0700",
        "file_mode": "0600",
        "schema": SCHEMA_VERSION,
        "sessions": 1,
        "integrity": "ok",
    } == facts(check)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_store_in_use_is_read_too(folder):
    """What another process has only in the journal counts."""
    with closing(Store(str(folder))) as store:
        store.create_session("t", "/w")
        check = storage.check(str(folder))
    assert check.status == Status.OK, told(check)
    assert facts(check)["sessions"] == 2


def test_damage_inside_is_found(folder):
    """Not only a wrong header: a page in the middle that makes no sense."""
    path = folder / "sessions.db"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * (size // 2))
    check = storage.check(str(folder))
    assert check.status == Status.FAILED
    assert "damaged" in told(check)
    assert "move it away" in told(check)


def _foreign(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (x)")


def _newer(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")


def _a_directory(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_newer, "update term2"),
        (lambda path: path.write_bytes(b"no database " * 100), "damaged"),
        (_foreign, "some other program"),
        (lambda path: os.truncate(path, path.stat().st_size - 4096), "bytes are missing"),
        (_a_directory, "not a file"),
    ],
)
def test_a_store_that_cannot_be_used_has_failed(folder, spoil, said):
    """Newer, garbage, something else: the reason and the remedy."""
    spoil(folder / "sessions.db")
    check = storage.check(str(folder))
    assert check.status == Status.FAILED
    assert said in told(check)


def test_open_permissions_are_a_warning(folder):
    """The command that mends them is told."""
    folder.chmod(0o755)
    (folder / "sessions.db").chmod(0o644)
    check = storage.check(str(folder))
    assert check.status == Status.WARNING
    assert f"chmod 700 {folder}" in told(check)
    assert f"chmod 600 {folder / 'sessions.db'}" in told(check)


def test_a_store_that_is_not_there_yet_is_fine(tmp_path):
    """Also where the folders above it are missing; nothing is made."""
    check = storage.check(str(tmp_path / "a" / "b"))
    assert check.status == Status.OK, told(check)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_of_the_folder_has_failed(tmp_path):
    """A state directory that cannot be made is told before the first session fails."""
    (tmp_path / "a").write_text("")
    check = storage.check(str(tmp_path / "a" / "b"))
    assert check.status == Status.FAILED
    assert "not a directory" in told(check)
    assert check.summary.endswith("cannot be used")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fdinfo"), reason="needs a folder without room")
def test_a_folder_in_which_nothing_can_be_written_has_failed():
    """A real write is tried: permissions alone do not tell of a full or read-only disk."""
    check = storage.check("/proc/self/fdinfo")
    assert check.status == Status.FAILED
    assert "no file can be written" in told(check)


@pytest.fixture(name="service")
def _service():
    server = ChatServer(models={"data": [{"id": "test-model"}, {"id": "other"}]})
    yield server
    server.close()


def selection(service, **changes):
    values = {
        "provider": "local",
        "kind": "openai-compatible",
        "model": "test-model",
        "base_url": service.base_url,
        "api_key_env": "LOCAL_API_KEY",
        "api_key": KEY,
    }
    return Selection(**(values | changes))


def test_a_model_that_the_service_does_not_list_is_a_warning(service):
    """The service is there and takes the key, but prompts would fail."""
    check = network.check(selection(service, model="missing"))
    assert check.status == Status.WARNING
    assert "'missing'" in told(check)


def test_anthropic_s_headers_are_its_own(service):
    """The key goes where that vendor reads it, and nowhere else."""
    address = service.base_url.removesuffix("/v1")
    check = network.check(selection(service, kind="anthropic", base_url=address))
    assert check.status == Status.OK, told(check)
    (asked,) = service.requests
    assert asked.path == "/v1/models"
    assert asked.headers["x-api-key"] == KEY
    assert "authorization" not in asked.headers


ANSWERS = {
    "a refused key": (json_reply(401, {"error": {"message": KEY}}), Status.FAILED, "LOCAL_API_KEY"),
    "no such list": (json_reply(404, {}), Status.WARNING, "no list of models"),
    "a broken service": (json_reply(500, {}), Status.FAILED, "fault of its own"),
    "a redirect": (json_reply(302, {}, ("Location", "http://x/")), Status.FAILED, "redirect to"),
    "a silent service": (Reply(before_headers=Then.STALL), Status.FAILED, "within 0.5 s"),
    "half an answer": (Reply((b"{", Then.STALL)), Status.FAILED, "within 0.5 s"),
    "no length and no end": (
        Reply((b"{}", Then.STALL), until_close=True),
        Status.FAILED,
        "within 0.5 s",
    ),
    "a reset": (Reply((b"{", Then.RESET)), Status.FAILED, "check that base_url"),
    "no answer": (Reply(before_headers=Then.RESET), Status.FAILED, "broke off"),
    "no JSON": (Reply((b"<html>",), 200, "text/html", length=True), Status.FAILED, "text/html"),
}


@pytest.mark.parametrize("answer", sorted(ANSWERS))
def test_every_answer_is_bounded_and_explained(service, answer):
    """Whatever the service does, the check ends, and says what it means without the key."""
    reply, status, said = ANSWERS[answer]
    service.judge = lambda _request: reply
    # The deadline is part of the message of those that do not end by themselves.
    check = network.check(selection(service), deadline_s=0.5 if "0.5" in said else 20)
    assert (check.status, said in told(check)) == (status, True), told(check)
    assert KEY not in told(check)


def test_nobody_listening_is_told():
    """The most common fault of a local model: it does not run."""
    service = ChatServer()
    chosen = selection(service)
    service.close()
    check = network.check(chosen)
    assert check.status == Status.FAILED
    assert "nothing listens there" in told(check)
    assert facts(check)["reachable"] is False


def test_what_comes_out_of_the_keys_is_a_warning(monkeypatch):
    """A provider of the file that lacks its key: the offline model answers, and it is told."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "MISSING_KEY"):
        monkeypatch.delenv(name, raising=False)
    provider = config.ProviderSettings(
        "openai-compatible", "http://h/v1", "MISSING_KEY", (config.ModelSettings("m"),)
    )
    settings = configuration.Settings(config.Config(providers={"local": provider}))
    check = configuration.check_provider(settings)
    assert check.status == Status.WARNING
    assert "MISSING_KEY" in told(check)
    assert facts(check)["provider"] == "offline"


def test_the_versions_are_those_of_all_that_is_required():
    """A dependency that is added is looked up too."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    required = setup["options"]["install_requires"].split("\n")
    names = {re.match(r"[\w-]+", line)[0] for line in required if line}
    check = versions.check()
    assert check.status == Status.OK, told(check)
    assert names <= set(facts(check))
