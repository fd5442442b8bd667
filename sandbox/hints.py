"""Saying in plain words that the sandbox was probably why a command failed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sandbox import paths
from sandbox.policy import Policy

_NETWORK = re.compile(
    r"Network is unreachable|Temporary failure in name resolution|Could not resolve host"
    r"|Name or service not known|getaddrinfo (?:ENOTFOUND|EAI_AGAIN)|ENETUNREACH"
    r"|failed to lookup address|nodename nor servname|Failed to connect to (?!localhost|127\.)",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"Read-only file system|Device or resource busy|Permission denied|Operation not permitted"
    # How a stand-in for an absent path shows.
    r"|Is a directory|File exists|\b(?:EROFS|EBUSY|EACCES|EPERM|EISDIR|EEXIST)\b",
    re.IGNORECASE,
)
_PATH = re.compile(r"(?<![\w./])(?:~|\.{0,2})/[^\s'\"`:;,()<>|]+|(?<![\w/])\.[\w.-]+(?:/[\w.-]+)*")
_READ_ONLY = re.compile(r"Read-only file system|EROFS", re.IGNORECASE)


def explain(policy: Policy, tail: bytes, guarded: frozenset[str]) -> str | None:
    """
    A hint for a command that failed, from the end of its output; None if nothing points here.

    Args:
        policy: of the session.
        tail: the end of the command's output.
        guarded: the protected and masked paths of this call.
    """
    text = tail.decode("utf-8", "replace")
    if _NETWORK.search(text):
        return "The sandbox has no network: commands can reach neither the internet nor this host."
    own = (*policy.writable, *policy.tmp_folders, policy.home)
    for line in text.splitlines()[::-1]:
        if not _DENIED.search(line):
            continue
        # The last path named is the one refused: the first may be the program that says so.
        named = [_absolute(found[0], policy) for found in _PATH.finditer(line)][::-1]
        for path in named:
            if paths.deepest(path, guarded):
                return f"The sandbox keeps {path} as it is: it is protected or hidden."
        if not _READ_ONLY.search(line):
            continue
        outside = [path for path in named if not paths.deepest(path, own)]
        if outside:
            return (
                f"The sandbox allows writing only in {policy.workspace}, the temporary folder "
                f"and a private home; {outside[0]} lies outside."
            )
        if not named:
            return "The sandbox allows writing only in the workspace, without its protected paths."
    return None


def restoration(restored: Sequence[str]) -> str:
    """What to say when protected paths were changed all the same."""
    return (
        f"Protected, changed all the same, and put back where possible: {', '.join(restored)}. "
        "What was found there instead is kept beside it, with `.displaced-` in its name."
    )


def _absolute(path: str, policy: Policy) -> str:
    if path.startswith("~/"):
        return policy.home + path[1:]
    parts: list[str] = [] if path.startswith("/") else policy.workspace.split("/")
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(part for part in parts if part)
