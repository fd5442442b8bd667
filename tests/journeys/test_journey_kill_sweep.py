"""
Spec section 10: SIGKILL at any instant loses nothing that the client was shown.

Here a few places of the turn; `scripts/soak/kill_sweep.py` takes all of them, and more.
"""

from __future__ import annotations

import pytest

from tests.harness.kill_sweep import STREAM, TURN, KillSweep

# Of a turn with about 42 lines.
PLACES = ((0, 9, 16), (23, 29), (34, 41))


@pytest.fixture(name="sweep")
def _sweep(tmp_path):
    """Servers that are killed, and the model that they share."""
    sweep = KillSweep(tmp_path)
    yield sweep
    sweep.close()


@pytest.mark.parametrize("places", PLACES, ids=str)
def test_a_kill_between_two_lines_of_a_turn_loses_nothing(sweep, places):
    """All that was told is replayed, what was open is closed, and the next prompt works."""
    for place in places:
        sweep.kill_after(place, TURN)
    assert sweep.kills == len(places)


def test_a_kill_while_text_streams_loses_nothing(sweep):
    """In the middle of the thoughts, and of the text."""
    for place in (10, 70):
        assert sweep.kill_after(place, STREAM).endswith("_chunk")
