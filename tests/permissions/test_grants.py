"""Spec section 8: what a lasting allow covers, and what it never covers, through the program."""

from __future__ import annotations

import pytest

from tests.models.steps import Call
from tests.permissions.stage import Stage

ONCE = {"approve", "reject"}
EDIT_LASTING = {*ONCE, "allow-edit-file-session", "allow-edit-folder-session"}
READ, EDIT_FILE, EDIT_FOLDER = (
    "allow-folder-session",
    "allow-edit-file-session",
    "allow-edit-folder-session",
)


def read(path):
    return Call.of("read_file", path=str(path))


def create(path, content="made"):
    return Call.of("create_file", path=str(path), content=content)


def patch(*paths):
    operations = [{"type": "create_file", "path": str(path), "diff": "+made"} for path in paths]
    return Call.of("apply_patch", operations=operations)


def grant(stage, session, call, choice):
    """Give a lasting allow for a call."""
    played = stage.play(session, call, answers=choice)
    assert (played.status, len(played.asked)) == ("completed", 1), played


def test_a_grant_survives_prompts_and_not_the_session(stage):
    """Neither a close with a resume, nor another session, has it."""
    session, work = stage.workspace()
    outside = stage.folder()
    (outside / "a").write_text("text")
    grant(stage, session, read(outside / "a"), READ)
    for _ in range(2):
        assert stage.play(session, read(outside / "a")).status == "completed"
    other, _ = stage.workspace()
    assert stage.play(other, read(outside / "a"), answers="reject").options == {*ONCE, READ}
    stage.client.close_session(session)
    stage.client.resume(session, work).result()
    assert stage.play(session, read(outside / "a"), answers="reject").options == {*ONCE, READ}


def test_a_grant_is_not_stored(tmp_path):
    """A new process asks again, in the same session."""
    stage = Stage(tmp_path)
    session, work = stage.workspace()
    outside = stage.folder()
    grant(stage, session, create(outside / "a"), EDIT_FOLDER)
    stage.client.close()
    stage.client = type(stage.client)(stage.home)
    stage.client.initialize()
    stage.client.resume(session, work).result()
    played = stage.play(session, create(outside / "b"), answers="reject")
    assert (played.options, (outside / "b").exists()) == (EDIT_LASTING, False)
    stage.close()


def test_a_folder_is_the_parent_of_the_target_and_all_below(stage):
    """For the folder itself as a target, too: then it is the folder that holds it."""
    session, _work = stage.workspace()
    outside = stage.folder()
    grant(stage, session, create(outside / "a" / "x"), EDIT_FOLDER)
    free = [create(outside / "a" / "y"), create(outside / "a" / "deep" / "z")]
    assert stage.play(session, *free).statuses == ["completed"] * 2
    up = stage.play(session, create(outside / "b"), answers="reject")
    assert (up.options, (outside / "b").exists()) == (EDIT_LASTING, False)
    (outside / "sub").mkdir()
    (outside / "beside").write_text("told")
    grant(stage, session, Call.of("glob", pattern="*", path=str(outside / "sub")), READ)
    assert "told" in stage.play(session, read(outside / "beside")).result


def test_an_edit_grant_allows_no_read_and_a_read_grant_no_edit(stage):
    """The mode counts; a file's grant is for that file alone."""
    session, _work = stage.workspace()
    outside, other = stage.folder(), stage.folder()
    (other / "told").write_text("told")
    grant(stage, session, create(outside / "a"), EDIT_FOLDER)
    assert stage.play(session, read(outside / "a"), answers="reject").options == {*ONCE, READ}
    grant(stage, session, read(other / "told"), READ)
    for call in (create(other / "made"), patch(other / "made")):
        played = stage.play(session, call, answers="reject")
        assert (played.options, (other / "made").exists()) == (EDIT_LASTING, False)
    third = stage.folder()
    grant(stage, session, create(third / "a"), EDIT_FILE)
    (third / "a").unlink()
    assert stage.play(session, create(third / "a")).status == "completed"
    for path in (third / "b", third / "a.b", third / "ab"):
        played = stage.play(session, create(path), answers="reject")
        assert (played.options, path.exists()) == (EDIT_LASTING, False)


def test_a_grant_covers_no_path_that_only_looks_inside(stage):
    """Through a link to a file or a folder, by `..`, in a folder of a like name."""
    session, work = stage.workspace()
    granted, away = stage.folder(), stage.folder("away")
    sibling = granted.with_name(granted.name + "-x")
    sibling.mkdir()
    for folder in (away, sibling):
        (folder / "told").write_text("told")
    (granted / "file-link").symlink_to(away / "told")
    (granted / "folder-link").symlink_to(away)
    (granted / "to-home").symlink_to(work)
    grant(stage, session, create(granted / "a"), EDIT_FOLDER)
    grant(stage, session, read(granted / "a"), READ)
    for path in (
        granted / "file-link",
        granted / "folder-link" / "told",
        f"{granted}/../{away.name}/told",
        f"{granted}/./../{sibling.name}/told",
        f"{granted}-x/told",
        f"/proc/self/root{away}/told",
    ):
        played = stage.play(session, read(path), answers="reject")
        assert played.options == {*ONCE, READ}, path
        assert "told" not in played.result.replace(str(path), "")
        edit = Call.of(
            "search_replace",
            path=str(path),
            replacements=[{"search_content": "told", "replace_content": "changed"}],
        )
        assert stage.play(session, edit, answers="reject").options == EDIT_LASTING, path
    for path in (granted / "folder-link" / "new", f"{granted}/folder-link/../{sibling.name}/new"):
        assert stage.play(session, create(path), answers="reject").options == EDIT_LASTING, path
    assert {f.read_text() for f in (away / "told", sibling / "told")} == {"told"}
    assert not (away / "new").exists()
    assert not (sibling / "new").exists()
    # A path that only looks outside is inside.
    assert stage.play(session, create(granted / "to-home" / "in")).status == "completed"
    assert (work / "in").exists()


def test_a_grant_follows_the_real_path_and_not_the_name(stage):
    """A granted folder that is replaced by a link is not what was granted."""
    session, _work = stage.workspace()
    granted, away = stage.folder(), stage.folder("away")
    grant(stage, session, create(granted / "a"), EDIT_FOLDER)
    granted.rename(granted.with_name(granted.name + "-moved"))
    granted.symlink_to(away)
    played = stage.play(session, create(granted / "b"), answers="reject")
    assert (played.options, (away / "b").exists()) == (EDIT_LASTING, False)


def test_several_targets_are_granted_only_with_one_parent(stage):
    """One question a call; those inside do not count, a protected one spoils it."""
    session, work = stage.workspace()
    one, two = stage.folder(), stage.folder()
    for paths, options in (
        ([one / "a", two / "b"], ONCE),
        ([one / "a", one / "sub" / "b"], ONCE),
        ([one / "a", work / ".envrc"], ONCE),
        ([one / "a", stage.home.path / ".ssh" / "x"], ONCE),
        ([one / "a", one / ".git" / "config"], ONCE),
        ([one / "a", one / "b", work / "in"], EDIT_LASTING),
    ):
        played = stage.play(session, patch(*paths), answers="reject")
        assert [set(request.options) for request in played.asked] == [options], paths
        assert not any(path.exists() for path in paths)
    grant(stage, session, patch(one / "a", one / "b", work / "in"), EDIT_FILE)
    assert all(path.exists() for path in (one / "a", one / "b", work / "in"))
    assert stage.play(session, create(one / "c"), answers="reject").options == EDIT_LASTING
    assert stage.play(session, patch(one / "d", two / "d"), answers="reject").options == ONCE


def test_a_grant_covers_no_store_and_no_protected_path(stage):
    """Also where the granted folder holds them, also for searches that pass by."""
    session, work = stage.workspace()
    home = stage.home.path
    (home / "notes").write_text("needle here\n")
    for name in (".ssh", ".aws", ".config/gh"):
        (home / name).mkdir(parents=True, exist_ok=True)
        (home / name / "secret").write_text("needle in the store\n")
    (home / ".netrc").write_text("needle in the store\n")
    (home / "link").symlink_to(home / ".ssh")
    grant(stage, session, read(home / "notes"), READ)
    grant(stage, session, create(home / "made"), EDIT_FOLDER)
    found = stage.play(session, Call.of("grep", pattern="needle", path=str(home)), answers=READ)
    assert "needle here" in found.result
    assert "store" not in found.result
    names = stage.play(session, Call.of("glob", pattern="**/*secret*", path=str(home)))
    assert "Nothing" in names.result
    stores = [
        home / ".ssh/secret",
        home / "link/secret",
        home / ".netrc",
        home / ".config/gh/secret",
    ]
    stores += [stage.home.config / "term2/config.toml", stage.home.state / "term2/sessions.db"]
    for path in stores:
        played = stage.play(session, read(path), answers="reject")
        assert (played.options, "needle" in played.result) == (ONCE, False), path
        edit = stage.play(session, create(path), answers="reject")
        assert edit.options == ONCE, path
    for path in (home / ".envrc", home / "p/.git/hooks/x", home / ".bashrc"):
        played = stage.play(session, create(path), answers="reject")
        assert (played.options, path.exists()) == (ONCE, False), path
    assert stage.play(session, create(work / ".env"), answers="reject").options == ONCE


def test_an_approved_search_passes_by_what_links_lead_to(stage):
    """Approved for once, it stays in its folder; so does one of the workspace."""
    session, work = stage.workspace()
    searched, away = stage.folder(), stage.folder("away")
    (searched / "here").write_text("needle\n")
    (away / "told").write_text("needle told\n")
    for folder in (searched, work):
        (folder / "file-link").symlink_to(away / "told")
        (folder / "folder-link").symlink_to(away)
    for path, answer in ((searched, "approve"), (work, "")):
        call = Call.of("grep", pattern="needle", path=str(path), no_ignore=True)
        assert "told" not in stage.play(session, call, answers=answer).result
        listed = Call.of("glob", pattern="**", path=str(path))
        assert "link" not in stage.play(session, listed, answers=answer).result


@pytest.mark.parametrize("answer", ["unsandboxed-once", "allow-remember", "reject_always", READ])
def test_a_choice_that_was_not_offered_is_no_choice(stage, answer):
    """It denies, and grants nothing."""
    session, _work = stage.workspace()
    outside = stage.folder()
    for _ in range(2):
        played = stage.play(session, create(outside / "a"), answers=answer)
        assert (played.status, played.options) == ("failed", EDIT_LASTING)
    assert not (outside / "a").exists()


def test_a_denied_call_is_told_to_the_model_and_the_turn_goes_on(stage):
    """The next call of the turn runs."""
    session, work = stage.workspace()
    outside = stage.folder()
    played = stage.play(session, create(outside / "a"), create("b"), answers="reject")
    assert played.statuses == ["failed", "completed"]
    assert "The user denied this call" in played.results[0]
    assert (played.stop_reason, (work / "b").exists()) == ("end_turn", True)
