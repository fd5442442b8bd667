"""What a command must not be able to do, proven from outside."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.machine import Machine, Remote, accounts

_PROTECTED = {
    ".vscode/settings.json": "{}\n",
    ".github/workflows/ci.yml": "on: push\n",
    ".bashrc": "# mine\n",
    ".mcp.json": "{}\n",
}


@pytest.fixture(scope="module", params=accounts(), ids=lambda uid: "root" if uid == 0 else "user")
def equipped(request: pytest.FixtureRequest, remotes: dict[int, Remote]) -> Iterator[Machine]:
    """A machine with credentials, a repository and protected files; shared, so never changed."""
    with Machine(request.param, remotes[request.param]) as machine:
        machine.repository()
        for path, content in _PROTECTED.items():
            machine.write(machine.workspace / path, content)
        for path in (".ssh/id_rsa", ".aws/credentials", ".netrc", ".config/gh/hosts.yml"):
            machine.write(machine.home / path, "made-up-secret\n", 0o600)
        machine.write(machine.home / ".cargo/bin/tool", "#!/bin/sh\necho tool\n", 0o755)
        machine.write(machine.outside / "data", "outside\n")
        machine.open_session()
        yield machine


# Each must fail, say one of the words, and leave the machine as it was.
_REFUSED = {
    "write to a system folder": ("echo x > /etc/p; echo x > /usr/p; echo x > /p", "Read-only"),
    "write to a folder outside": ("echo x > {outside}/p", "Read-only"),
    "change a file outside": ("echo x >> {outside}/data", "Read-only"),
    "remove a file outside": ("rm -f {outside}/data", "Read-only"),
    "write through a symlink": (
        "ln -sfn {outside} l; echo x > l/p; r=$?; rm l; exit $r",
        "Read-only",
    ),
    "write through dot-dot": ("echo x > ../outside/p", "Read-only"),
    "hard link from outside": ("ln {outside}/data hl", "cross-device"),
    "rename out of the workspace": ("touch t; mv t {outside}/; r=$?; rm t; exit $r", "Read-only"),
    "read credentials": (
        "cat ~/.ssh/id_rsa ~/.aws/credentials ~/.netrc ~/.config/gh/hosts.yml",
        "No such file",
    ),
    "read credentials by name": ("cat {home}/.ssh/id_rsa", "No such file"),
    "read credentials through proc": (
        (
            "cat /proc/1/root{home}/.ssh/id_rsa || cat /proc/self/root{home}/.ssh/id_rsa "
            "|| cat /proc/1/cwd/../home/.ssh/id_rsa"
        ),
        "No such file",
    ),
    "list our state": ("ls {state}", "No such file"),
    "write a hook": ("echo x > .git/hooks/pre-commit", "Read-only"),
    "write the git config": ("echo x >> .git/config", "Read-only"),
    "configure git": ("git config core.fsmonitor evil", "busy"),
    "replace the git config": (
        "cp .git/config c; mv c .git/config; r=$?; rm -f c; exit $r",
        "busy",
    ),
    "remove the git config": ("rm -f .git/config", "busy"),
    "link over the git config": ("ln -sf /dev/null .git/config", "busy|exists"),
    "move the hooks": ("mv .git/hooks .git/h2", "busy"),
    "create a worktree config": ("echo x > .git/config.worktree", "Read-only"),
    "create a common directory": ("echo ../evil > .git/commondir", "Read-only"),
    "move the git folder": ("mv .git .g2", "busy"),
    "write an editor setting": ("echo x > .vscode/settings.json", "Read-only"),
    "add an editor task": ("echo x > .vscode/tasks.json", "Read-only"),
    "move the editor settings": ("mv .vscode v2", "busy"),
    "remove the editor settings": ("rm -rf .vscode", "Read-only|busy"),
    "write a workflow": ("echo x > .github/workflows/ci.yml", "Read-only"),
    "move the folder of the workflows": ("mv .github g2", "busy"),
    "write a start file": ("echo x >> .bashrc", "Read-only"),
    "replace a start file": ("rm -f .bashrc", "busy"),
    "write a tool": ("echo x > ~/.cargo/bin/evil", "Read-only"),
    "reach the internet": ("exec 3<>/dev/tcp/1.1.1.1/53", "unreachable|refused"),
    "reach a metadata service": ("exec 3<>/dev/tcp/169.254.169.254/80", "unreachable|refused"),
    "mount": ("mount -t tmpfs none .", "denied|permitted|superuser"),
    "unmount a mask": ("umount .git/config", "denied|permitted|superuser|not mounted"),
    "remount": ("mount -o remount,rw /", "denied|permitted|superuser|must be"),
    "make a user namespace": ("unshare -U true", "permitted|No space"),
    "make a mount namespace": ("unshare -m true", "permitted"),
    "enter a namespace": ("nsenter -t 1 -m true", "permitted|denied"),
    "nest a sandbox": ("bwrap --ro-bind / / true", "bwrap: "),
    "change the root": ("chroot / true", "permitted"),
    "make a device": ("mknod d b 254 0", "permitted"),
    "open a disk": ("head -c1 /dev/vda || head -c1 /dev/sda", "No such file"),
    "open the kernel log": ("head -c1 /dev/kmsg", "No such file"),
    "open a terminal": ("echo x > /dev/tty", "No such device"),
    "read password hashes": ("cat /etc/shadow /etc/gshadow", "denied"),
    "make a set-user-ID file": ("cp /bin/true t; chmod 4755 t; r=$?; rm t; exit $r", "permitted"),
    "trace the first process": (
        (
            'python3 -c "import ctypes, os; l = ctypes.CDLL(None, use_errno=True); '
            'r = l.ptrace(16, 1, 0, 0); print(os.strerror(ctypes.get_errno())); exit(r != 0)"'
        ),
        "permitted",
    ),
    "take a descriptor of the first process": (
        (
            'python3 -c "import ctypes, os; l = ctypes.CDLL(None, use_errno=True); '
            "r = l.syscall(438, os.pidfd_open(1), 0, 0); print(os.strerror(ctypes.get_errno())); "
            'exit(r < 0)"'
        ),
        "permitted",
    ),
    "write to the memory of the first process": ("exec 3<>/proc/1/mem", "Read-only|denied"),
    "leave the control group": (
        (
            "for f in /sys/fs/cgroup/{{,*/,*/*/}}cgroup.procs; "
            "do echo $$ > $f && exit 0; done; exit 1"
        ),
        "Read-only|denied|No such",
    ),
    "raise a limit": ("ulimit -n 1000000", "permitted"),
    "raise the priority": ("renice -n -5 $$", "denied"),
    "set the clock": ("date -s 2000-01-01", "permitted"),
    "rename the machine": ("hostname evil", "root|permitted"),
    "read the kernel's messages": ("dmesg", "permitted"),
    "open a raw socket": (
        "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)'",
        "permitted",
    ),
    "send a datagram": (
        (
            "python3 -c 'import socket; "
            'socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("8.8.8.8", 53))\''
        ),
        "unreachable",
    ),
    "write into a stand-in for a file": ("echo x > .envrc/x", "denied"),
    "write into a stand-in for a folder": ("echo x > .idea/x", "Read-only"),
    "make a control group": ("mkdir /sys/fs/cgroup/evil", "Read-only|denied|No such"),
}


@pytest.mark.parametrize(("command", "words"), _REFUSED.values(), ids=_REFUSED)
def test_is_refused_and_changes_nothing(equipped: Machine, command: str, words: str) -> None:
    """The command fails for the sandbox's reason, and the machine is as it was."""
    machine = equipped
    if "outside" in command:
        machine.need_visible_outside()
    before = machine.snapshot(machine.workspace, machine.outside, machine.home / ".ssh")
    text = command.format(
        outside=machine.outside, home=machine.home, state=machine.state, base=machine.base
    )
    ran = machine.run(text)
    assert ran.setup_error is None
    assert ran.exit_code not in (0, None), ran.text
    assert any(word.lower() in ran.text.lower() for word in words.split("|")), ran.text
    assert "made-up-secret" not in ran.text
    assert before == machine.snapshot(machine.workspace, machine.outside, machine.home / ".ssh")


@pytest.mark.parametrize(
    "name",
    [
        *(".vscode", ".idea", ".claude", ".cursor", ".github/workflows", ".gitmodules"),
        *(".gitconfig", ".mcp.json", ".ripgreprc", ".envrc", ".bashrc", ".bash_profile"),
        *(".profile", ".zshrc", ".zprofile"),
    ],
)
def test_absent_protected_path_cannot_be_created(machine: Machine, name: str) -> None:
    """Neither as a file nor as a folder nor as a link; afterwards nothing is there."""
    machine.open_session()
    ran = machine.run(
        f"mkdir -p $(dirname {name}); echo x > {name}; rmdir {name}; mv {name} {name}2; "
        f"ln -sfn /etc {name}; echo x > {name}/x; mv $(dirname {name}) gone 2>/dev/null; exit 1"
    )
    assert ran.exit_code == 1
    assert not os.path.lexists(machine.workspace / name)
    assert {".github"} >= {path.name for path in machine.workspace.iterdir()}


def test_folder_without_rights_does_not_keep_its_stand_in(machine: Machine) -> None:
    """The one that may be written can lose its mode; it goes all the same."""
    machine.open_session()
    for mode in ("0", "0111", "0444"):
        assert machine.run(f"chmod {mode} .github").exit_code == 0
        assert [] == list(machine.workspace.iterdir())


def test_what_is_put_into_a_stand_in_for_a_file_never_was(machine: Machine) -> None:
    """Its owner can make it writable; what is written there is nowhere."""
    machine.open_session()
    ran = machine.run("chmod u+w .envrc && echo evil > .envrc/x && cat .envrc/x; rmdir .envrc")
    assert "evil\n" == ran.text[:5]
    assert "busy" in ran.text
    assert [] == list(machine.workspace.iterdir())
    assert "" == machine.run("ls -A .envrc").text


def test_debuggers_work_on_what_they_start(equipped: Machine) -> None:
    """Only the first process is out of their reach."""
    ran = equipped.run(
        'sleep 600 & python3 -c "import ctypes, sys; l = ctypes.CDLL(None); '
        'print(l.ptrace(16, int(sys.argv[1]), 0, 0))" $!'
    )
    assert "0\n" == ran.text


def test_no_environment_holds_a_secret(equipped: Machine) -> None:
    """Neither the command's own environment nor that of any process it can see."""
    ran = equipped.run("env; cat /proc/[0-9]*/environ; cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "tkn-0123456789" not in ran.text
    assert "SECRET_TOKEN" not in ran.text
    assert f"HOME={equipped.home}" in ran.text


def test_processes_outside_do_not_exist(equipped: Machine) -> None:
    """A process of the host can be neither signalled nor looked at."""
    pid = os.getpid()
    ran = equipped.run(f"kill -0 {pid}; ls -d /proc/{pid}; ls -d /proc/[0-9]* | wc -l")
    assert ran.text.count("No such") == 2
    assert int(ran.text.split()[-1]) < 10


def test_no_kernel_setting_can_be_opened_for_writing(equipped: Machine) -> None:
    """Opened for writing and closed again, never written."""
    ran = equipped.run(
        "for f in $(find /proc/sys /proc/sysrq-trigger /proc/irq /sys/kernel /sys/power -type f "
        "2>/dev/null | head -2000); do ( exec 3<>$f ) 2>/dev/null && echo OPEN $f; done; echo end"
    )
    assert ran.text == "end\n"


def test_server_on_this_host_cannot_be_reached(equipped: Machine) -> None:
    """A service on the host's loopback is not there inside."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ran = equipped.run(f"exec 3<>/dev/tcp/127.0.0.1/{port}")
    assert ran.exit_code != 0
    assert "refused" in ran.text


def test_own_loopback_works(equipped: Machine) -> None:
    """A command can talk to a server that it starts itself."""
    ran = equipped.run(
        "python3 -c \"import socket; s=socket.create_server(('127.0.0.1',0));"
        "c=socket.create_connection(s.getsockname()); c.send(b'ping'); "
        'print(s.accept()[0].recv(9))"'
    )
    assert ran.text == "b'ping'\n"


@pytest.mark.parametrize("where", ["outside", "workspace", "home"])
def test_unix_socket_of_the_host_is_masked(machine: Machine, where: str) -> None:
    """Also where the file system shows it (finding F6)."""
    folder: Path = getattr(machine, where)
    path = folder / "sock"
    connected = threading.Event()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o777)
        server.listen()
        threading.Thread(
            target=_accept, args=(server, connected), name="test-accept", daemon=True
        ).start()
        machine.open_session()
        ran = machine.run(
            f"python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{path}')\""
        )
        assert ran.exit_code != 0, ran.text
        assert not connected.is_set()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            assert connected.wait(10)


def _accept(server: socket.socket, connected: threading.Event) -> None:
    server.accept()[0].close()
    connected.set()


def test_abstract_socket_of_the_host_is_not_there(equipped: Machine) -> None:
    """The network namespace has its own abstract names."""
    with socket.socket(socket.AF_UNIX) as server:
        name = f"sandbox-test-{os.getpid()}"
        server.bind("\0" + name)
        server.listen()
        ran = equipped.run(
            f"python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}')\""
        )
    assert "refused" in ran.text


_SYSTEM_CALLS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *numbers):
    result = libc.syscall(*[ctypes.c_long(n) for n in numbers])
    print(name, "allowed" if result >= 0 else os.strerror(ctypes.get_errno()), flush=True)
call("io_uring_setup", 425, 8, 0)
call("keyctl", 250, 0, -3, 0)
call("add_key", 248, 0, 0, 0, 0, 0)
call("bpf", 321, 0, 0, 0)
call("perf_event_open", 298, 0, 0, -1, -1, 0)
call("userfaultfd", 323, 0)
call("clone3", 435, 0, 0)
call("openat2", 437, 0, 0, 0, 0)
call("x32 getpid", 0x40000000 | 39)
call("clone NEWUSER", 56, 0x10000000 | 17, 0, 0, 0, 0)
call("unshare", 272, 0x10000000)
call("setns", 308, 0, 0)
call("mount", 165, 0, 0, 0, 0, 0)
call("open_by_handle_at", 304, 0, 0, 0)
call("process_vm_readv", 310, 1, 0, 0, 0, 0, 0)
for family in (15, 17, 31, 38, 40, 44):
    call(f"socket {family}", 41, family, 3, 0)
call("TIOCSTI", 16, 0, 0x5412, 0)
call("TIOCSTI, high bits", 16, 0, 0x5412 | 1 << 32, 0)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
def test_dangerous_system_calls_are_refused(equipped: Machine) -> None:
    """Each ends with EPERM or ENOSYS and not with what the kernel itself would say."""
    ran = equipped.run(f"python3 - <<'END'\n{_SYSTEM_CALLS}\nEND")
    lines = ran.text.splitlines()
    assert len(lines) == 23
    for line in lines:
        assert line.endswith(("Operation not permitted", "Function not implemented")), line


def test_no_descriptor_of_ours_is_inherited(equipped: Machine) -> None:
    """The command has its three standard descriptors only."""
    ran = equipped.run("for n in {0..300}; do [ -e /proc/$$/fd/$n ] && echo $n; done; true")
    assert ran.text.split() == ["0", "1", "2"]


def test_no_capability_is_left(equipped: Machine) -> None:
    """Also for root, and nothing can be gained by a set-user-ID program."""
    ran = equipped.run("grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status")
    values = dict(line.split(":") for line in ran.text.splitlines())
    assert {name: int(value.strip(), 16) for name, value in values.items()} == {
        **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), 0),
        "NoNewPrivs": 1,
        "Seccomp": 2,
    }


def test_hidden_folders_and_files_are_masked(machine: Machine) -> None:
    """What the caller names is hidden wherever it lies, also in the workspace."""
    file = machine.write(machine.outside / "token", "made-up-secret\n")
    folder = machine.write(machine.workspace / "private/token", "made-up-secret\n").parent
    machine.open_session(hidden=[file, folder])
    ran = machine.run(f"cat {file}; cat {folder}/token; ls {folder}; rm -rf {folder} {file}; true")
    assert "made-up-secret" not in ran.text
    assert "denied" in ran.text
    assert (file.read_text(), (folder / "token").read_text()) == ("made-up-secret\n",) * 2


def test_credentials_named_by_a_variable_are_masked(machine: Machine) -> None:
    """A store that a variable moves out of the home is still a store."""
    file = machine.write(machine.outside / "kube", "made-up-secret\n")
    machine.open_session(environ={"KUBECONFIG": str(file)})
    assert "made-up-secret" not in machine.run(f"cat {file}").text
