"""`docs/editors.md`: the settings can be copied as they stand."""

from __future__ import annotations

import json
import re

from tests.harness.home import SOURCE

COMMAND = "/path/to/term2/.venv/bin/term2"


def test_the_settings_of_every_editor_are_whole_and_start_the_agent() -> None:
    """Each names the command and `acp`; JSON is JSON; each editor of the table has a section."""
    text = (SOURCE / "docs" / "editors.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE))
    table = re.findall(r"^\| \[(.+?)\]\(#(.+?)\) \|", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", name).lower().replace(" ", "-") for name in sections}
    assert {anchor for _, anchor in table} == anchors
    assert {name for name, _ in table} == set(sections)
    for name, section in sections.items():
        ((language, block),) = re.findall(
            r"^```(\w+)\n(.*?)^```", section, re.DOTALL | re.MULTILINE
        )
        assert COMMAND in block, name
        assert re.search(r"\bacp\b", block.replace(COMMAND, "")), name
        if language == "json":
            json.loads(block)


def test_the_settings_of_the_readme_are_json() -> None:
    """They are members of a larger file, or the whole of one."""
    text = (SOURCE / "README.md").read_text(encoding="utf-8")
    settings = re.findall(r"`[~./\w]+\.json`: `(.+?)`", text)
    assert len(settings) == 4
    for setting in settings:
        whole = setting if setting.startswith("{") else "{" + setting + "}"
        assert '["/path/to/term2", "acp"]' in whole or '"args": ["acp"]' in whole
        json.loads(whole)
