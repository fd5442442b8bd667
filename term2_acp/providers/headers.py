"""Headers that a vendor's SDK would take from the environment by itself."""

from __future__ import annotations

import os


def ambient_header_names(variable: str) -> list[str]:
    """
    The names in a `NAME: VALUE` list such as OPENAI_CUSTOM_HEADERS.

    They are meant for the vendor, so that a request to anybody else leaves them out.
    Whether there is a header with the key is decided elsewhere.
    """
    names: list[str] = []
    for line in os.environ.get(variable, "").split("\n"):
        name, colon, _ = line.partition(":")
        if colon and name.strip().lower() != "authorization":
            names.append(name.strip())
    return names
