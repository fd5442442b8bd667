"""Identifiers that are unique without asking anyone."""

from __future__ import annotations

import os


def new_id(prefix: str) -> str:
    """A fresh identifier such as `call_5f0c…`: 96 random bits after the prefix."""
    return f"{prefix}_{os.urandom(12).hex()}"
