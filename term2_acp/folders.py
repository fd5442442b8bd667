"""Where the program keeps its state and finds its configuration (spec section 2)."""

from __future__ import annotations

import os

import platformdirs


class Folders:
    """
    The program's own folders, as real paths.

    Args:
        config: the folder of `config.toml`.
        state: the folder of the session store and of the sandbox's private folders.
    """

    def __init__(self, config: str, state: str) -> None:
        self.config = os.path.realpath(config)
        self.state = os.path.realpath(state)
        self.home = os.path.realpath(os.path.expanduser("~"))

    @classmethod
    def of_user(cls) -> Folders:
        """The folders of the user, by the XDG variables or the platform's custom."""
        return cls(
            platformdirs.user_config_dir("term2", appauthor=False),
            platformdirs.user_state_dir("term2", appauthor=False),
        )

    @property
    def config_file(self) -> str:
        """The configuration file, whether it exists or not."""
        return os.path.join(self.config, "config.toml")

    @property
    def private(self) -> tuple[str, ...]:
        """What no session may work in or reach without being asked for."""
        # The file may be a link into a folder of settings that are kept elsewhere.
        return (self.state, self.config, os.path.realpath(self.config_file))


def make_folder(path: str) -> None:
    """
    Make a folder for its owner alone, and what is missing on the way to it likewise.

    Whoever may write into a folder on the way could put another in its place.

    Raises:
        OSError: it cannot be made.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    except FileNotFoundError:
        make_folder(os.path.dirname(path))
        make_folder(path)
