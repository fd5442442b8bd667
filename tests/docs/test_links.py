"""The documents lead to each other and to files that are there."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT, documents

LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (?P<text>.*)$", re.MULTILINE)
FENCED = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)


def anchors(path):
    """The names that a forge gives to the headings of a document."""
    found = set()
    for heading in HEADING.finditer(FENCED.sub("", path.read_text(encoding="utf-8"))):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading["text"]).lower()
        found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path):
    """Files and headings; addresses elsewhere are not asked for."""
    for link in LINK.finditer(FENCED.sub("", path.read_text(encoding="utf-8"))):
        target, _, anchor = link["target"].partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        there = path if not target else (path.parent / target).resolve()
        assert there.exists(), f"{path.name} links to {target}, which is not there"
        if anchor:
            assert anchor in anchors(there), f"{path.name}: no heading #{anchor} in {there.name}"


def test_the_index_names_every_document():
    """Whoever adds a document to docs/ adds a line to docs/README.md."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs").glob("*.md")):
        assert path.name == "README.md" or f"({path.name})" in index, path.name


def test_the_configuration_reference_is_up_to_date():
    """A setting that is changed is described."""
    script = ROOT / "scripts" / "make_configuration_reference.py"
    ended = subprocess.run(
        [sys.executable, script, "--check"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
