"""Spec section 7: apply_patch through the real program; the file system is the proof."""

from __future__ import annotations

import json

import pytest

from tests.models.steps import Call, ScriptedStep


@pytest.fixture(name="patch")
def _patch(lent_chat, open_session):
    """Run a turn in which the model calls apply_patch: `patch(operations, answer)`."""
    client, session = open_session(lent_chat.client)
    chat = lent_chat.service

    def patch(operations, *answers):
        chat.step(ScriptedStep(calls=(Call.of("apply_patch", operations=operations),)))
        chat.step(ScriptedStep(text="Done."))
        client.permissions.forget()
        wanted = list(answers)
        before = len(client.permissions.requests)
        client.permissions.policy = lambda _request: wanted.pop(0)
        turn = client.run(session, "please")
        assert turn.stop_reason == "end_turn"
        turn_calls = turn.calls
        assert len(turn_calls) == 1
        told = chat.requests[-1].body["messages"][-1]["content"]
        return turn_calls[0], told, client.permissions.requests[before:]

    return patch


def snapshot(folder):
    """Every file below a folder and its bytes."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_several_files_change_in_one_call(patch, project):
    """Created, updated with wrong numbers, and deleted; shown as one diff with locations."""
    (project / "a.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    (project / "b.txt").write_text("gone\n")
    call, told, asked = patch(
        [
            {"type": "update_file", "path": "a.txt", "diff": "@@ -90,2 +1 @@\n two\n-three\n+3\n"},
            {"type": "create_file", "path": "new/c.txt", "diff": "+c\n"},
            {"type": "delete_file", "path": "b.txt", "diff": ""},
        ]
    )
    assert (call["status"], call["kind"], asked) == ("completed", "edit", [])
    assert "updated a.txt (1 hunk), created new/c.txt, deleted b.txt" in told
    assert (project / "a.txt").read_bytes() == b"one\r\ntwo\r\n3\r\n"
    assert (project / "new/c.txt").read_text() == "c\n"
    assert not (project / "b.txt").exists()
    (diff,) = call["content"]
    assert diff["type"] == "diff"
    assert len(diff["changes"]) == 3
    patch_text = json.dumps(diff)
    for part in (f"--- {project}/a.txt", "new file mode", "deleted file mode", "/dev/null"):
        assert part in patch_text
    assert call["locations"][0] == {"path": str(project / "a.txt"), "line": 3}


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"type": "update_file", "path": "a.txt", "diff": "-nine\n+9\n"}, "hunk 1 does not fit"),
        ({"type": "update_file", "path": "a.txt", "diff": "-same\n+9\n"}, "lines 2, 4"),
        ({"type": "update_file", "path": "none", "diff": "-a\n+b\n"}, "there is no file none"),
        ({"type": "create_file", "path": "a.txt", "diff": "+a\n"}, "exists already"),
        ({"type": "delete_file", "path": "none"}, "there is no file none"),
        ({"type": "move_file", "path": "a.txt", "diff": ""}, 'must be one of "create_file"'),
        ({"type": "update_file", "path": 1, "diff": ""}, "path must be a string"),
        ({"path": "a.txt", "diff": ""}, "type is missing"),
    ],
)
def test_one_bad_operation_leaves_all_files_alone(patch, project, bad, told):
    """The call fails and says which and why; the turn goes on."""
    (project / "a.txt").write_text("one\nsame\ntwo\nsame\n")
    (project / "z.txt").write_text("z\n")
    before = snapshot(project)
    good = [
        {"type": "create_file", "path": "made/n.txt", "diff": "+n\n"},
        {"type": "update_file", "path": "z.txt", "diff": "-z\n+Z\n"},
    ]
    call, answer, asked = patch([*good, bad])
    assert call["status"] == "failed"
    assert "operations[2]" in answer or "a.txt" in answer
    assert told in answer
    assert asked == []
    assert snapshot(project) == before


def test_one_question_for_all_files_that_need_one(patch, project):
    """Protected and outside paths ask once for the call; a denial touches none."""
    outside = project.parent / "outside.txt"
    outside.write_text("out\n")
    (project / ".env").write_text("A=1\n")
    operations = [
        {"type": "create_file", "path": "free.txt", "diff": "+free\n"},
        {"type": "update_file", "path": ".env", "diff": "-A=1\n+A=2\n"},
        {"type": "delete_file", "path": str(outside)},
    ]
    before = snapshot(project.parent)
    call, answer, asked = patch(operations, "reject")
    assert (call["status"], len(asked)) == ("failed", 1)
    assert "denied" in answer
    assert snapshot(project.parent) == before
    # What a grant must not cover is among them, so only this once can be allowed.
    assert asked[0].options == {"approve": "allow_once", "reject": "reject_once"}
    assert {place["path"] for place in asked[0].tool_call["locations"]} == {
        str(project / "free.txt"),
        str(project / ".env"),
        str(outside),
    }
    call, _, asked = patch(operations, "approve")
    assert (call["status"], len(asked)) == ("completed", 1)
    assert (project / ".env").read_text() == "A=2\n"
    assert (project / "free.txt").read_text() == "free\n"
    assert not outside.exists()


def test_a_folder_grant_covers_later_patches_there(patch, project):
    """Of files outside in one folder, and of no other folder."""
    for name in ("o/one", "o/two", "p/one"):
        path = project.parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x\n")
    update = [
        {"type": "update_file", "path": f"../o/{name}", "diff": "-x\n+y\n"}
        for name in ("one", "two")
    ]
    _, _, asked = patch(update, "allow-edit-folder-session")
    assert "allow-edit-folder-session" in asked[0].options
    _, _, asked = patch([{"type": "create_file", "path": "../o/three", "diff": "+z\n"}])
    assert asked == []
    call, _, asked = patch(
        [{"type": "update_file", "path": "../p/one", "diff": "-x\n+y\n"}], "reject"
    )
    assert (call["status"], len(asked)) == ("failed", 1)
    assert (project.parent / "o/three").read_text() == "z\n"
    assert (project.parent / "p/one").read_text() == "x\n"


def test_a_file_that_changed_since_it_was_patched_is_left_alone(patch, project):
    """Somebody else's change is not overwritten, although the hunk would fit."""
    (project / "a.txt").write_text("a\nb\n")
    patch([{"type": "update_file", "path": "a.txt", "diff": "-a\n+A\n"}])
    (project / "a.txt").write_text("A\nb\nmine\n")
    call, answer, _ = patch([{"type": "update_file", "path": "a.txt", "diff": "-b\n+B\n"}])
    assert call["status"] == "failed"
    assert "changed by somebody else" in answer
    assert (project / "a.txt").read_text() == "A\nb\nmine\n"


def test_an_edit_does_not_reach_a_name_outside_of_the_workspace(patch, project):
    """As a package store is linked from a workspace; names inside show the edit."""
    store = project.parent / "store"
    store.write_text("a\n")
    store.chmod(0o755)
    (project / "linked").hardlink_to(store)
    call, told, asked = patch([{"type": "update_file", "path": "linked", "diff": "-a\n+b\n"}])
    assert (call["status"], asked) == ("completed", [])
    assert [store.read_text(), (project / "linked").read_text()] == ["a\n", "b\n"]
    assert (project / "linked").stat().st_mode == store.stat().st_mode
    assert "linked had other names (hard links) that this call may not edit" in told
    (project / "two").hardlink_to(project / "linked")
    _, told, _ = patch([{"type": "update_file", "path": "two", "diff": "-b\n+c\n"}])
    assert (project / "linked").read_text() == "c\n"
    assert "hard links" not in told
    # Nor a protected name inside.
    (project / ".envrc").hardlink_to(project / "two")
    patch([{"type": "update_file", "path": "two", "diff": "-c\n+d\n"}])
    assert [(project / name).read_text() for name in ("two", ".envrc")] == ["d\n", "c\n"]
