"""Which process owns a session: one at a time, and a dead one none."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from term2_acp.errors import SessionInUseError, StoreError
from term2_acp.ownership import SessionLock
from tests.unit.doubles import DEADLINE_S, together

ROOT = Path(__file__).resolve().parents[2]
HOLD = """
import sys
from term2_acp.ownership import SessionLock
lock = SessionLock(sys.argv[1], "s")
print("held", flush=True)
sys.stdin.read()
lock.release()
"""


class Holder:
    """Another process that owns the session."""

    def __init__(self, directory):
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        assert self.process.stdout.readline() == b"held\n"

    def kill(self):
        self.process.kill()
        self.process.wait(DEADLINE_S)

    def release(self):
        self.process.communicate(timeout=DEADLINE_S)

    def close(self):
        if self.process.poll() is None:
            self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def holder(tmp_path):
    """It owns session `s` of the test's directory."""
    holder = Holder(tmp_path)
    yield holder
    holder.close()


def test_a_session_is_owned_by_one_process(tmp_path, holder):
    """The refusal names the other's pid and what to do."""
    with pytest.raises(SessionInUseError, match=rf"pid {holder.process.pid}\b") as caught:
        SessionLock(str(tmp_path), "s")
    assert caught.value.code == -32009
    SessionLock(str(tmp_path), "another").release()


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path, holder):
    """SIGKILL leaves the file, not the lock."""
    holder.kill()
    assert (tmp_path / "locks" / "s.lock").exists()
    lock = SessionLock(str(tmp_path), "s")
    assert str(os.getpid()) == (tmp_path / "locks" / "s.lock").read_text()
    lock.release()


def test_a_released_session_is_free(tmp_path, holder):
    """Nothing of it is left, and it can be owned again and again."""
    holder.release()
    assert [] == list((tmp_path / "locks").iterdir())
    for _ in range(3):
        lock = SessionLock(str(tmp_path), "s")
        lock.release()
        lock.release()
    assert [] == list((tmp_path / "locks").iterdir())


def test_a_second_lock_of_the_same_process_is_refused_too(tmp_path):
    """The registry asks the lock, and the lock does not count owners."""
    lock = SessionLock(str(tmp_path), "s")
    with pytest.raises(SessionInUseError):
        SessionLock(str(tmp_path), "s")
    lock.release()


def test_a_released_lock_leaves_the_next_owners_file_alone(tmp_path):
    """Releasing twice must not remove the file of whoever came after."""
    first = SessionLock(str(tmp_path), "s")
    first.release()
    second = SessionLock(str(tmp_path), "s")
    first.release()
    with pytest.raises(SessionInUseError):
        SessionLock(str(tmp_path), "s")
    second.release()


def test_of_many_that_come_and_go_one_owns_it(tmp_path):
    """Also while files are removed under those that open them: who has it keeps others out."""
    times = []

    def come_and_go():
        for _ in range(150):
            with contextlib.suppress(SessionInUseError):
                held = SessionLock(str(tmp_path), "s")
                try:
                    with pytest.raises(SessionInUseError):
                        SessionLock(str(tmp_path), "s")
                    times.append(True)
                finally:
                    held.release()

    together([come_and_go] * 6)
    assert times


def test_the_files_are_private(tmp_path):
    """Whatever the umask is."""
    before = os.umask(0)
    try:
        lock = SessionLock(str(tmp_path / "state"), "s")
    finally:
        os.umask(before)
    folder = tmp_path / "state" / "locks"
    assert 0o700 == stat.S_IMODE(folder.stat().st_mode)
    assert 0o600 == stat.S_IMODE((folder / "s.lock").stat().st_mode)
    lock.release()


def test_a_folder_that_cannot_be_used_is_a_store_error(tmp_path):
    """The message names the file and the reason."""
    (tmp_path / "locks").write_text("a file where the folder should be")
    with pytest.raises(StoreError, match="s.lock"):
        SessionLock(str(tmp_path), "s")


def test_a_lock_needs_no_space_on_the_disk(tmp_path):
    """The pid in it is for people; without it the session is owned, and freed, all the same."""
    (tmp_path / "locks").mkdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        lock = SessionLock(str(tmp_path), "s")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    # Linux tells whose lock it is, another system nobody's.
    with pytest.raises(SessionInUseError, match=rf"pid ({os.getpid()}|unknown)\)"):
        SessionLock(str(tmp_path), "s")
    assert "" == (tmp_path / "locks" / "s.lock").read_text()
    lock.release()
    SessionLock(str(tmp_path), "s").release()
