"""Random edits come out as the reference model of the file says; `make fuzz` runs many more."""

from __future__ import annotations

from pathlib import Path

from tests.tools.edit_scripts import run_script

SCRIPTS = 150


def test_random_edits_do_what_the_reference_does(tmp_path: Path) -> None:
    """All of them, from the same seeds each time; a difference tells its seed."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    for seed in range(SCRIPTS):
        assert run_script(seed, folder) is None
