"""What was typed before is kept for the user alone."""

from __future__ import annotations

import os
import stat

from term2_acp.chat.history import MAX_ENTRIES, PromptHistory


def test_entries_come_back_newest_first(tmp_path):
    """Several lines are one entry; folder and file are made, readable by the user alone."""
    path = tmp_path / "new" / "history"
    for text in ("one", "two\nlines", "ü\u2028"):
        PromptHistory(str(path)).store_string(text)
    assert list(PromptHistory(str(path)).load_history_strings()) == ["ü\u2028", "two\nlines", "one"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_an_older_file_becomes_private(tmp_path):
    """Whatever its mode was."""
    path = tmp_path / "history"
    path.write_text('"old"\nnot json\n7\n')
    path.chmod(0o644)
    history = PromptHistory(str(path))
    history.store_string("new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(history.load_history_strings()) == ["new", "old"]


def test_a_long_file_is_shortened(tmp_path):
    """The newest entries stay."""
    path = tmp_path / "history"
    path.write_text("".join(f'"{number}"\n' for number in range(3 * MAX_ENTRIES)))
    history = PromptHistory(str(path))
    assert next(iter(history.load_history_strings())) == str(3 * MAX_ENTRIES - 1)
    assert len(path.read_text().splitlines()) == MAX_ENTRIES
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["history"]


def test_what_cannot_be_kept_is_left_out(tmp_path):
    """A link that somebody laid is not followed; nothing is raised."""
    target = tmp_path / "target"
    link = tmp_path / "history"
    link.symlink_to(target)
    PromptHistory(str(link)).store_string("secret")
    assert not target.exists()
    (tmp_path / "file").write_text("")
    PromptHistory(str(tmp_path / "file" / "history")).store_string("secret")
    assert list(PromptHistory(str(tmp_path / "none")).load_history_strings()) == []
