"""What is written as a diagnostic passes the redaction (spec section 7)."""

from __future__ import annotations

import json
import logging

import pytest

from term2_acp import diagnostics
from term2_acp.log_records import JsonFormatter
from term2_acp.redaction import MARKER, Redactor

SECRET = "s3cr3t-value-42"


@pytest.fixture(name="log")
def _log(tmp_path):
    """A handler of the root logger that writes a file, which is given."""
    handler = diagnostics.FileHandler(str(tmp_path / "log"))
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    yield tmp_path / "log"
    root.removeHandler(handler)
    handler.close()


def test_a_secret_is_not_written_once_the_core_is_loaded(log):
    """Neither in a message nor in the traceback of what went wrong."""
    diagnostics.redact_by(Redactor({"SOME_TOKEN": SECRET}).text)
    logger = logging.getLogger("term2_acp.test")
    try:
        raise ValueError(f"wrong: {SECRET}")
    except ValueError:
        logger.exception("the tool %s failed", SECRET)
    written = log.read_text()
    assert written.startswith(f"ERROR the tool {MARKER} failed\n")
    assert f"ValueError: wrong: {MARKER}" in written
    assert SECRET not in written


def test_a_secret_in_the_middle_of_a_long_record_is_not_cut_in_two(log):
    """A record in JSON loses its middle; what is redacted after that has no half of a secret."""
    (handler,) = [h for h in logging.getLogger().handlers if isinstance(h, diagnostics.FileHandler)]
    handler.setFormatter(JsonFormatter())
    diagnostics.redact_by(Redactor({"SOME_TOKEN": SECRET}).text)
    logging.getLogger("term2_acp.test").error("%s", (SECRET + " ") * 1000)
    assert MARKER in json.loads(log.read_text())["message"]
    assert SECRET[:8] not in log.read_text()
    assert SECRET[-8:] not in log.read_text()
