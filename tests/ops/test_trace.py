"""TERM2_TRACE: what went over the pipes, private, without secrets, and never in the way."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys

from term2_acp.trace import Trace
from tests.harness.home import SOURCE

SECRET = "Zx81QpLmT5yRw3kd-in-the-environment"
TOKEN = "ghp_" + "a1B2" * 9
AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def read(path):
    """The lines of a trace; every one is whole JSON with a time and a process."""
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    for line in lines:
        assert AT.fullmatch(line.pop("at"))
        assert type(line.pop("pid")) is int
    return lines


def test_both_directions_are_there_without_secrets(home):
    """Every line in its order, also what is no JSON; the file is made private."""
    path = home.root / "trace"
    path.write_text("")
    path.chmod(0o644)
    info = {"name": "editor", "version": "1"}
    told = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {"protocolVersion": 2, "info": info},
        },
        {"jsonrpc": "2.0", "id": SECRET, "method": "session/list", "params": {}},
        {"jsonrpc": "2.0", "id": 3, "method": "no/such", "params": {TOKEN: [f"a {TOKEN} b"]}},
    ]
    lines = [json.dumps(message).encode() for message in told]
    lines += [b"", f"no JSON: {TOKEN} \u2028 ".encode() + b"\xff"]
    ended = subprocess.run(
        [sys.executable, "-m", "term2_acp", "acp"],
        input=b"\n".join(lines),
        capture_output=True,
        check=True,
        cwd=SOURCE,
        env=home.environment(TERM2_TRACE=str(path), MY_TOKEN=SECRET),
        timeout=60,
    )
    traced = read(path)

    def redacted(text):
        return text.replace(SECRET, "[REDACTED]").replace(TOKEN, "[REDACTED]")

    assert [json.loads(redacted(json.dumps(message))) for message in told] == [
        line["message"] for line in traced if line["direction"] == "in" and "message" in line
    ]
    assert ["no JSON: [REDACTED] \u2028 \\xff"] == [
        line["text"] for line in traced if "text" in line
    ]
    answers = [json.loads(redacted(line)) for line in ended.stdout.decode().splitlines()]
    assert len(answers) == 4
    assert answers == [line["message"] for line in traced if line["direction"] == "out"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_path_that_cannot_be_written_is_warned_of(start, home):
    """The variable, the path and the reason on stderr; the server serves."""
    path = home.root / "missing" / "trace"
    client = start(TERM2_TRACE=str(path))
    client.initialize()
    assert f"TERM2_TRACE: {path} cannot be written (No such file" in client.stderr


def test_what_waits_is_bounded_and_what_is_lost_is_told(tmp_path):
    """Nothing is written yet, and far more comes than is held."""
    trace = Trace(str(tmp_path / "trace"), max_held_bytes=10_000)
    for number in range(1000):
        trace.sent(b'{"a": %d}\n{"b": %d}\n' % (number, number))
    trace.start()
    trace.stop(20)
    lines = read(tmp_path / "trace")
    lost = sum(line["lost"] for line in lines if "lost" in line)
    kept = [line["message"] for line in lines if "message" in line]
    assert 10 < len(kept) < 60
    assert len(kept) + lost == 2000
    assert kept[0] == {"a": 0}


def test_long_lines_are_left_out_by_their_size(tmp_path):
    """Also one that was longer than any may be, and was never held."""
    trace = Trace(str(tmp_path / "trace"))
    trace.start()
    trace.received(b"[" + b" " * 2_000_000 + b"]")
    trace.received(None)
    trace.received(b"[" * 100_000)
    trace.received(b"NaN")
    trace.stop(20)
    long, discarded, deep, constant = read(tmp_path / "trace")
    assert long == {"direction": "in", "omitted_bytes": 2_000_002}
    assert discarded == {"direction": "in", "omitted_bytes": 32 * 1024 * 1024 + 1}
    assert deep["text"].startswith("[[")
    assert constant == {"direction": "in", "text": "NaN"}


def test_a_disk_without_room_loses_lines_and_nothing_else(tmp_path):
    """`sent` goes on, one warning is told, and what is lost is counted once there is room."""
    code = """
import logging, resource, sys, threading
from term2_acp.trace import Trace

class Warned(logging.StreamHandler):
    happened = threading.Event()
    def emit(self, record):
        super().emit(record)
        self.happened.set()

logging.basicConfig(handlers=[Warned()], format="%(message)s")
trace = Trace(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
trace.start()
for number in range(500):
    trace.sent(b'{"number": %d}' % number)
assert Warned.happened.wait(20)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
trace.received(b'"the end"')
trace.stop(20)
"""
    path = tmp_path / "trace"
    ended = subprocess.run(
        [sys.executable, "-c", code, path],
        capture_output=True,
        text=True,
        check=True,
        cwd=SOURCE,
        timeout=60,
    )
    assert ended.stderr.splitlines() == [
        f"TERM2_TRACE: {path} cannot be written; lines of it are lost"
    ]
    lines = []
    torn = 0
    for line in path.read_bytes().splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            torn += 1
    # The line that was cut short is one of the lost.
    assert torn <= 1
    lost = sum(line["lost"] for line in lines if "lost" in line)
    kept = [line["message"] for line in lines if "message" in line]
    assert lost >= 1
    assert len(kept) + lost == 501
    assert kept[0] == {"number": 0}
    assert kept[-1] == "the end"


def test_without_it_nothing_of_it_is_loaded(home):
    """Off by default, at no cost: neither its module nor that of the redaction."""
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "term2_acp", "acp"],
        input=b"",
        capture_output=True,
        check=True,
        cwd=SOURCE,
        env=home.environment(),
        timeout=60,
    )
    assert b"term2_acp.rpc.writer" in ended.stderr
    assert b"term2_acp.trace" not in ended.stderr
    assert b"term2_acp.redaction" not in ended.stderr
