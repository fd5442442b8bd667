"""The stage that the cases of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.permissions.stage import Stage


@pytest.fixture(scope="module", name="stage")
def _stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A server with a scripted model."""
    stage = Stage(tmp_path_factory.mktemp("stage"))
    yield stage
    stage.close()
