"""Fixtures that run real commands in the real sandbox; bwrap must be there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.sandbox import leftovers
from tests.sandbox.machine import Machine, Remote, accounts


@pytest.fixture(scope="session", autouse=True)
def bwrap_is_installed() -> None:
    """In CI a missing bwrap is a failure; elsewhere only what needs it is skipped."""
    if os.environ.get("CI") and shutil.which("bwrap") is None:
        pytest.fail("bubblewrap is not installed, but CI must test the sandbox")


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """After all tests: no process, mount, file or control group of theirs."""
    yield
    leftovers.assert_none(tmp_path_factory.getbasetemp())


@pytest.fixture(params=accounts(), ids=lambda uid: "root" if uid == 0 else "user")
def uid(request: pytest.FixtureRequest) -> int:
    """Every user that the behaviour must hold for."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    return int(request.param)


@pytest.fixture(scope="session")
def remotes() -> Iterator[dict[int, Remote]]:
    """One server for each user, for all tests that do not kill it."""
    started = {uid: Remote(uid) for uid in accounts()}
    yield started
    for remote in started.values():
        remote.close()


@pytest.fixture
def machine(uid: int, remotes: dict[int, Remote]) -> Iterator[Machine]:
    """A machine of its own, with nothing in its home and workspace."""
    with Machine(uid, remotes[uid]) as machine:
        yield machine


@pytest.fixture
def expendable(uid: int) -> Iterator[Machine]:
    """A machine whose server may be killed."""
    with Machine(uid) as machine:
        yield machine
