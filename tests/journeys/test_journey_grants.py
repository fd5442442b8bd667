"""Spec section 8: what asks, which choices are offered, and what a grant covers."""

from __future__ import annotations

import pytest


@pytest.fixture
def outside(pool):
    """An empty folder outside of the shared project."""
    folder = pool.home.root / "outside"
    folder.mkdir(exist_ok=True)
    for entry in folder.iterdir():
        entry.unlink()
    return folder


def test_an_edit_outside_asks_and_a_denial_leaves_nothing(shared, shared_session, outside):
    """Choices for the file and for the folder are offered; without an allow nothing is written."""
    proof = outside / "x.txt"
    shared.prompt(shared_session, f"/create {proof} <<text").result()
    request = shared.permissions.next()
    assert request.options == {
        "approve": "allow_once",
        "allow-edit-file-session": "allow_always",
        "allow-edit-folder-session": "allow_always",
        "reject": "reject_once",
    }
    shared.permissions.answer(request, "allow-folder-session")
    assert shared.wait_idle(shared_session) == "end_turn"
    assert list(shared.record.life(shared_session).calls.values()) == ["failed"]
    assert not proof.exists()
    shared.still_works(shared_session)


def test_a_read_grant_covers_its_folder_for_the_session_and_no_edit(
    shared, shared_session, outside, pool
):
    """allow-folder-session: siblings and later prompts do not ask, edits and others do."""
    (outside / "a.txt").write_text("secret a\n", encoding="utf-8")
    (outside / "b.txt").write_text("secret b\n", encoding="utf-8")
    sibling = pool.home.root / "outside-too"
    sibling.mkdir(exist_ok=True)
    (sibling / "c.txt").write_text("secret c\n", encoding="utf-8")
    (outside / "link.txt").symlink_to(sibling / "c.txt")
    shared.prompt(shared_session, f"/read {outside}/a.txt").result()
    request = shared.permissions.next()
    assert request.options == {
        "approve": "allow_once",
        "allow-folder-session": "allow_always",
        "reject": "reject_once",
    }
    shared.permissions.answer(request, "allow-folder-session")
    assert shared.wait_idle(shared_session) == "end_turn"
    asked = len(shared.permissions.requests)
    turn = shared.run(shared_session, f"/read {outside}/b.txt\n/read {outside}/a.txt")
    assert [call["status"] for call in turn.calls] == ["completed", "completed"]
    assert len(shared.permissions.requests) == asked
    for prompt in (
        f"/read {sibling}/c.txt",
        f"/read {outside}/link.txt",
        f"/read {outside}/../outside-too/c.txt",
        f"/create {outside}/new.txt <<x",
        f"/replace {outside}/a.txt secret => open",
    ):
        shared.prompt(shared_session, prompt).result()
        shared.permissions.answer(shared.permissions.next(), "reject")
        assert shared.wait_idle(shared_session) == "end_turn"
    assert not (outside / "new.txt").exists()
    assert (outside / "a.txt").read_text(encoding="utf-8") == "secret a\n"
    shared.close_session(shared_session)
    shared.resume(shared_session, pool.project).result()
    shared.prompt(shared_session, f"/read {outside}/a.txt").result()
    shared.permissions.answer(shared.permissions.next(), "reject")
    assert shared.wait_idle(shared_session) == "end_turn"


def test_an_edit_grant_for_a_file_covers_that_file_alone(shared, shared_session, outside):
    """allow-edit-file-session: the same file does not ask again, its neighbour does."""
    mine, other = outside / "mine.txt", outside / "other.txt"
    shared.prompt(shared_session, f"/create {mine} <<one").result()
    shared.permissions.answer(shared.permissions.next(), "allow-edit-file-session")
    assert shared.wait_idle(shared_session) == "end_turn"
    assert mine.read_text(encoding="utf-8") == "one\n"
    turn = shared.run(shared_session, f"/replace {mine} one => two")
    assert [call["status"] for call in turn.calls] == ["completed"]
    assert mine.read_text(encoding="utf-8") == "two\n"
    shared.prompt(shared_session, f"/create {other} <<x").result()
    shared.permissions.answer(shared.permissions.next(), "reject")
    assert shared.wait_idle(shared_session) == "end_turn"
    assert not other.exists()


def test_an_edit_grant_for_a_folder_covers_what_is_in_it(shared, shared_session, outside):
    """allow-edit-folder-session: neighbours do not ask, what a link leads to outside does."""
    (outside / "away").symlink_to(outside.parent)
    shared.prompt(shared_session, f"/create {outside}/1.txt <<one").result()
    shared.permissions.answer(shared.permissions.next(), "allow-edit-folder-session")
    assert shared.wait_idle(shared_session) == "end_turn"
    asked = len(shared.permissions.requests)
    shared.run(shared_session, f"/create {outside}/2.txt <<two")
    assert len(shared.permissions.requests) == asked
    assert (outside / "2.txt").exists()
    shared.prompt(shared_session, f"/create {outside}/away/3.txt <<x").result()
    shared.permissions.answer(shared.permissions.next(), "reject")
    assert shared.wait_idle(shared_session) == "end_turn"
    assert not (outside.parent / "3.txt").exists()


def test_a_protected_path_asks_though_it_is_inside(shared, shared_session, pool):
    """No grant is offered for it, and a denial leaves it as it was."""
    for relative in (".envrc", ".github/workflows/x.yml", ".git/hooks/pre-commit"):
        shared.prompt(shared_session, f"/create {relative} <<x").result()
        request = shared.permissions.next()
        assert request.options == {"approve": "allow_once", "reject": "reject_once"}
        shared.permissions.answer(request, "reject")
        assert shared.wait_idle(shared_session) == "end_turn"
        assert not (pool.project / relative).exists()


def test_what_stays_inside_does_not_ask(shared, shared_session, pool):
    """Reads, searches and edits in the workspace run without a question."""
    asked = len(shared.permissions.requests)
    (pool.project / "new.txt").unlink(missing_ok=True)
    turn = shared.run(
        shared_session,
        "/read README.md\n/grep tea\n/create new.txt <<x\n/replace new.txt x => y",
    )
    assert [call["status"] for call in turn.calls] == ["completed"] * 4
    assert len(shared.permissions.requests) == asked
