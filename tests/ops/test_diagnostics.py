"""Where diagnostics go: level, format and file by the environment, and never in the way."""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import subprocess
import sys
import threading

import pytest

from term2_acp import diagnostics
from term2_acp.append_file import AppendFile
from term2_acp.log_records import JsonFormatter
from tests.harness.home import SOURCE

AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def record(message, *args, exc_info=None):
    return logging.LogRecord("a.b", logging.WARNING, __file__, 1, message, args, exc_info)


def test_a_log_file_gets_what_stderr_gets(start, home, project):
    """Both, in JSON, one object a line with its time and thread; the file is private."""
    path = home.root / "term2.log"
    client = start(TERM2_LOG="debug", TERM2_LOG_FILE=str(path), TERM2_LOG_FORMAT="json")
    client.initialize()
    client.new_session(project)
    client.eof()
    assert client.wait_exit() == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines
    for line in lines:
        assert AT.fullmatch(line["at"])
        assert line["level"] in diagnostics.LEVELS
        assert line["pid"] == client.process.pid
        assert line["thread"]
        assert line["message"]
    assert lines == [json.loads(line) for line in client.stderr.splitlines()]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_log_file_that_cannot_be_written_is_warned_of(start, home):
    """The server serves all the same; a pipe that nobody reads does not hold it up."""
    path = home.root / "fifo"
    os.mkfifo(path)
    client = start(TERM2_LOG_FILE=str(path))
    client.initialize()
    assert f"TERM2_LOG_FILE: {path} cannot be written" in client.stderr


def test_only_a_regular_file_is_appended_to(tmp_path):
    """Neither a folder, nor a device, nor a pipe that somebody reads."""
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    for path in (tmp_path, tmp_path / "missing" / "log", tmp_path / "fifo", "/dev/null"):
        with pytest.raises(OSError, match="regular|such|directory"):
            AppendFile(str(path))
    os.close(reader)


@pytest.mark.parametrize(
    ("variable", "value", "right"),
    [("TERM2_LOG", "loud", "debug, info"), ("TERM2_LOG_FORMAT", "xml", "text, json")],
)
def test_a_wrong_word_is_told_and_its_default_holds(variable, value, right):
    """The variable, the value and what would be right."""
    level, kind, path, problems = diagnostics.read({variable: value})
    assert (level, kind, path) == ("warning", "text", "")
    (problem,) = problems
    assert variable in problem
    assert right in problem
    assert value in problem


def test_case_does_not_matter_and_empty_is_unset():
    """TERM2_LOG=DEBUG is what people write."""
    environment = {"TERM2_LOG": "DEBUG", "TERM2_LOG_FORMAT": "JSON", "TERM2_LOG_FILE": ""}
    assert diagnostics.read(environment) == ("debug", "json", "", [])
    assert diagnostics.read({"TERM2_LOG": ""}) == ("warning", "text", "", [])


@pytest.mark.parametrize("text", ["x" * 100_000, "\x00" * 50_000, "é😀" * 30_000, "\udcff" * 9000])
def test_a_long_record_is_one_whole_line_of_json(tmp_path, text):
    """Its middle is left out, with a traceback of the same length too."""
    try:
        raise ValueError(text)
    except ValueError:
        exc_info = sys.exc_info()
    handler = diagnostics.FileHandler(str(tmp_path / "log"))
    handler.setFormatter(JsonFormatter())
    handler.emit(record("%s", text, exc_info=exc_info))
    data = (tmp_path / "log").read_bytes()
    assert len(data) < 16 * 1024
    (line,) = data.splitlines()
    value = json.loads(line)
    assert "…" in value["message"]
    assert "ValueError" in value["traceback"]


class Full(diagnostics.FileHandler):
    """Writes to a file for which there is room only sometimes."""

    def __init__(self, path):
        super().__init__(path)
        self.room = 1000

    def _write(self, data):
        return len(data) <= self.room and super()._write(data)


def test_what_a_full_disk_lost_is_counted_and_told(tmp_path):
    """The count comes before the next record, also if that alone would fit."""
    handler = Full(str(tmp_path / "log"))
    handler.emit(record("one"))
    for room in (0, 0, 10):
        handler.room = room
        handler.emit(record("lost"))
    handler.room = 1000
    handler.emit(record("two"))
    text = (tmp_path / "log").read_text()
    assert text.splitlines() == ["one", "3 messages could not be written and are lost", "two"]


def test_a_full_disk_is_no_fault_of_the_caller(tmp_path):
    """A limit of the process's own stands for a disk without room."""
    code = (
        "import resource, signal, sys, os\n"
        "from term2_acp.append_file import AppendFile\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))\n"
        "file = AppendFile(sys.argv[1])\n"
        "print([file.append(line) for line in (b'12345\\n', b'67890\\n', b'lost\\n')])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))\n"
        "print([file.append(b'again\\n')])\n"
    )
    path = tmp_path / "log"
    ended = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True, cwd=SOURCE
    )
    assert ended.stdout.split("\n")[:2] == ["[True, False, False]", "[True]"]
    # The line that was cut short is ended, so that the next one is whole.
    assert path.read_bytes() == b"12345\n6789\nagain\n"


def test_processes_append_to_one_file(tmp_path):
    """Whole lines, in any order."""
    path = str(tmp_path / "log")
    files = [AppendFile(path), AppendFile(path)]
    threads = [
        threading.Thread(
            target=lambda file=file, line=line: [file.append(line) for _ in range(200)],
            name=f"appends-{line}",
        )
        for file, line in zip(files, (b"a" * 500 + b"\n", b"b" * 700 + b"\n"), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    lines = (tmp_path / "log").read_bytes().splitlines()
    assert sorted(map(len, lines)) == [500] * 200 + [700] * 200
