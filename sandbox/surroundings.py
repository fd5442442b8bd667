"""What is around on this machine that no command may reach: homes, credentials, sockets."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import stat
from collections.abc import Mapping

from sandbox import paths
from sandbox.errors import is_out_of_descriptors

# Root owns these: a server run as root could read them although all capabilities are dropped.
_SYSTEM_SECRETS = (
    "/etc/NetworkManager/system-connections",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/krb5.keytab",
    "/etc/security/opasswd",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/wireguard",
    "/var/lib/NetworkManager",
)
_SSH_FOLDER = "/etc/ssh"
# Variables by which tools are told to keep credentials elsewhere than in the home.
_CREDENTIAL_VARIABLES = (
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AZURE_CONFIG_DIR",
    "CLOUDSDK_CONFIG",
    "DOCKER_CONFIG",
    "GH_CONFIG_DIR",
    "GNUPGHOME",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "KUBECONFIG",
    "NETRC",
    "NPM_CONFIG_USERCONFIG",
    "PASSWORD_STORE_DIR",
    "PGPASSFILE",
)
_NO_HOMES = ("/", "/bin", "/dev", "/etc", "/proc", "/run", "/sbin", "/sys", "/usr", "/var")
_UNIX_SOCKETS = "/proc/net/unix"
# A name may hold line ends; one that begins with @ is no file. Names can be relative.
_SOCKET_NAME = re.compile(
    rb"^[0-9a-f]+:(?: [0-9A-F]+){5} +\d+ ([^@].*?)(?=\n[0-9a-f]+: |\n?\Z)", re.MULTILINE | re.DOTALL
)


def homes(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The real home folders of this user: `$HOME` first, then the account's where it differs."""
    named = [environ.get("HOME", "")]
    # In a container the user may have no entry.
    with contextlib.suppress(KeyError):
        named.append(pwd.getpwuid(os.geteuid()).pw_dir)
    real = [os.path.realpath(name) for name in named if os.path.isabs(name)]
    return tuple(
        dict.fromkeys(home for home in real if os.path.isdir(home) and home not in _NO_HOMES)
    )


def credentials(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Real paths of credentials that lie in the system or where a variable says."""
    named = [environ[name] for name in _CREDENTIAL_VARIABLES if environ.get(name)]
    candidates = [*_SYSTEM_SECRETS, *(part for name in named for part in name.split(os.pathsep))]
    if os.path.isdir(_SSH_FOLDER):
        candidates += [
            os.path.join(_SSH_FOLDER, name)
            for name in os.listdir(_SSH_FOLDER)
            if name.endswith("_key")
        ]
    return tuple(
        dict.fromkeys(os.path.realpath(path) for path in candidates if os.path.isabs(path))
    )


def unix_sockets() -> tuple[str, ...]:
    """
    Real paths of the Unix sockets that programs outside listen on.

    A read-only mount does not keep anyone from connecting to one (finding F6). Not among
    them are sockets that appear while a command runs, and those with a relative name
    whose program works in another folder by now.

    Raises:
        OSError: too many files are open.
    """
    try:
        with open(_UNIX_SOCKETS, "rb") as table:
            text = table.read()
    except OSError as error:
        if is_out_of_descriptors(error):
            raise
        return ()
    names = {os.fsdecode(name) for name in _SOCKET_NAME.findall(text)}
    relative = {name for name in names if not name.startswith("/")}
    found = names - relative
    if relative:
        found |= {
            path
            for folder in _working_folders()
            for path in (os.path.join(folder, name) for name in relative)
            if paths.kind(path) == stat.S_IFSOCK
        }
    places = (os.path.split(path) for path in found)
    return tuple(sorted({os.path.join(os.path.realpath(folder), name) for folder, name in places}))


def _working_folders() -> set[str]:
    """Those of all processes of this user: where a socket with a relative name may be."""
    found = set()
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{pid}/cwd"))
    return found
