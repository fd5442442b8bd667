"""
Spec section 4 over sequences: whatever is sent in whatever order, each request gets its one answer.

`FUZZ_COUNT=5000` tries so many sequences of each kind (`make fuzz-wire`).
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.wire.player import new_player
from tests.wire.sequences import SAID, SEQUENCES

COUNT = int(os.environ.get("FUZZ_COUNT") or 0)
bounded = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


class Players:
    """One player for each version, replaced once it failed."""

    def __init__(self, folder):
        self._folder = folder
        self._players = {}

    def get(self, version):
        if version not in self._players:
            player = new_player(self._folder(f"version-{version}"))
            player.initialize(version)
            self._players[version] = player
        return self._players[version]

    def drop(self, version):
        self._players.pop(version).client.process.dispose()

    def close(self):
        for player in self._players.values():
            player.client.close()


@pytest.fixture(scope="module")
def players(tmp_path_factory):
    """The servers that many sequences share; each must end in order at last."""
    players = Players(tmp_path_factory.mktemp)
    yield players
    players.close()


@pytest.mark.timeout(0 if COUNT else 120)
@pytest.mark.parametrize("version", [2, 1])
@settings(bounded, max_examples=COUNT or 50)
@given(steps=SEQUENCES, said=SAID)
def test_each_request_of_any_sequence_is_answered_once(players, version, steps, said):
    """With the id and the code that section 4 says; nothing else is, and prompts still work."""
    player = players.get(version)
    try:
        player.play(steps, said)
    except BaseException:
        players.drop(version)
        raise


@pytest.mark.timeout(0 if COUNT else 120)
@settings(bounded, max_examples=COUNT // 10 or 3)
@given(steps=SEQUENCES, rest=SEQUENCES, version=st.sampled_from([1, 2]))
def test_before_initialize_nothing_else_is_answered(tmp_path_factory, steps, rest, version):
    """A sequence from the first line on, whether it initializes or not; then one that does."""
    player = new_player(tmp_path_factory.mktemp("fresh"))
    try:
        player.play(steps, [], version)
        player.play(rest, [])
    except BaseException:
        player.client.process.dispose()
        raise
    player.client.close()
