"""
Spec section 10: many processes on one store, one owner a session.

`scripts/soak/two_processes.py` does the same at length.
"""

from __future__ import annotations

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
