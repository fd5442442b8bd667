"""Every command and every configuration in the documents is tried, so that none goes stale."""

from __future__ import annotations

import pytest

from tests.docs.blocks import blocks, documents, read
from tests.docs.kinds import KINDS
from tests.docs.not_run import NOT_RUN

HOW = f"""
{{block}}: nothing knows how to try a block of kind {{kind!r}}. Do one of these:
- give it a kind that fits: {", ".join(KINDS)} (`text` is for what is not run);
- write a function for its kind and add it to KINDS in tests/docs/kinds.py;
- list it, with the reason, in NOT_RUN in tests/docs/not_run.py.
"""


def is_listed(block):
    return (block.document, block.first_line) in NOT_RUN


@pytest.mark.parametrize("block", [b for b in blocks() if not is_listed(b)], ids=str)
def test_a_block_does_what_the_document_says(block, home):
    """It is run, loaded or parsed, as its kind asks for."""
    assert block.kind in KINDS, HOW.format(block=block, kind=block.kind)
    KINDS[block.kind](block, home)


def test_what_is_not_run_is_there_and_has_a_reason():
    """An entry that fits no block is taken out; a document that is renamed is noticed."""
    there = {(block.document, block.first_line) for block in blocks()}
    assert set(NOT_RUN) <= there
    assert all(len(reason) > 20 for reason in NOT_RUN.values())


def test_blocks_are_found_in_lists_and_in_longer_fences(tmp_path):
    """None is overlooked because of how it is written."""
    path = tmp_path / "a.md"
    path.write_text("- x\n\n  ```sh\n  a\n    b\n  ```\n~~~~text prompt\n```\nc\n~~~~\n")
    first, second = read(path, tmp_path)
    assert (first.kind, first.role, first.text, first.line) == ("sh", "", "a\n  b\n", 3)
    assert (second.kind, second.role, second.text) == ("text", "prompt", "```\nc\n")


def test_there_are_blocks_of_every_kind():
    """The documents are found at all."""
    assert {"README.md", "CHANGELOG.md"} <= {path.name for path in documents()}
    assert {"toml", "json", "sh", "python", "text"} <= {block.kind for block in blocks()}
