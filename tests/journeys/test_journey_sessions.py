"""Spec section 5: session/new and session/list."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest

PAGE = 50


def listed(client, **params):
    """The result of session/list."""
    return client.request("session/list", params).result()


def ids(result):
    """The session ids of a list, in its order."""
    return [info["sessionId"] for info in result["sessions"]]


@pytest.mark.parametrize(
    "cwd",
    [
        "",
        ".",
        "relative/path",
        "~",
        "/no/such/directory",
        "/\u0000",
        "/" + "x" * 5000,
        "/",
        "//",
        "/etc",
        "/etc/../etc/",
        "/proc",
        "/proc/self",
        "/sys",
        "/dev",
        "/run",
        "/bin",
        "/usr/bin",
        "/usr/lib",
        "/sbin",
    ],
)
def test_a_working_directory_that_is_none_or_the_system_s_is_refused(shared, shared_session, cwd):
    """Relative, missing, and system directories are -32602 and named."""
    error = shared.request("session/new", {"cwd": cwd}).error()
    assert error["code"] == -32602
    assert "cwd" in f"{error['message']} {error.get('data', '')}"
    shared.still_works(shared_session)


def test_the_home_and_the_program_s_own_folders_are_refused(client, home, project):
    """HOME, what contains it, and what touches state or configuration is no workspace."""
    inside = home.state / "term2" / "inside"
    inside.mkdir(parents=True, exist_ok=True)
    (home.config / "term2").mkdir(exist_ok=True)
    link = home.root / "link"
    link.symlink_to("/etc")
    loop = home.root / "loop"
    loop.symlink_to(loop)
    for cwd in (
        home.path,
        f"{home.path}/.",
        home.root,
        home.root.parent,
        home.state,
        home.state / "term2",
        inside,
        home.config / "term2",
        home.config,
        link,
        loop,
        project / "README.md",
    ):
        error = client.request("session/new", {"cwd": str(cwd)}).error()
        assert error["code"] == -32602, cwd
        assert "cwd" in f"{error['message']} {error.get('data', '')}"
    below_home = home.path / "code"
    below_home.mkdir()
    client.still_works(client.new_session(below_home))


def test_a_working_directory_is_canonicalized(client, project):
    """Links, dots and slashes lead to one real path, which the list shows."""
    link = project.parent / "link"
    link.symlink_to(project)
    for spelling in (link, f"{project}/", f"{project}/src/..", f"//{str(project).lstrip('/')}"):
        client.still_works(client.new_session(spelling))
    result = listed(client)
    assert {info["cwd"] for info in result["sessions"]} == {str(project)}
    assert len(result["sessions"]) == 4
    assert ids(listed(client, cwd=str(link))) == ids(result)


def test_sessions_past_the_limit_are_refused_until_one_closes(start, home, project):
    """max_sessions bounds the live sessions of a process: -32010 beyond it."""
    home.configure("max_sessions = 2\n")
    client = start()
    client.initialize()
    first, second = client.new_session(project), client.new_session(project)
    assert client.request("session/new", {"cwd": str(project)}).code() == -32010
    client.still_works(first)
    client.close_session(first)
    third = client.new_session(project)
    assert client.resume(first, project).code() == -32010
    client.still_works(second)
    client.still_works(third)


def test_the_list_shows_sessions_with_a_prompt_newest_first(client, home, project):
    """Sessions without a prompt are left out; activity moves a session to the front."""
    other = home.project("other")
    first, second = client.new_session(project), client.new_session(other)
    client.new_session(project)
    assert listed(client) == {"sessions": []}
    client.run(first, "/say one")
    client.run(second, "/say two")
    assert ids(listed(client)) == [second, first]
    client.run(first, "/say three")
    assert ids(listed(client)) == [first, second]
    assert ids(listed(client, cwd=str(other))) == [second]
    assert ids(listed(client, cwd=None, cursor=None)) == [first, second]
    client.close_session(first)
    assert ids(listed(client)) == [first, second]
    now = datetime.now(UTC)
    for info in listed(client)["sessions"]:
        assert abs(now - datetime.fromisoformat(info["updatedAt"])) < timedelta(minutes=10)


def test_a_title_is_the_first_message_in_one_short_line(client, project):
    """The title comes from the first user message, is one line of at most 256 characters, stays."""
    session = client.new_session(project)
    turn = client.run(session, "  /say hello\n\n\tsecond   line " + "long " * 100)
    titles = [u.body["title"] for u in turn.updates if u.kind == "session_info_update"]
    (info,) = listed(client)["sessions"]
    assert titles[-1] == info["title"]
    assert info["title"].startswith("/say hello")
    assert len(info["title"]) <= 256
    assert info["title"].splitlines() == [info["title"]]
    client.run(session, "/say something else")
    assert listed(client)["sessions"][0]["title"] == info["title"]


def test_pages_are_disjoint_and_stable_while_sessions_are_added(client, project):
    """50 a page; a cursor goes on where the page ended, also after new sessions came."""
    made = []
    for number in range(PAGE + 5):
        made.append(client.new_session(project))
        client.run(made[-1], f"/say {number}")
        if number % 20 == 19:
            for session in made[-20:]:
                client.close_session(session)
    expected = made[::-1]
    first = listed(client)
    assert ids(first) == expected[:PAGE]
    late = client.new_session(project)
    client.run(late, "/say late")
    second = listed(client, cursor=first["nextCursor"])
    assert ids(second) == expected[PAGE:]
    assert second.get("nextCursor") is None
    assert ids(listed(client)) == [late, *expected[: PAGE - 1]]
    cursor = first["nextCursor"]
    middle = len(cursor) // 2
    other = "A" if cursor[middle] != "A" else "B"
    for wrong in (
        "",
        "x",
        cursor[:-1],
        cursor[1:],
        cursor[:middle],
        cursor + "A",
        cursor[:middle] + other + cursor[middle + 1 :],
        cursor.swapcase(),
        made[0],
        "0",
        "\ufffd" * 3,
        "A" * 100_000,
    ):
        error = client.request("session/list", {"cursor": wrong}).error()
        assert error["code"] == -32602, wrong[:100]
        assert "cursor" in f"{error['message']} {error.get('data', '')}"
    assert ids(listed(client, cursor=cursor)) == expected[PAGE:]


def test_state_is_private_to_the_user(client, session, home):
    """What is kept of a session is readable by its owner alone."""
    client.still_works(session)
    for folder, inner, files in os.walk(home.state / "term2"):
        assert os.stat(folder).st_mode & 0o077 == 0, folder
        if os.path.basename(folder) == "sandbox":
            # Below it is what the sandbox shows as /tmp, with the modes that /tmp has.
            inner.clear()
        for name in files:
            assert os.stat(os.path.join(folder, name)).st_mode & 0o077 == 0, name
