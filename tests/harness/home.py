"""A user's machine in a temporary folder: home, configuration, state, a small project."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import attrs

import term2_acp

# Where the program under test is imported from, installed or not.
SOURCE = Path(term2_acp.__file__).resolve().parents[1]

SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD")

PROJECT = {
    "README.md": "# Teapot\n\nA small program that pours tea.\n",
    "src/teapot.py": (
        "def pour(cups):\n"
        '    """Pour tea into some cups."""\n'
        '    return ["tea"] * cups\n'
        "\n"
        "\n"
        "if __name__ == '__main__':\n"
        "    print(pour(2))\n"
    ),
    "src/kettle.py": "BOILING_POINT = 100\n",
    "tests/test_teapot.py": "from teapot import pour\n\n\ndef test_pour():\n    assert pour(1)\n",
    ".gitignore": "build/\n*.log\n",
    "build/out.txt": "ignored\n",
}


@attrs.frozen
class Home:
    """
    The folders and the environment that a server under test sees.

    `mark` is a value in the environment of the server and so of every program
    that it starts outside of its sandbox.
    """

    root: Path
    mark: str = attrs.Factory(lambda: f"mark-{uuid.uuid4().hex}")

    @classmethod
    def create(cls, root: Path) -> Home:
        """Make the folders under `root`, which is empty."""
        home = cls(root)
        for folder in (home.path, home.config, home.state):
            folder.mkdir(parents=True)
        return home

    @property
    def path(self) -> Path:
        """What HOME names."""
        return self.root / "home"

    @property
    def config(self) -> Path:
        """What XDG_CONFIG_HOME names."""
        return self.root / "config"

    @property
    def state(self) -> Path:
        """What XDG_STATE_HOME names."""
        return self.root / "state"

    def environment(self, **extra: str) -> dict[str, str]:
        """The environment of the server: this one's without keys and settings, plus `extra`."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TERM2_", "XDG_"))
            and not any(word in name.upper() for word in SECRET_WORDS)
        }
        kept.update(
            HOME=str(self.path),
            XDG_CONFIG_HOME=str(self.config),
            XDG_STATE_HOME=str(self.state),
            PYTHONPATH=str(SOURCE),
            TERM2_TEST_MARK=self.mark,
        )
        kept.update(extra)
        return kept

    def configure(self, text: str) -> None:
        """Write the configuration file."""
        folder = self.config / "term2"
        folder.mkdir(exist_ok=True)
        (folder / "config.toml").write_text(text, encoding="utf-8")

    def project(self, name: str = "project") -> Path:
        """Make a small project (once a name) and give its real path."""
        folder = (self.root / "work" / name).resolve()
        for relative, text in PROJECT.items():
            path = folder / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return folder
