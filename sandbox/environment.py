"""
The environment of a sandboxed command, built from an allowlist (spec section 9).

It is given to `Popen`: what bwrap itself holds can be read in the sandbox as
/proc/1/environ, so unsetting by its flags would hide nothing (finding F3).
"""

from __future__ import annotations

from collections.abc import Mapping

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_KEPT = frozenset(
    {
        "CARGO_HOME",
        "COLUMNS",
        "CONDA_DEFAULT_ENV",
        "CONDA_PREFIX",
        "GOPATH",
        "GOROOT",
        "JAVA_HOME",
        "LANG",
        "LANGUAGE",
        "LINES",
        "LOGNAME",
        "NVM_BIN",
        "NVM_DIR",
        "PATH",
        "PYENV_ROOT",
        "PYENV_VERSION",
        "RUSTUP_HOME",
        "RUSTUP_TOOLCHAIN",
        "TERM",
        "TZ",
        "USER",
        "VIRTUAL_ENV",
    }
)


def build(
    environ: Mapping[str, str], *, home: str, tmp: str, extra: Mapping[str, str]
) -> dict[str, str]:
    """
    The variables that a command sees.

    Args:
        environ: where allowed variables (locale, PATH, tool chains) are taken from.
        home: the private home, as seen inside.
        tmp: the private temporary folder, as seen inside.
        extra: variables that the caller adds; they win.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if (name in _KEPT or name.startswith("LC_")) and value
    }
    return {
        "PATH": _DEFAULT_PATH,
        "TERM": "dumb",
        **kept,
        "HOME": home,
        "SHELL": "/bin/bash",
        "TMPDIR": tmp,
        **extra,
    }
