"""
Spec section 10: many processes on one store, one owner a session.

`scripts/soak/two_processes.py` does the same at length.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

from tests.harness.messages import agent_text
from tests.harness.shared_store import IN_USE, SharedStore

RACES = 100


def test_of_two_processes_that_race_for_a_session_one_wins(start, project):
    """Always exactly one, and the other is told who."""
    racers = [start(), start()]
    for racer in racers:
        racer.initialize()
    session = racers[0].new_session(project)
    racers[0].still_works(session)
    racers[0].close_session(session)
    wins = [0, 0]
    for _ in range(RACES):
        replies = [racer.resume(session, project) for racer in racers]
        responses = [reply.response() for reply in replies]
        (winner,) = [n for n, response in enumerate(responses) if "result" in response]
        error = responses[1 - winner]["error"]
        assert IN_USE == error["code"]
        assert f"pid {racers[winner].process.pid}" in error["message"]
        racers[winner].close_session(session)
        wins[winner] += 1
    assert RACES == sum(wins)


def test_two_processes_share_a_store_without_losing_anything(tmp_path):
    """Prompts, cancels, resumes and lists at random; what one told, the other replays."""
    game = SharedStore(tmp_path)
    try:
        game.play(5.0)
        game.judge()
    finally:
        game.close()
    assert game.counts.prompts > 4
    assert game.counts.resumes > 4


def test_readers_and_a_writer_of_another_process_do_not_stop_a_session(client, session, home):
    """A turn runs while somebody reads; lists and replays go on while somebody writes."""
    project = home.project()
    client.still_works(session)
    with closing(sqlite3.connect(home.state / "term2" / "sessions.db")) as other:
        other.isolation_level = None
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM events").fetchall()
        for _ in range(3):
            client.still_works(session)
        other.execute("COMMIT")
        other.execute("BEGIN IMMEDIATE")
        assert session in str(client.request("session/list", {}).result())
        assert 8 == len(client.replay(session, project))
        # What has to write waits for its turn, until it is cancelled.
        reply = client.prompt(session, "/say never")
        client.sync()
        client.cancel(session)
        assert "another process" in reply.error()["message"]
        waiting = client.prompt(session, "/say at last")
        client.sync()
        other.execute("ROLLBACK")
        assert {} == waiting.result()
    client.wait_for(lambda: client.record.life(session).stop_reasons[4:], "the end of the turn")
    assert "at last" in agent_text(client.updates(session))
