"""The worker pool: no task waits while a thread may be started, and no bound is passed."""

from __future__ import annotations

import logging
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.rpc.workers import PoolFullError, WorkerPool
from tests.unit.doubles import DEADLINE_S, MOMENT_S


def nothing():
    """A task that is done at once."""


class Gate:
    """Tasks that say that they run, and then wait until they are let go."""

    def __init__(self):
        self.running = threading.Semaphore(0)
        self._open = threading.Event()

    def task(self):
        self.running.release()
        assert self._open.wait(DEADLINE_S)

    def wait_running(self, count):
        for _ in range(count):
            assert self.running.acquire(timeout=DEADLINE_S)

    def open(self):
        self._open.set()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=8))
def test_no_task_waits_while_a_thread_is_free_or_may_be_started(rounds):
    """
    As many tasks as threads are allowed all run at once.

    The threads of the round before are idle, or about to be, or just coming back.
    """
    pool = WorkerPool("test", max_threads=6, max_queued=6)
    for size in rounds:
        meeting = threading.Barrier(size + 1)
        for _ in range(size):
            pool.submit(lambda meeting=meeting: meeting.wait(DEADLINE_S))
        meeting.wait(DEADLINE_S)
    assert pool.join(DEADLINE_S)


def test_tasks_that_wait_for_each_other_all_run():
    """A pool as large as what can wait never starves what it waits for."""
    pool = WorkerPool("test", max_threads=40, max_queued=0)
    meeting = threading.Barrier(41)
    for _ in range(40):
        pool.submit(lambda: meeting.wait(DEADLINE_S))
    meeting.wait(DEADLINE_S)
    assert pool.join(DEADLINE_S)


def test_the_bounds_are_respected_and_what_waited_is_run():
    """With every thread taken, so many tasks wait and the next one is refused."""
    pool, gate, done = WorkerPool("test", max_threads=2, max_queued=3), Gate(), []
    for _ in range(2):
        pool.submit(gate.task)
    gate.wait_running(2)
    for number in range(3):
        pool.submit(lambda number=number: done.append(number))
    with pytest.raises(PoolFullError):
        pool.submit(nothing)
    gate.open()
    assert pool.join(DEADLINE_S)
    assert [0, 1, 2] == sorted(done)


def test_no_more_threads_run_than_allowed():
    """However fast tasks come, they share the threads."""
    pool = WorkerPool("bounded", max_threads=3, max_queued=500)
    lock, now, most, names = threading.Lock(), 0, 0, set()

    def task():
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
            names.add(threading.current_thread().name)
        with lock:
            now -= 1

    for _ in range(400):
        pool.submit(task)
    assert pool.join(DEADLINE_S)
    assert most <= 3
    assert len(names) <= 3
    assert all(name.startswith("term2-bounded-") for name in names)


def test_a_task_that_fails_takes_no_thread_with_it(caplog):
    """Its fault is logged and the thread goes on."""
    pool, done = WorkerPool("test", max_threads=1, max_queued=10), []

    def fail():
        raise ValueError("the fault of the task")

    with caplog.at_level(logging.ERROR):
        pool.submit(fail)
        pool.submit(lambda: done.append(True))
        assert pool.join(DEADLINE_S)
    assert [True] == done
    assert "the fault of the task" in caplog.text


def test_joining_waits_for_the_tasks():
    """It says whether all ended in time, and takes nothing in meanwhile."""
    pool, gate = WorkerPool("test", max_threads=2, max_queued=2), Gate()
    pool.submit(gate.task)
    gate.wait_running(1)
    assert not pool.join(MOMENT_S)
    with pytest.raises(PoolFullError):
        pool.submit(nothing)
    gate.open()
    assert pool.join(DEADLINE_S)


def test_a_joined_pool_has_no_threads():
    """Idle threads end with it."""
    pool = WorkerPool("leftover", max_threads=5, max_queued=5)
    meeting = threading.Barrier(6)
    for _ in range(5):
        pool.submit(lambda: meeting.wait(DEADLINE_S))
    meeting.wait(DEADLINE_S)
    assert pool.join(DEADLINE_S)
    leftover = [
        thread for thread in threading.enumerate() if thread.name.startswith("term2-leftover")
    ]
    for thread in leftover:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def test_a_task_that_has_a_thread_does_not_count_as_waiting():
    """With one thread and one place, two tasks are always taken."""
    for _ in range(300):
        pool = WorkerPool("test", max_threads=1, max_queued=1)
        try:
            pool.submit(nothing)
            pool.submit(nothing)
        finally:
            assert pool.join(DEADLINE_S)
