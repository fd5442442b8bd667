"""Which names a file system takes for the same one."""

from __future__ import annotations

import os
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.files.case import folded, ignores_case

TEXTS = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), max_size=8)


@given(TEXTS, st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
def test_forms_of_one_name_are_folded_alike(name, form):
    """Composition and case count for nothing, and folding twice changes nothing."""
    once = folded(name)
    assert once == folded(unicodedata.normalize(form, name)) == folded(once)
    if name.isascii():
        assert once == folded(name.swapcase())


def test_slashes_stay(tmp_path):
    """Each name of a path is folded by itself."""
    assert folded("/A./\u00c9 /\u200bc") == folded("/a/e\u0301/c")
    assert folded("/a/b") != folded("/ab")


@pytest.mark.skipif(sys.platform != "linux", reason="case counts in the temporary folder")
def test_a_folder_tells_by_what_is_in_it_or_by_what_it_is_in(tmp_path):
    """Empty, missing, with names that have no case: then the one around it decides."""
    (tmp_path / "1").mkdir()
    (tmp_path / "Mixed").mkdir()
    for folder in (tmp_path, tmp_path / "1", tmp_path / "not" / "there", tmp_path / "Mixed"):
        assert not ignores_case(os.path.realpath(folder))
