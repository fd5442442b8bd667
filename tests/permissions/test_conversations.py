"""Spec section 8, played at random: no conversation runs a call that the client did not allow."""

from __future__ import annotations

import pytest

from tests.permissions.fuzz import A_ROUND, rounds

SEED = 4
COUNT = 96


@pytest.mark.parametrize("index", range(COUNT // A_ROUND))
def test_no_call_runs_without_an_allow(tmp_path, index):
    """Its effect is there when it was allowed and not aborted, and never when it was not."""
    played = list(rounds(tmp_path, SEED, COUNT))[index]
    played.root.mkdir()
    played.play()
    where = f"seed {SEED}, conversations {played.numbers}, {played.ending}"
    assert not played.faults, "\n".join([where, *played.faults])
