"""Which names a file system takes for the same one."""

from __future__ import annotations

import os
import sys
import unicodedata

_MOST_LOOKED_AT = 64


def folded(text: str) -> str:
    """
    Return a form that is the same for all texts that some file system takes for one name.

    Case, composition, characters that are not shown, and dots and blanks at the end count for
    nothing; slashes stay where they are.
    """
    if not text.isascii():
        shown = (c for c in unicodedata.normalize("NFKD", text) if not _is_ignorable(c))
        text = unicodedata.normalize("NFKD", "".join(shown).casefold())
    parts = text.casefold().split("/")
    return "/".join(part.rstrip(". ") for part in parts)


def ignores_case(folder: str) -> bool:
    """
    Say whether a folder takes names without regard to their case.

    Where it is not there, or has no name that could tell, the folder around it decides.

    Args:
        folder: an absolute real path.
    """
    if sys.platform == "darwin":
        return True
    while True:
        told = _told_by_entries(folder)
        if told is not None:
            return told
        if folder == "/":
            return False
        folder = os.path.dirname(folder)


def _told_by_entries(folder: str) -> bool | None:
    """What the names in a folder say; None if nothing."""
    try:
        with os.scandir(folder) as entries:
            for _, entry in zip(range(_MOST_LOOKED_AT), entries, strict=False):
                swapped = entry.name.swapcase()
                if swapped != entry.name:
                    return _is_same(os.path.join(folder, entry.name), os.path.join(folder, swapped))
    except OSError:
        return None
    return None


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.lstat(other))
    except OSError:
        return False


def _is_ignorable(character: str) -> bool:
    # Format characters such as the zero-width ones, and marks that only choose a variant.
    return unicodedata.category(character) == "Cf" or "\ufe00" <= character <= "\ufe0f"
