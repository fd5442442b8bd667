"""
Changes of several files, all or none (spec section 7).

What is done is noted with how to undo it, and undone from the last to the first when a later
change fails. Deleted files are only set aside until everything is done, so that bringing them
back loses nothing of them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress

import attrs

from term2_acp.agent.ports import ToolError
from term2_acp.files import descent, writing
from term2_acp.files.descent import FileState
from term2_acp.files.errors import FileRefusedError, file_errors
from term2_acp.files.scope import FileEdit

logger = logging.getLogger(__name__)


@attrs.frozen
class PlannedChange:
    """What one file is to become; `data` is None for a file that is to go."""

    edit: FileEdit
    data: bytes | None


@attrs.frozen
class _Done:
    """A change that was made: how to take it back, and what to clear up once all are made."""

    shown: str
    undo: Callable[[], None]
    finish: Callable[[], None]


def change_all(orders: Sequence[PlannedChange]) -> None:
    """
    Make every change, or none; the edit lock of each file is held.

    The session then knows the new contents.

    Raises:
        ToolError: one cannot be made; all files are as they were, or the message names those
            that could not be put back.
    """
    done: list[_Done] = []
    try:
        for order in orders:
            done.append(_change(order))  # noqa: PERF401  what was made counts also if it fails
    except BaseException as error:
        lost = [change.shown for change in reversed(done) if not _undone(change)]
        if lost and isinstance(error, ToolError):
            raise ToolError(f"{error} These could not be put back: {', '.join(lost)}.") from error
        raise
    for change in done:
        change.finish()
    for order in orders:
        if order.data is not None:
            order.edit.remember(order.data)


def _undone(change: _Done) -> bool:
    try:
        change.undo()
    except (OSError, FileRefusedError) as error:
        logger.error("%s could not be put back: %s", change.shown, error)
        return False
    return True


def _change(order: PlannedChange) -> _Done:
    edit, data = order.edit, order.data
    if data is None:
        with file_errors("delete", edit.shown):
            return _delete(edit)
    with file_errors("write", edit.shown):
        return _create(edit, data) if edit.state is None else _update(edit, edit.state, data)


def _create(edit: FileEdit, data: bytes) -> _Done:
    missing = _missing_folders(edit.path)
    with descent.open_parent(edit.path, make=True) as (folder, name):
        writing.create_file(folder, name, data)
        made = _as_written(folder, name, data)

    def undo() -> None:
        with descent.open_parent(edit.path) as (folder, name):
            aside = writing.set_aside(folder, name, made)
            os.unlink(aside, dir_fd=folder)
        for path in missing:
            # What somebody else put there meanwhile keeps its folder.
            with suppress(OSError), descent.open_parent(path) as (folder, name):
                os.rmdir(name, dir_fd=folder)

    return _Done(edit.shown, undo, _nothing)


def _update(edit: FileEdit, old: FileState, data: bytes) -> _Done:
    with descent.open_parent(edit.path) as (folder, name):
        writing.replace_content(folder, name, old, data, in_place=edit.in_place)
        written = _as_written(folder, name, data)

    def undo() -> None:
        with descent.open_parent(edit.path) as (folder, name):
            writing.replace_content(folder, name, written, old.data, in_place=edit.in_place)

    return _Done(edit.shown, undo, _nothing)


def _delete(edit: FileEdit) -> _Done:
    if edit.state is None:
        raise FileNotFoundError
    with descent.open_parent(edit.path) as (folder, name):
        aside = writing.set_aside(folder, name, edit.state)

    def undo() -> None:
        with descent.open_parent(edit.path) as (folder, name):
            writing.bring_back(folder, aside, name)

    def finish() -> None:
        try:
            with descent.open_parent(edit.path) as (folder, _name):
                os.unlink(aside, dir_fd=folder)
        except OSError as error:
            logger.warning("what is left of %s could not be removed: %s", edit.shown, error)

    return _Done(edit.shown, undo, finish)


def _as_written(folder: int, name: str, data: bytes) -> FileState:
    """The file as it was made; not read again, as somebody may be writing to it already."""
    return FileState(data, os.stat(name, dir_fd=folder, follow_symlinks=False))


def _missing_folders(path: str) -> list[str]:
    """The folders that are not there yet, the innermost first."""
    missing = []
    while not os.path.lexists(path := os.path.dirname(path)):
        missing.append(path)
    return missing


def _nothing() -> None:
    """Nothing is left to do."""
