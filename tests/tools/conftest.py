"""A bench for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A workspace and a folder next to it, both empty."""
    return Bench.in_folder(tmp_path)
