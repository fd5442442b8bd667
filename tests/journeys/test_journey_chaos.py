"""Many sessions, many threads, random order: the client's own rules are the test."""

from __future__ import annotations

import random
import threading

from tests.harness.client import Client

SESSIONS = 6
ROUNDS = 25
PROMPTS = (
    "/say quick",
    "/sleep 600",
    "/say a\n/read README.md\n/say b",
    "/shell true",
    "/create {n}.txt <<x\n/replace {n}.txt x => y",
    "hello",
    "/fail",
)


def play(client: Client, session: str, cwd: str, dice: random.Random) -> None:
    """Use one session as an impatient user would."""
    for n in range(ROUNDS):
        reply = client.prompt(session, dice.choice(PROMPTS).format(n=n))
        action = dice.randrange(6)
        if action == 0:
            client.resume(session, cwd, replay=dice.random() < 0.5).result()
        elif action == 1:
            client.prompt(session, "/say second").response()
        elif action == 2:
            client.request("session/list", {}).result()
        elif action == 3:
            client.request("session/close", {"sessionId": session}).result()
            reply.response()
            client.resume(session, cwd).result()
        # Whatever it does, it is over after this.
        client.cancel(session)
        client.wait_for(
            lambda r=reply: r.done and client.record.life(session).phase == "idle",
            "the end of a turn",
        )


def test_sessions_used_at_random_never_break_a_rule(client, home):
    """Prompts, cancels, resumes, closes and answers from many threads: every line is right."""
    dice = random.Random(7)  # noqa: S311 (it plays)
    projects = [str(home.project(f"p{number}")) for number in range(SESSIONS)]
    client.permissions.policy = lambda _request: dice.choice(["approve", "reject", "x"])
    sessions = [client.new_session(project) for project in projects]
    faults: list[BaseException] = []

    def run(session: str, project: str, seed: int) -> None:
        try:
            play(client, session, project, random.Random(seed))  # noqa: S311 (it plays)
        except BaseException as fault:  # noqa: BLE001 (it is raised on the test's thread)
            faults.append(fault)

    threads = [
        threading.Thread(target=run, args=(session, project, number), name=f"player-{number}")
        for number, (session, project) in enumerate(zip(sessions, projects, strict=True))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    if faults:
        raise faults[0]
    client.permissions.policy = None
    for session in sessions:
        reasons = client.record.life(session).stop_reasons
        before = len(reasons)
        client.prompt(session, "/say still here").result()
        client.wait_for(lambda r=reasons, n=before: len(r) > n, "the last turn")
        assert reasons[-1] == "end_turn"
        assert set(reasons) <= {"end_turn", "cancelled", "_term2_error"}
