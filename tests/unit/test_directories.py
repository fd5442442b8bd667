"""Which directory a session may work in, and what is said about the others."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.directories import WorkspaceRules, canonical
from term2_acp.errors import InvalidParamsError


@pytest.fixture(name="home")
def _home(tmp_path):
    """A home with projects, and folders of the program in it."""
    home = tmp_path / "home" / "user"
    for name in ("project/sub", ".local/state/term2/sub", ".config/term2", ".local/state-other"):
        (home / name).mkdir(parents=True)
    (tmp_path / "home" / "user-other").mkdir()
    (home / "file").write_text("")
    return home


@pytest.fixture(name="rules")
def _rules(home):
    """The rules for that home."""
    return WorkspaceRules(
        str(home), (str(home / ".local/state/term2"), str(home / ".config/term2"))
    )


@pytest.mark.parametrize(
    "name",
    [
        "project",
        "project/sub",
        ".",
        ".local/state-other",
        "../user-other",
        "project/../project/sub/",
    ],
)
def test_a_project_is_taken_by_its_real_path(home, rules, name):
    """Below the home, and next to it; the spelling does not matter."""
    path = os.path.join(home, name)
    if name == ".":
        path = os.path.join(home, "project", ".")
    assert os.path.realpath(path) == rules.accept(path)


def test_a_link_to_a_project_is_that_project(home, rules):
    """The session's cwd is the real one."""
    (home / "link").symlink_to(home / "project" / "sub")
    assert str(home / "project" / "sub") == rules.accept(str(home / "link"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (".", "is the home directory"),
        ("project/..", "is the home directory"),
        ("..", "contains the home directory"),
        ("../..", "contains the home directory"),
        ("missing", "does not exist"),
        ("missing/../nothing", "does not exist"),
        ("file", "is not a directory"),
        (".local/state/term2", "own state or configuration"),
        (".local/state/term2/sub", "own state or configuration"),
        (".local/state", "own state or configuration"),
        (".config", "own state or configuration"),
        (".config/term2", "own state or configuration"),
    ],
)
def test_these_are_refused_and_why(home, rules, name, reason):
    """The reason is in the message, and so is the member."""
    with pytest.raises(InvalidParamsError, match=reason) as caught:
        rules.accept(os.path.join(home, name))
    assert "cwd" in caught.value.message


def test_a_link_to_a_refused_directory_is_refused(home, rules):
    """What counts is where it leads."""
    for number, target in enumerate([home, home.parent, "/", "/etc", "/usr/bin"]):
        link = home / "project" / f"link{number}"
        link.symlink_to(target)
        with pytest.raises(InvalidParamsError):
            rules.accept(str(link))


SYSTEM = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr/bin",
    "/usr/lib",
    "/usr/sbin",
    "/lib",
    "/lib64",
]


@pytest.mark.skipif(sys.platform != "linux", reason="the names are those of Linux")
@pytest.mark.parametrize("path", ["/", "//", "/usr", "/./usr/..", *SYSTEM])
def test_system_directories_are_refused(rules, path):
    """And what contains one."""
    if not os.path.isdir(path):
        pytest.skip(f"there is no {path} here")
    with pytest.raises(InvalidParamsError, match="system directory|root of the file system"):
        rules.accept(path)


@pytest.mark.skipif(sys.platform != "linux", reason="the names are those of Linux")
def test_what_is_below_a_system_directory_is_refused(rules):
    """However deep."""
    for path in ("/etc", "/usr/lib", "/usr/bin", "/dev", "/proc/self"):
        for name in sorted(os.listdir(path))[:50]:
            below = os.path.join(path, name)
            if os.path.isdir(below) and os.path.realpath(below).startswith(path + "/"):
                with pytest.raises(InvalidParamsError, match="system directory"):
                    rules.accept(below)
                break


@pytest.mark.parametrize("path", ["/usr/local", "/opt", "/srv"])
def test_other_directories_of_the_system_may_be_used(rules, path):
    """Only what the rules name is refused."""
    if not os.path.isdir(path) or os.path.realpath(path) != path:
        pytest.skip(f"there is no {path} here")
    assert path == rules.accept(path)


@pytest.mark.parametrize("cwd", ["", ".", "project", "~", "~/project", "./x", "file:///x", "a/b"])
def test_a_relative_path_is_refused(rules, cwd):
    """The message says what would be right."""
    for judge in (canonical, rules.accept):
        with pytest.raises(InvalidParamsError, match="absolute path"):
            judge(cwd)


@given(st.text(st.characters(exclude_categories=[]), max_size=20), st.booleans())
def test_any_text_is_a_real_path_or_refused(text, absolute):
    """Nothing but an error of ours comes out."""
    try:
        path = canonical("/" + text if absolute else text)
    except InvalidParamsError:
        return
    assert os.path.isabs(path)
    assert ".." not in path.split("/")


def test_a_name_that_is_too_long_is_refused(home, rules):
    """It does not exist, and that is no internal error."""
    with pytest.raises(InvalidParamsError):
        rules.accept(str(home / ("x" * 5000)))
    with pytest.raises(InvalidParamsError):
        rules.accept(str(home) + "/x" * 5000)


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_a_directory_that_cannot_be_read_is_refused(home, rules):
    """Rather than a session in which nothing works."""
    (home / "project").chmod(0)
    try:
        with pytest.raises(InvalidParamsError, match="cannot be read"):
            rules.accept(str(home / "project"))
    finally:
        (home / "project").chmod(0o700)
