"""The command line and the order of mounts, as pure functions; needs no bwrap."""

from __future__ import annotations

import pytest

from sandbox import bwrap
from sandbox.limits import DASH, Limits
from sandbox.mounts import Bind, Layout, Tmpfs, arrange
from sandbox.readable import Readable

_LAYOUT = Layout(
    private_tmp="/state/tmp",
    private_home="/state/home",
    tmp_folders=("/tmp", "/var/tmp"),
    homes=("/home/ada", "/root"),
    readable=(),
    writable=("/home/ada/ws",),
    read_only=(),
    file_stand_ins=(),
    pins=(),
    masked_files=(),
    masked_folders=(),
)


def layout(**changes: object) -> Layout:
    """The usual layout, otherwise in some way."""
    fields = {name: getattr(_LAYOUT, name) for name in Layout.__annotations__}
    return Layout(**{**fields, **changes})


def test_options_are_complete_and_in_order() -> None:
    """Namespaces, capabilities, the read-only root and /proc come before any bind."""
    found = bwrap.options(
        [Bind("/ws", "/ws", writable=True), Bind("/ws/.git", "/ws/.git")], directory="/ws"
    )
    assert [*found.decode().split("\0")] == [
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts"),
        *("--unshare-cgroup-try", "--unshare-net", "--disable-userns"),
        *("--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"),
        *("--bind", "/ws", "/ws", "--ro-bind", "/ws/.git", "/ws/.git"),
        *("--chdir", "/ws", ""),
    ]


def test_empty_file_systems_have_permissions_and_a_size() -> None:
    """A sealed one can be neither entered nor written, root or not."""
    found = bwrap.options(
        [Tmpfs("/run", size_bytes=64), Tmpfs("/secret", sealed=True)], directory="/ws"
    )
    text = found.decode().replace("\0", " ")
    assert "--perms 0755 --size 64 --tmpfs /run" in text
    assert "--perms 0000 --tmpfs /secret --remount-ro /secret" in text


def test_command_line_names_no_path_and_passes_the_command_whole() -> None:
    """The command is one argument of its own, whatever is in it."""
    command = "echo \"$1\" '%s' {x} \\0 && exit"
    argv = bwrap.command_line(
        "/usr/bin/bwrap",
        leash_fd=8,
        options_fd=9,
        seccomp_fd=10,
        status_fd=11,
        limits=Limits(5, 2048, 7),
        shell=DASH,
        command=command,
    )
    assert ["/usr/bin/bwrap", "--args", "8", "--args", "9"] == argv[:5]
    assert ["--seccomp", "10", "--json-status-fd", "11", "--", "/bin/dash", "-c"] == argv[5:12]
    assert command == argv[-1]
    for limit in ("ulimit -c 0", "ulimit -f 4 ", "ulimit -n 7", "ulimit -p 5 "):
        assert limit in argv[12]


def test_workspace_comes_after_what_hides_it() -> None:
    """Below the home and in /tmp alike."""
    for workspace in ("/home/ada/ws", "/tmp/ws", "/var/tmp/ws", "/run/media/ws", "/opt/ws"):
        order = [mount.dest for mount in arrange(layout(writable=(workspace,)))]
        assert workspace == order[-1]
        assert {"/run", "/tmp", "/var/tmp", "/home/ada", "/root"} == set(order[:-1])


def test_first_home_is_private_and_others_are_empty() -> None:
    """Neither shows anything of the real one."""
    found = arrange(_LAYOUT)
    assert Bind("/state/home", "/home/ada", writable=True) in found
    assert any(isinstance(mount, Tmpfs) and mount.dest == "/root" for mount in found)


def test_tools_are_shown_only_where_something_hides_them() -> None:
    """A Python in /opt is visible anyway; one in the home, /tmp or /run needs a bind."""
    places = ("/home/ada/.pyenv", "/opt/python", "/tmp/venv", "/run/x/venv", "/usr")
    found = arrange(layout(readable=tuple(Readable(place, place) for place in places)))
    shown = {mount.dest for mount in found if isinstance(mount, Bind) and not mount.writable}
    assert {"/home/ada/.pyenv", "/tmp/venv", "/run/x/venv"} == shown


def test_python_in_the_workspace_is_read_only() -> None:
    """The installation that runs the server is not for a command to change."""
    venv = "/home/ada/ws/.venv"
    assert Bind(venv, venv) in arrange(layout(readable=(Readable(venv, venv),)))


def test_pins_and_read_only_paths_come_outermost_first() -> None:
    """A bind of an outer folder would undo the one of an inner path."""
    ws = "/home/ada/ws"
    found = arrange(
        layout(
            read_only=(f"{ws}/.git/modules/a/hooks", f"{ws}/.git/config", f"{ws}/.vscode"),
            pins=(f"{ws}/.git/modules/a", f"{ws}/.git", f"{ws}/.git/modules"),
        )
    )
    order = [mount.dest for mount in found]
    assert order.index(f"{ws}/.git") < order.index(f"{ws}/.git/config")
    assert order.index(f"{ws}/.git/modules") < order.index(f"{ws}/.git/modules/a")
    assert order.index(f"{ws}/.git/modules/a") < order.index(f"{ws}/.git/modules/a/hooks")
    assert Bind(f"{ws}/.git", f"{ws}/.git", writable=True) in found
    assert Bind(f"{ws}/.vscode", f"{ws}/.vscode") in found


def test_within_a_read_only_folder_only_a_writable_one_is_mounted() -> None:
    """A worktree's own git directory stays writable below read-only `worktrees`."""
    found = arrange(
        layout(
            writable=("/home/ada/ws", "/repo/.git", "/repo/.git/worktrees/w"),
            read_only=("/repo/.git/worktrees", "/repo/.git/worktrees/v/gitdir"),
        )
    )
    binds = {mount.dest: mount.writable for mount in found if isinstance(mount, Bind)}
    assert {"/repo/.git": True, "/repo/.git/worktrees": False, "/repo/.git/worktrees/w": True} == {
        path: writable for path, writable in binds.items() if path.startswith("/repo")
    }


@pytest.mark.parametrize(
    ("path", "masked"),
    [
        ("/etc/shadow", True),
        ("/home/ada/.ssh/id", False),
        ("/home/ada/ws/sock", True),
        ("/home/ada/.pyenv/sock", True),
        ("/tmp/sock", False),
        ("/run/sock", False),
        ("/dev/log", False),
        ("/var/lib/sock", True),
        ("/root/sock", False),
    ],
)
def test_only_what_is_visible_is_masked(path: str, masked: bool) -> None:
    """A mask elsewhere would have to create its mount point."""
    tools = (Readable("/home/ada/.pyenv", "/home/ada/.pyenv"),)
    files = arrange(layout(masked_files=(path,), readable=tools))
    folders = arrange(layout(masked_folders=(path,), readable=tools))
    assert masked == (Bind("/dev/null", path) in files)
    assert masked == (Tmpfs(path, sealed=True) in folders)


def test_stand_in_for_a_file_takes_the_cheaper_mount() -> None:
    """It is one on its place all the same, with nothing in it and no right to write."""
    ws = "/home/ada/ws"
    found = arrange(
        layout(read_only=(f"{ws}/.bashrc", f"{ws}/.idea"), file_stand_ins=(f"{ws}/.bashrc",))
    )
    assert Tmpfs(f"{ws}/.bashrc", 4096, mode=0o555) in found
    assert Bind(f"{ws}/.idea", f"{ws}/.idea") in found
    assert [f"{ws}/.bashrc"] == [mount.dest for mount in found if mount.dest.endswith(".bashrc")]
    text = bwrap.options(found, directory=ws).decode().replace("\0", " ")
    assert f"--perms 0555 --size 4096 --tmpfs {ws}/.bashrc" in text


def test_tool_in_a_folder_that_is_shown_needs_no_mount_of_its_own() -> None:
    """Unless it comes from elsewhere."""
    tools = "/home/ada/.pyenv"
    found = arrange(
        layout(
            readable=(
                Readable(tools, tools),
                Readable(f"{tools}/versions/3", f"{tools}/versions/3"),
                Readable(f"{tools}/versions/4", "/opt/python4"),
            )
        )
    )
    assert [tools, f"{tools}/versions/4"] == [
        mount.dest for mount in found if mount.dest.startswith(tools)
    ]


def test_masks_come_last_and_once() -> None:
    """What lies in a masked folder needs no mask of its own."""
    found = arrange(
        layout(
            masked_folders=("/srv/state", "/srv/state/inner", "/home/ada/ws/private"),
            masked_files=("/srv/state/key", "/etc/shadow"),
        )
    )
    assert ["/etc/shadow", "/home/ada/ws/private", "/srv/state"] == [
        mount.dest for mount in found[-3:]
    ]


def test_workspace_that_is_the_tmp_folder_itself_is_not_hidden() -> None:
    """Then the private tmp has no effect, and what lies there is masked like elsewhere."""
    found = arrange(layout(writable=("/tmp",), masked_files=("/tmp/sock",)))
    assert Bind("/dev/null", "/tmp/sock") in found
    tmp = [mount for mount in found if mount.dest == "/tmp"]
    assert [Bind("/tmp", "/tmp", writable=True)] == tmp


@pytest.mark.parametrize("home", ["/tmp", "/var/tmp", "/home/ada"])
@pytest.mark.parametrize("workspace", ["/tmp", "/var/tmp", "/run", "/srv/ws"])
def test_no_place_is_mounted_on_twice(home: str, workspace: str) -> None:
    """The mount below would be there in vain, and could not be verified."""
    found = arrange(layout(homes=(home, "/root"), writable=(workspace,)))
    places = [mount.dest for mount in found]
    assert sorted(set(places)) == sorted(places)
