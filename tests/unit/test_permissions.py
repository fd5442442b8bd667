"""Who may do what: every case of the table, and no grant that reaches further than it says."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import unicodedata
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from term2_acp.agent.ports import Access, AccessMode, CallPlan, ToolError
from term2_acp.permissions import Choice, Grants, Permissions, choice_of, is_within
from term2_acp.workspace import Workspace

READ, EDIT = AccessMode.READ, AccessMode.EDIT
HOME = "/home/user"
ROOT = "/home/user/project"
PRIVATE = ("/home/user/.local/state/term2", "/srv/config/term2")

ONCE = (Choice.APPROVE, Choice.REJECT)
LASTING_READ = (Choice.APPROVE, Choice.ALLOW_FOLDER, Choice.REJECT)
LASTING_EDIT = (
    Choice.APPROVE,
    Choice.ALLOW_EDIT_FILE,
    Choice.ALLOW_EDIT_FOLDER,
    Choice.REJECT,
)

PLAIN_INSIDE = [
    ROOT,
    f"{ROOT}/main.py",
    f"{ROOT}/deep/er/main.py",
    f"{ROOT}/.github/CODEOWNERS",
    f"{ROOT}/workflows/x.yml",
    f"{ROOT}/a/.github/other/workflows",
    f"{ROOT}/.environment",
    f"{ROOT}/.gitignore",
    f"{ROOT}/env",
    f"{ROOT}/git/config",
    f"{ROOT}/.ssh/id",
    f"{ROOT}/.profile.d",
    f"{ROOT}/.config/gh",
]
PROTECTED_NAMES = [
    ".git",
    ".git/hooks/pre-commit",
    ".git/config",
    ".git/config.worktree",
    ".git/modules/sub/config",
    ".git/worktrees/w/hooks/x",
    ".git/HEAD",
    ".github/workflows",
    ".github/workflows/ci.yml",
    ".vscode/tasks.json",
    ".idea/x",
    ".claude/settings.json",
    ".cursor/rules",
    ".gitmodules",
    ".gitconfig",
    ".mcp.json",
    ".ripgreprc",
    ".envrc",
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".env",
    ".env.local",
    ".env.example",
    ".env/x",
]
PROTECTED_INSIDE = [f"{ROOT}/{name}" for name in PROTECTED_NAMES] + [
    f"{ROOT}/vendor/deep/{name}" for name in PROTECTED_NAMES
]
CREDENTIAL_FOLDERS = [
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".config/gcloud",
    ".config/gh",
]
PLAIN_OUTSIDE = [
    "/data/file",
    "/",
    "/etc/passwd",
    HOME,
    f"{HOME}/notes",
    f"{ROOT}-sibling/main.py",
    f"{ROOT}x",
    "/home/user-other/.sshd",
    f"{HOME}/.sshx/id",
    f"{HOME}/.config/github",
    f"{HOME}/.config",
    "/home/other/.ssh/id",
    f"{HOME}/.local/state/term2-other",
    "/srv/config",
]
CREDENTIALS = [
    *(f"{HOME}/{name}{below}" for name in CREDENTIAL_FOLDERS for below in ("", "/x", "/x/y")),
    *(f"{HOME}/{name}" for name in (".netrc", ".npmrc", ".pypirc", ".git-credentials")),
    *PRIVATE,
    f"{PRIVATE[0]}/sessions.db",
    f"{PRIVATE[1]}/config.toml",
]
PLACES = {
    "inside": PLAIN_INSIDE,
    "protected": PROTECTED_INSIDE,
    "outside": PLAIN_OUTSIDE,
    "credential": CREDENTIALS,
}


def grant_none(grants, path):
    """Nothing was granted."""


def grant_all_reads(grants, path):
    """The folder of the target, and the whole tree, for reads."""
    for target in (path, "/any"):
        grants.add(Choice.ALLOW_FOLDER, [Access(target, READ)])


def grant_the_file(grants, path):
    """Edits of the very target."""
    grants.add(Choice.ALLOW_EDIT_FILE, [Access(path, EDIT)])


def grant_all_edits(grants, path):
    """The whole tree for edits."""
    grants.add(Choice.ALLOW_EDIT_FOLDER, [Access("/any", EDIT)])


GRANTS = [grant_none, grant_all_reads, grant_the_file, grant_all_edits]


def expected(mode, place, grant):
    """The table of spec section 8."""
    if place == "credential":
        return ONCE
    if place == "protected":
        return ONCE if mode is EDIT else ()
    if place == "inside":
        return ()
    if mode is READ:
        return () if grant is grant_all_reads else LASTING_READ
    return () if grant in (grant_the_file, grant_all_edits) else LASTING_EDIT


def rules():
    """The permissions of a session without grants."""
    return Permissions(ROOT, PRIVATE, HOME)


@pytest.mark.parametrize("mode", [READ, EDIT])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("grant", GRANTS)
def test_what_is_asked_and_offered_for_each_target(mode, place, grant):
    """Every kind of access to every kind of place under every kind of grant."""
    for path in PLACES[place]:
        permissions = rules()
        grant(permissions.grants, path)
        judgement = permissions.judge(CallPlan("x", (Access(path, mode),)))
        assert expected(mode, place, grant) == judgement.options, path
        assert judgement.asks == bool(judgement.options)


@pytest.mark.parametrize("grant", GRANTS)
@pytest.mark.parametrize("path", [None, f"{ROOT}/main.py", "/data/file"])
def test_a_program_asks_every_time(grant, path):
    """No grant and no place makes it free, and nothing lasting is offered."""
    permissions = rules()
    grant(permissions.grants, path or "/any")
    accesses = () if path is None else (Access(path, READ),)
    judgement = permissions.judge(CallPlan("x", accesses, executes=True))
    assert ONCE == judgement.options
    assert () == judgement.outside


def test_a_call_that_reaches_nothing_is_free():
    """A plan is such a call."""
    assert not rules().judge(CallPlan("x")).asks


@pytest.mark.parametrize(
    ("accesses", "options"),
    [
        ([("/data/a", READ), ("/data/b", READ)], LASTING_READ),
        ([("/data/a", EDIT), ("/data/b", EDIT)], LASTING_EDIT),
        ([("/data/a", READ), ("/data/sub/b", READ)], ONCE),
        ([("/data/a", EDIT), ("/date/a", EDIT)], ONCE),
        ([("/data/a", READ), ("/data/b", EDIT)], ONCE),
        ([("/data/a", EDIT), (f"{ROOT}/main.py", EDIT)], LASTING_EDIT),
        ([("/data/a", EDIT), (f"{ROOT}/.env", EDIT)], ONCE),
        ([("/data/a", READ), (f"{HOME}/.ssh/id", READ)], ONCE),
        ([("/data/a", EDIT), ("/data/.git/config", EDIT)], ONCE),
        ([("/data/a", EDIT), ("/data/.env", EDIT)], ONCE),
        ([(f"{ROOT}/a", EDIT), (f"{ROOT}/b", READ)], ()),
    ],
)
def test_something_lasting_is_offered_only_for_one_folder(accesses, options):
    """All outside targets have one parent and one mode, and none of them may never be granted."""
    plan = CallPlan("x", tuple(Access(path, mode) for path, mode in accesses))
    assert options == rules().judge(plan).options


def test_a_grant_covers_just_the_targets_that_asked():
    """Those inside the workspace were not asked for."""
    permissions = rules()
    plan = CallPlan("x", (Access(f"{ROOT}/a", EDIT), Access("/data/f", EDIT)))
    judgement = permissions.judge(plan)
    assert (Access("/data/f", EDIT),) == judgement.outside
    permissions.grants.add(Choice.ALLOW_EDIT_FILE, judgement.outside)
    assert not permissions.judge(plan).asks
    assert permissions.judge(CallPlan("x", (Access("/data/g", EDIT),))).asks
    assert permissions.judge(CallPlan("x", (Access("/data/f/below", EDIT),))).asks
    assert permissions.judge(CallPlan("x", (Access("/data/f", READ),))).asks


@pytest.mark.parametrize("choice", [Choice.APPROVE, Choice.REJECT])
def test_a_choice_for_once_grants_nothing(choice):
    """The next call asks again."""
    permissions = rules()
    assert not choice.lasts
    permissions.grants.add(choice, [Access("/data/a", READ), Access("/data/a", EDIT)])
    for mode in (READ, EDIT):
        assert permissions.judge(CallPlan("x", (Access("/data/a", mode),))).asks


COMPONENTS = st.lists(st.sampled_from(["a", "ab", "a-b", "a.", "A", "b", "..."]), max_size=4)
PATHS = COMPONENTS.map(lambda parts: "/" + "/".join(parts))
LASTING = st.sampled_from([choice for choice in Choice if choice.lasts])


@settings(max_examples=300)
@given(
    st.lists(st.tuples(LASTING, PATHS, st.sampled_from([READ, EDIT])), max_size=3),
    PATHS,
    st.sampled_from([READ, EDIT]),
)
def test_grants_never_leak(given_grants, path, mode):
    """A target is covered by its own mode, and by whole names of folders or the very file."""
    grants = Grants()
    for choice, target, target_mode in given_grants:
        grants.add(choice, [Access(target, target_mode)])
    covered = any(
        mode is target_mode
        and (
            path == target
            if choice is Choice.ALLOW_EDIT_FILE
            else PurePosixPath(path).is_relative_to(PurePosixPath(target).parent)
        )
        for choice, target, target_mode in given_grants
    )
    assert covered == grants.cover(Access(path, mode))


@given(PATHS, PATHS)
def test_within_means_whole_names(path, folder):
    """A sibling whose name begins alike is not within."""
    assert PurePosixPath(path).is_relative_to(folder) == is_within(path, folder)


NAMES = ".. . ws ws-sibling WS out out2 sub link new w back loop dangling caf\u00e9 cafe\u0301"
SHAPES = st.lists(st.sampled_from(["", *NAMES.split(" ")]), min_size=1, max_size=7)
STARTS = ["", "ABS/", "ABS/ws/", "ABS/out/", "/proc/self/root/ABS/", "/proc/self/cwd/"]


@pytest.fixture(name="tree", scope="module")
def _tree(tmp_path_factory):
    """
    Two folders next to a workspace, with links in both directions.

    `link` leads out of the workspace, `back` into it; a name in both forms of Unicode is a
    folder inside and a link to the outside.
    """
    base = Path(os.path.realpath(tmp_path_factory.mktemp("tree")))
    for name in ("ws/sub", "ws-sibling/sub", "out/sub", "out2/sub", "w", "ws/caf\u00e9"):
        (base / name).mkdir(parents=True)
    (base / "ws/link").symlink_to(base / "out")
    (base / "ws/sub/link").symlink_to("../../ws-sibling")
    (base / "ws/dangling").symlink_to(base / "out" / "not-there")
    (base / "ws/loop").symlink_to("loop")
    if not (base / "ws/cafe\u0301").exists():
        (base / "ws/cafe\u0301").symlink_to(base / "out")
    (base / "out/back").symlink_to(base / "ws")
    (base / "out/link").symlink_to(base / "out2")
    return base


@settings(deadline=None, max_examples=400)
@given(shape=SHAPES, start=st.sampled_from(STARTS), end=st.booleans())
@example(shape=["loop", ".."], start="", end=False)
@example(shape=["ws", "..", "loop"], start="", end=False)
@example(shape=["ws", "..", "loop", "", ""], start="", end=False)
@example(shape=["new", "..", "loop", "..", "link"], start="", end=False)
def test_a_path_is_judged_by_where_it_leads(tree, shape, start, end):
    """Links, `..`, doubled and trailing slashes change neither what is free nor what is granted."""
    root = tree / "ws"
    text = start.replace("ABS", str(tree)) + "/".join(shape) + ("/" if end else "")
    if text.startswith("/") and not start:
        text = "./" + text.lstrip("/")
    try:
        real = Workspace(str(root)).resolve(text or ".")
    except ToolError:
        with pytest.raises(OSError, match="Too many levels"):
            _led_to(os.path.join(root, text))
        return
    joined = os.path.join(root, text or ".")
    try:
        assert real == _led_to(joined)
    except OSError:
        # A link to itself behind a name that is not there: for the system the path is nothing.
        with pytest.raises(FileNotFoundError):
            os.stat(joined)
    inside = Path(real).is_relative_to(root)
    permissions = Permissions(str(root), (), str(tree / "home"))
    for mode in (READ, EDIT):
        plan = CallPlan("x", (Access(real, mode),))
        assert inside != permissions.judge(plan).asks
    permissions.grants.add(Choice.ALLOW_FOLDER, [Access(str(tree / "out" / "file"), READ)])
    permissions.grants.add(Choice.ALLOW_EDIT_FOLDER, [Access(str(tree / "out2" / "file"), EDIT)])
    granted = {
        READ: Path(real).is_relative_to(tree / "out"),
        EDIT: Path(real).is_relative_to(tree / "out2"),
    }
    for mode, is_granted in granted.items():
        free = not permissions.judge(CallPlan("x", (Access(real, mode),))).asks
        assert free == (inside or is_granted)


def _led_to(path):
    """Where the kernel says that a path leads, as far as it exists, and then by its names."""
    names = path.split("/")
    for count in range(len(names), 0, -1):
        there = "/".join(names[:count]) or "/"
        try:
            handle = os.open(there, os.O_PATH)
        except FileNotFoundError:
            if os.path.islink(there):
                target = os.path.join(os.path.dirname(there), os.readlink(there))
                return _led_to("/".join([target, *names[count:]]))
            continue
        except NotADirectoryError:
            continue
        try:
            led = os.readlink(f"/proc/self/fd/{handle}")
        finally:
            os.close(handle)
        beyond = [name for name in names[count:] if name not in ("", ".")]
        if ".." not in beyond:
            return "/".join([led.rstrip("/"), *beyond]) or "/"
        # Beyond what is there `..` means the name before it, and then there may be more.
        up = beyond.index("..")
        before = [*led.split("/"), *beyond[:up]][:-1]
        return _led_to("/".join([*before, *beyond[up + 1 :]]) or "/")
    raise AssertionError(path)


@pytest.fixture(name="bound")
def _bound(tmp_path):
    """A workspace and a folder outside, each mounted in the other as well."""
    base = Path(os.path.realpath(tmp_path))
    mounted = []
    for name in ("ws/in", "out/mirror", "ws/mirrored/.git", "home"):
        (base / name).mkdir(parents=True)
    try:
        for source, target in (("out", "ws/in"), ("ws/mirrored", "out/mirror")):
            command = ["mount", "--bind", str(base / source), str(base / target)]
            if subprocess.run(command, capture_output=True, check=False).returncode != 0:
                pytest.skip("nothing can be mounted here")
            mounted.append(base / target)
        yield base
    finally:
        for target in reversed(mounted):
            subprocess.run(["umount", str(target)], check=True)


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs root to mount")
def test_a_mounted_folder_is_where_it_is_mounted(bound):
    """Inside of the workspace it is free, protected names in it ask; its other path asks."""
    workspace = Workspace(str(bound / "ws"))
    permissions = Permissions(str(bound / "ws"), (), str(bound / "home"))
    for path, options in (
        ("in/file", ()),
        ("in/../in/mirror/x", ()),
        ("in/.envrc", ONCE),
        (str(bound / "out/file"), LASTING_EDIT),
        (str(bound / "out/mirror/file"), LASTING_EDIT),
        (str(bound / "out/mirror/.git/config"), ONCE),
        (f"/proc/self/root{bound}/ws/in/../../out/file", LASTING_EDIT),
    ):
        access = Access(workspace.resolve(path), EDIT)
        assert options == permissions.judge(CallPlan("x", (access,))).options, path


SPELLINGS = [
    ".GIT/config",
    ".Git/HEAD",
    "deep/.gIT/hooks/x",
    ".ENV",
    ".Env.local",
    ".EnvRC",
    ".GitHub/Workflows/ci.yml",
    ".github/WORKFLOWS",
    ".VSCODE/tasks.json",
    # What file systems leave out or take for the same letter.
    ".g\u200cit/config",
    ".git\u200d/hooks/x",
    ".v\u017fcode/x",
    ".\uff47it/config",
    ".git./config",
    ".git /config",
    ".envrc. .",
    "GIT~1/config",
    "VSCODE~2/x",
    "ENV~1",
    "MCP~1.JSO",
]


@pytest.mark.parametrize("name", SPELLINGS)
def test_another_spelling_of_a_protected_path_counts_where_the_file_system_takes_it(name):
    """There it asks for each edit, and once only; elsewhere it is another file."""
    plan = CallPlan("x", (Access(f"{ROOT}/{name}", EDIT),))
    for takes, options in ((True, ONCE), (False, ())):
        permissions = Permissions(ROOT, PRIVATE, HOME, lambda _folder, takes=takes: takes)
        permissions.grants.add(Choice.ALLOW_EDIT_FOLDER, [Access(f"{ROOT}/x", EDIT)])
        assert options == permissions.judge(plan).options


@pytest.mark.parametrize(
    "path",
    [
        f"{HOME}/.SSH/id",
        "/HOME/User/.ssh/id",
        f"{HOME}/.Config/GH/hosts.yml",
        f"{HOME}/.s\u200csh/id",
        f"{HOME}/.ssh./id",
        "/srv/Config/Term2/config.toml",
    ],
)
def test_another_spelling_of_a_credential_store_counts_where_the_file_system_takes_it(path):
    """The file system of the store decides, not that of the workspace."""
    for store, options in ((True, ONCE), (False, LASTING_READ)):
        permissions = Permissions(
            ROOT, PRIVATE, HOME, lambda folder, store=store: store and folder != ROOT
        )
        assert options == permissions.judge(CallPlan("x", (Access(path, READ),))).options


@pytest.mark.parametrize("name", ["git", ".gitignore", "GIT~x", "GITTER~1", ".environment", "a.b."])
def test_what_is_no_spelling_of_a_protected_path_is_free_everywhere(name):
    """Also where case does not count."""
    permissions = Permissions(ROOT, PRIVATE, HOME, lambda _folder: True)
    assert not permissions.judge(CallPlan("x", (Access(f"{ROOT}/{name}", EDIT),))).asks


CASED = st.sampled_from([str.lower, str.upper, str.title, str.swapcase, str])
FORMS = st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"])


@given(st.sampled_from(PROTECTED_NAMES), st.lists(CASED, min_size=1, max_size=4), FORMS)
def test_no_case_and_no_unicode_form_hides_a_protected_path(name, cased, form):
    """Where the file system ignores case; where it does not, only the very name counts."""
    spelled = "/".join(
        cased[index % len(cased)](part) for index, part in enumerate(name.split("/"))
    )
    path = f"{ROOT}/d\u00e9p\u00f4t/{unicodedata.normalize(form, spelled)}"
    plan = CallPlan("x", (Access(unicodedata.normalize(form, path), EDIT),))
    assert Permissions(ROOT, (), HOME, lambda _folder: True).judge(plan).options == ONCE
    exact = any(part in name.split("/") for part in spelled.split("/"))
    if not exact:
        assert not Permissions(ROOT, (), HOME, lambda _folder: False).judge(plan).asks


def test_an_approved_call_may_touch_its_target_and_nothing_else():
    """What was asked for, in its mode, and what is free anyway."""
    permits = rules().judge(CallPlan("x", (Access("/data/f", EDIT),))).permits
    assert permits("/data/f", EDIT)
    assert permits(f"{ROOT}/main.py", EDIT)
    assert permits(f"{ROOT}/.env", READ)
    for path, mode in [
        ("/data/f", READ),
        ("/data/f/below", EDIT),
        ("/data/g", EDIT),
        ("/data", EDIT),
        (f"{ROOT}/.env", EDIT),
        (f"{ROOT}-sibling/f", EDIT),
        (f"{HOME}/.ssh/id", READ),
    ]:
        assert not permits(path, mode), (path, mode)


def test_an_approved_search_goes_down_but_not_into_credentials():
    """It stays in its folder, reads only, and passes by what must be asked for by itself."""
    permits = rules().judge(CallPlan("x", (Access(HOME, READ),))).permits
    assert permits(f"{HOME}/notes/deep/file", READ)
    for path, mode in [
        (f"{HOME}/.ssh/id", READ),
        (f"{HOME}/.aws", READ),
        (f"{PRIVATE[0]}/sessions.db", READ),
        (f"{HOME}/notes", EDIT),
        ("/home/user-other/x", READ),
        ("/etc/passwd", READ),
    ]:
        assert not permits(path, mode), (path, mode)


def test_an_approved_credential_is_readable_itself():
    """Approved is approved, for that very file."""
    permits = rules().judge(CallPlan("x", (Access(f"{HOME}/.ssh/config", READ),))).permits
    assert permits(f"{HOME}/.ssh/config", READ)
    assert not permits(f"{HOME}/.ssh/id", READ)


def test_a_grant_that_comes_while_a_call_runs_counts():
    """What is permitted is judged when it is touched."""
    permissions = rules()
    permits = permissions.judge(CallPlan("x")).permits
    assert not permits("/data/a", READ)
    permissions.grants.add(Choice.ALLOW_FOLDER, [Access("/data/a", READ)])
    assert permits("/data/b", READ)


def test_a_linked_credential_store_is_one_by_both_of_its_names(tmp_path):
    """Users keep such folders elsewhere and link to them."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "project").mkdir(parents=True)
    elsewhere.mkdir()
    (home / ".ssh").symlink_to(elsewhere)
    permissions = Permissions(str(home / "project"), (), str(home))
    for path in (elsewhere / "id", home / ".ssh" / "id"):
        judgement = permissions.judge(CallPlan("x", (Access(str(path), READ),)))
        assert ONCE == judgement.options


def test_a_workspace_below_a_protected_name_is_an_ordinary_one():
    """Its own path is not judged, only what is in it."""
    permissions = Permissions("/home/user/.claude/worktrees/w", (), "/home/user")
    free = permissions.judge(CallPlan("x", (Access("/home/user/.claude/worktrees/w/a", EDIT),)))
    asked = permissions.judge(
        CallPlan("x", (Access("/home/user/.claude/worktrees/w/.claude/a", EDIT),))
    )
    assert not free.asks
    assert ONCE == asked.options


def labels(*accesses):
    """The labels that are offered for some targets, by choice."""
    plan = CallPlan("x", tuple(Access(path, mode) for path, mode in accesses))
    return {option.choice: option.label for option in rules().judge(plan).offer()}


def test_the_labels_say_what_is_granted():
    """The folder that is meant, the names of the files, reading or editing."""
    assert {
        Choice.APPROVE: "Allow once",
        Choice.ALLOW_FOLDER: "Allow reading in /data/x for this session",
        Choice.REJECT: "Reject",
    } == labels(("/data/x/a", READ))
    assert {
        Choice.APPROVE: "Allow once",
        Choice.ALLOW_EDIT_FILE: "Allow editing a, b for this session",
        Choice.ALLOW_EDIT_FOLDER: "Allow editing in /data/x for this session",
        Choice.REJECT: "Reject",
    } == labels(("/data/x/a", EDIT), ("/data/x/b", EDIT))
    assert ["Allow once", "Reject"] == list(labels((f"{HOME}/.ssh/id", READ)).values())


SUBSETS = [
    offered
    for size in range(len(Choice) + 1)
    for offered in itertools.combinations(list(Choice), size)
]


@pytest.mark.parametrize("offered", SUBSETS)
def test_an_answer_names_one_of_the_offered_choices(offered):
    """By its own name or by the alias of one that was offered; everything else names nothing."""
    for choice in Choice:
        assert choice_of(choice.value, offered) is (choice if choice in offered else None)
    for alias, choice in (("allow-once", Choice.APPROVE), ("deny", Choice.REJECT)):
        assert choice_of(alias, offered) is (choice if choice in offered else None)
    for other in (
        "",
        "allow",
        "Approve",
        "approve ",
        "unsandboxed-once",
        "allow-remember",
        "allow_once",
        "reject_always",
        "reject-always",
        "0",
    ):
        assert choice_of(other, offered) is None
