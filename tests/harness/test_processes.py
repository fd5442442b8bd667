"""Survivors must be found, and their end be noticed."""

from __future__ import annotations

import subprocess
import uuid

import pytest

from tests.harness.processes import processes_with, wait_until_gone


@pytest.fixture
def marked():
    """A process with a marker in its command line, and that marker."""
    marker = f"marker-{uuid.uuid4().hex}"
    # `read` is of the shell itself: no second process has the marker, not for a moment.
    argv = ["sh", "-c", f"read _; : {marker}"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
        yield process, marker
        process.kill()


def test_a_marked_process_is_found_and_named(marked):
    """A process that lives is found by its marker, and the wait for its end says which it is."""
    process, marker = marked
    assert processes_with(marker) == [process.pid]
    with pytest.raises(AssertionError, match="read _"):
        wait_until_gone(marker, timeout=0.05)


def test_the_wait_ends_with_the_process(marked):
    """Once the process is gone the wait returns."""
    process, marker = marked
    process.kill()
    wait_until_gone(marker)
    assert processes_with(marker) == []
