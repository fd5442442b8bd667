"""Spec section 3: a prompt that waits holds nothing that another session needs."""

from __future__ import annotations


def test_eight_waiting_sessions_do_not_hinder_a_ninth(client, home):
    """With eight questions open another session prompts, cancels, lists, resumes and closes."""
    waiting = [client.new_session(home.project(f"p{number}")) for number in range(8)]
    for session in waiting:
        client.prompt(session, "/shell touch allowed").result()
    requests = [client.permissions.next() for _ in waiting]
    assert {request.session for request in requests} == set(waiting)
    ninth = client.new_session(home.project("p9"))
    client.still_works(ninth)
    client.prompt(ninth, "/sleep 600").result()
    client.cancel(ninth)
    assert client.wait_idle(ninth, timeout=5) == "cancelled"
    assert len(client.request("session/list").result()["sessions"]) == 9
    client.resume(ninth, home.project("p9"), replay=True).result()
    client.still_works(ninth)
    client.close_session(ninth)
    for session in waiting[:2]:
        client.cancel(session)
        assert client.wait_idle(session, timeout=5) == "cancelled"
    for request in requests:
        if request.session in waiting[2:]:
            client.permissions.answer(request, "approve")
    for session in waiting[2:]:
        assert client.wait_idle(session) == "end_turn"
    made = [(home.project(f"p{number}") / "allowed").exists() for number in range(8)]
    assert made == [False] * 2 + [True] * 6


def test_forty_sessions_wait_and_one_more_runs(client, home):
    """The number of waiting sessions does not matter: there is no small pool to fill."""
    project = home.project()
    waiting = [client.new_session(project) for _ in range(40)]
    for session in waiting:
        client.prompt(session, "/shell true").result()
    for _ in waiting:
        client.permissions.next()
    client.still_works(client.new_session(project))
    for session in waiting:
        client.cancel(session)
    for session in waiting:
        assert client.wait_idle(session) == "cancelled"
