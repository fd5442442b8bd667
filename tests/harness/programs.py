"""Programs that some tests need and a machine may lack."""

from __future__ import annotations

import os
import shutil

import pytest


def program(name: str) -> str:
    """
    The path of a program; without it the test is skipped, but in CI it fails.

    CI (`TERM2_CI` is set) has all of them: `scripts/setup.sh` installs them there.
    """
    path = shutil.which(name)
    if path is None:
        if os.environ.get("TERM2_CI"):
            pytest.fail(f"there is no {name}; scripts/setup.sh should have installed it for CI")
        pytest.skip(f"there is no {name}")
    return path
